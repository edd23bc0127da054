"""Layers that are passed to several others and stay one object through save and load."""

import keras
from keras.src.backend.common.global_state import get_global_attribute
from keras.src.saving.serialization_lib import (
    get_shared_object,
    record_object_after_deserialization,
)


class SharedLayer(keras.layers.Layer):
    """A layer that knows itself again in a saved model, wherever it was passed.

    Keras marks an object that it meets a second time while it saves, but by then it has copied the
    config of the first meeting. This layer carries its mark from the first meeting on, and only
    within a saved model: a config taken alone is the same for equal layers.
    """

    def get_config(self):
        config = super().get_config()
        if get_global_attribute("shared_objects/id_to_config_map") is not None:
            config["shared_as"] = id(self)
        return config

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        shared_as = config.pop("shared_as", None)
        layer = None if shared_as is None else get_shared_object(shared_as)
        if layer is None:
            layer = super().from_config(config)
            record_object_after_deserialization(layer, shared_as)
        return layer
