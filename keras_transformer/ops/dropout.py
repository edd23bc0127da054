"""Dropout that draws 16 random bits a number: half of a training step may else be random numbers.

    dropout(x, r) = x m / (1 - r),   m = 0 with probability r, else 1

The rate is rounded to a multiple of 2^-16, and what is kept is scaled by just that rate, so that
the expectation is the input.
"""

from keras_transformer.ops import backend

STEPS = 2**16


def dropout(inputs, rate, seed):
    """Drops entries of a tensor (section 5.4).

    Args:
        inputs: float, any shape. rate: float in [0, 1).
        seed: integer (2,), of a `keras.random.SeedGenerator`.

    Returns:
        Like `inputs`.
    """
    return backend.scaled_at_random(inputs, seed, _dropped_steps(rate), _scale(rate))


def keep_mask(seed, shape, rate, block=None):
    """Returns bool of a shape: False with probability `rate`, the same for the same arguments.

    Args:
        seed: integer (2,). block: optional int or int32 scalar; each has a mask of its own.
    """
    return backend.at_least(seed, shape, _dropped_steps(rate), block)


def drop(inputs, keep, rate):
    """Returns the inputs where `keep`, scaled by 1 / (1 - rate), and zero elsewhere."""
    return backend.scaled_where(keep, inputs, _scale(rate))


def _scale(rate):
    return STEPS / (STEPS - _dropped_steps(rate))


def _dropped_steps(rate):
    return min(round(rate * STEPS), STEPS - 1)
