"""Layers made of layers that stay quantized through save and load."""

import keras
import numpy as np

PREFIX = "quantized_"


def quantized_layers(model):
    """Returns (name, mode) of each of a model's layers that is quantized."""
    modes = [(layer.name, layer.quantization_mode) for layer in model._flatten_layers()]
    return [(name, mode) for name, mode in modes if mode is not None]


class QuantizationRecord:
    """Put before `Layer` in a class whose `build` makes layers: saves which of them are quantized.

    `Model.quantize` changes the innermost layers; the config of a layer around them does not tell,
    so that Keras would build them anew in floats and could not load their integers.
    """

    def save_own_variables(self, store):
        super().save_own_variables(store)
        for index, layer in enumerate(self._flatten_layers(include_self=False)):
            if layer.quantization_mode is not None:
                policy = keras.dtype_policies.get(layer.dtype_policy)
                store[f"{PREFIX}{index}"] = np.frombuffer(policy.name.encode(), "uint8")

    def load_own_variables(self, store):
        own = {key: store[key] for key in store.keys()}
        # Keras loads a layer before the layers inside it.
        for index, layer in enumerate(self._flatten_layers(include_self=False)):
            name = own.pop(f"{PREFIX}{index}", None)
            if name is not None and layer.quantization_mode is None:
                layer.dtype_policy = bytes(np.asarray(name)).decode()
        super().load_own_variables(own)
