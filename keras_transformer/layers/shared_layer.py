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

    # The axes of the queries' shape (B, T, N, H) that what `build` makes depends on.
    built_from_axes = ()

    def build_for(self, heads_shape):
        """Builds itself for the first layer that it is passed to, and checks the others.

        Raises:
            ValueError: if the queries (B, T, N, H) of a layer differ from those of the first in
                what its state was made for.
        """
        if not self.built:
            self.build(heads_shape)
        first = self.get_build_config()["input_shape"]
        if any(first[axis] != heads_shape[axis] for axis in self.built_from_axes):
            raise ValueError(
                f"{type(self).__name__} {self.name!r} must serve layers with equal heads; it was "
                f"built for {first[2]} heads of {first[3]} and got {heads_shape[2]} of "
                f"{heads_shape[3]}. Pass the other layer an object of its own."
            )

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
