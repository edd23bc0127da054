"""A small Transformer with random weights, and data for it."""

import keras
import numpy as np
from keras import ops

from keras_transformer.layers import (
    AlibiBias,
    LearnedPositionEncoding,
    RelativePositionBias,
    RotaryPosition,
)
from keras_transformer.models import Transformer

VOCABULARY = 29
SCHEMES = {
    "sinusoidal": lambda: "sinusoidal",
    "rotary": RotaryPosition,
    "alibi": AlibiBias,
    "relative": lambda: RelativePositionBias(num_buckets=8, max_distance=11),
    "learned": lambda: LearnedPositionEncoding(max_length=13),
}


def tiny_transformer(**options):
    sizes = {"num_layers": 1, "model_dim": 12, "num_heads": 3, "intermediate_dim": 17}
    return Transformer(**{"vocabulary_size": VOCABULARY, **sizes, **options})


def randomize(model, scale=0.4, seed=9):
    """Gives every weight, biases and gains too, a random value."""
    random = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        noise = random.normal(scale=scale, size=variable.shape)
        variable.assign(ops.convert_to_numpy(variable.value) + noise)
    return model


def sentences(lengths, seed=3, width=None, start=()):
    """Returns int32 (B, width), rows of random ids of these lengths, padded on the right."""
    random = np.random.default_rng(seed)
    rows = np.zeros((len(lengths), width or max(lengths)), "int32")
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = random.integers(4, VOCABULARY, length)
        row[: len(start)] = start
    return rows


def padded_left(rows):
    """Returns the rows with the padding moved from the right to the left."""
    return np.stack([np.roll(row, np.sum(row == 0)) for row in rows])


def compiled(function):
    """JAX compiles one operation at a time for minutes, or a whole function in a second."""
    if keras.config.backend() != "jax":
        return function
    import jax

    return jax.jit(function)


def logits(model, source, target):
    inputs = {"source": source, "target": target}
    if keras.config.backend() == "jax":
        return model.predict_on_batch(inputs)
    return ops.convert_to_numpy(model(inputs, training=False))


def translation_pairs(rows=8, source_width=5, target_width=4, seed=0):
    """Returns ({"source", "target"}, labels), targets of uneven lengths."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, target_width + 1, rows)
    lengths[:2] = 1, target_width
    source = sentences(random.integers(1, source_width + 1, rows), seed + 1, source_width)
    labels = sentences(lengths, seed + 2, target_width)
    labels[np.arange(rows), lengths - 1] = 3
    target = np.concatenate([np.full((rows, 1), 2), labels[:, :-1]], axis=1).astype("int32")
    target[labels == 0] = 0
    return {"source": source, "target": target}, labels
