"""The Transformer of "Attention Is All You Need" as Keras 3 layers."""

from keras_transformer import decoding, evaluation, layers, models, text, training
from keras_transformer.translator import Translator

__version__ = "0.1.0"

__all__ = [
    "Translator",
    "decoding",
    "evaluation",
    "layers",
    "models",
    "text",
    "training",
]
