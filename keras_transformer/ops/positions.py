"""Arithmetic of absolute positions. Positions are int32; angles and tables are float32."""

import math

import numpy as np
from keras import ops

from keras_transformer.ops.attention_checks import check_integers, differ, shape_of
from keras_transformer.ops.backend import concrete


def positions_from_mask(mask):
    """Returns int32 (B, T): each token's place among the real ones, -1 on padding.

    Left-padded and right-padded rows so get the positions that the sentence has alone.
    """
    mask = ops.cast(mask, "int32")
    return ops.subtract(ops.multiply(ops.cumsum(mask, axis=1), mask), 1)


def counted_positions(length, start_index=0):
    """Returns int32 (1, length): start_index, start_index + 1, ...; start_index may be traced."""
    return ops.expand_dims(ops.add(ops.arange(length, dtype="int32"), start_index), 0)


def encoded_positions(length, start_index, positions):
    """Returns int32 (A, T): the positions given, else those counted from `start_index`.

    Args:
        length: T, int or int32 scalar. start_index: int or int32 scalar.
        positions: int (T,) or (B, T), or None.
    """
    if positions is None:
        return counted_positions(length, start_index)
    positions = ops.cast(positions, "int32")
    return positions[None] if len(positions.shape) == 1 else positions


def check_encoded_positions(shape, start_index, positions):
    """Raises ValueError where the arguments of `encoded_positions` contradict its rules.

    Args:
        shape: of the input, (B, T, D), a size None where it is not known.
    """
    if positions is not None:
        _check_positions(shape, positions)
    check_integers("start_index", start_index)
    start = concrete(start_index)
    if positions is not None and (start is None or start != 0):
        raise ValueError(
            f"`start_index` must be left out where `positions` are given; got {start_index!r}. "
            "Positions are absolute: add it to them."
        )
    if start is not None and start < 0:
        raise ValueError(
            f"`start_index` must be 0 or more; got {start_index!r}. Padding on the left is told by "
            "`positions` of -1."
        )


def _check_positions(shape, positions):
    """Raises ValueError where positions are neither (T,) nor (B, T), 1 row standing for all."""
    check_integers("positions", positions)
    found = shape_of(positions)
    fits = len(found) in (1, 2) and not differ(found[-1], shape[1])
    if not fits or (len(found) == 2 and found[0] != 1 and differ(found[0], shape[0])):
        raise ValueError(
            f"`positions` must have shape (T,) or (B, T), here ({shape[1]},) or "
            f"{tuple(shape[:2])}; got {found}. Give each token its absolute position."
        )


def cubic_interpolation(old, new, sharpness=-0.75):
    """Returns the NumPy matrix (new, old) that makes `new` samples of `old` evenly spread ones.

    Sample i lies at x = (i + 1/2) old / new - 1/2 among the old, and is the sum of the four nearest
    by Keys's piecewise cubic of their distance; beyond an end stands the outermost.

    Args:
        old, new: ints. sharpness: slope of the cubic at distance 1, PyTorch's by default.

    Reference: Keys 1981, equations 4 and 15.
    """
    places = (np.arange(new) + 0.5) * old / new - 0.5
    left = np.floor(places).astype(int)
    weights = np.zeros((new, old))
    for near in range(-1, 3):
        distance = np.abs(places - left - near)
        inside = ((sharpness + 2) * distance - (sharpness + 3)) * distance**2 + 1
        outside = (((distance - 5) * distance + 8) * distance - 4) * sharpness
        weights_near = np.where(distance <= 1, inside, outside)
        np.add.at(weights, (np.arange(new), np.clip(left + near, 0, old - 1)), weights_near)
    return weights


def sinusoids(positions, width, max_wavelength=10000.0, interleaved=True):
    """Returns float32 (A, T, width): PE[pos, 2i] = sin(pos / w^(2i/d)), PE[pos, 2i+1] = cos(same).

    Args:
        positions: int (A, T), absolute. width: d, any positive int. max_wavelength: w.
        interleaved: whether sine and cosine of a pair are neighbours, or all sines come first.

    Section 3.5. An odd width ends with a sine.
    """
    pairs = (width + 1) // 2
    rates = ops.exp(
        ops.multiply(ops.arange(pairs, dtype="float32"), -2.0 * math.log(max_wavelength) / width)
    )
    angles = ops.multiply(ops.cast(positions, "float32")[:, :, None], rates)  # (A, T, pairs)
    both = [ops.sin(angles), ops.cos(angles)]  # 2 x (A, T, pairs)
    if not interleaved:
        return ops.concatenate(both, axis=-1)[:, :, :width]
    shape = ops.shape(positions)
    return ops.reshape(ops.stack(both, axis=-1), (shape[0], shape[1], 2 * pairs))[:, :, :width]
