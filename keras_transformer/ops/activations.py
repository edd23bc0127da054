"""Activations of published families that Keras has no name for."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_transformer")
def gelu_tanh(inputs):
    """GELU by tanh (Hendrycks and Gimpel 2016, section 2), as in GPT-2 and T5 v1.1."""
    return ops.gelu(inputs, approximate=True)


@keras.saving.register_keras_serializable(package="keras_transformer")
def quick_gelu(inputs):
    """GELU by a sigmoid (Hendrycks and Gimpel 2016, section 2): x sigmoid(1.702 x)."""
    return ops.multiply(inputs, ops.sigmoid(ops.multiply(1.702, inputs)))


@keras.saving.register_keras_serializable(package="keras_transformer")
def squared_relu(inputs):
    """relu(x)^2 (So et al. 2021, section 4.2)."""
    return ops.square(ops.relu(inputs))


_BY_NAME = {"gelu_tanh": gelu_tanh, "quick_gelu": quick_gelu, "squared_relu": squared_relu}


def get_activation(identifier):
    """Returns the activation of that name, config or function: Keras's, and those of this file.

    >>> get_activation("gelu_tanh") is gelu_tanh
    True
    """
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]
    return keras.activations.get(identifier)
