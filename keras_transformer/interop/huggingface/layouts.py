"""How a tensor of a checkpoint lies beside this library's variables.

Letters: D model width, N heads, H head width, F inner width. PyTorch's linear maps keep (outputs,
inputs), Keras's (inputs, outputs); attention keeps its heads as an axis: (D, N, H) on the way in
and (N, H, D) on the way out.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Layout(NamedTuple):
    """Two functions, each the inverse of the other.

    Attributes:
        join: list of this library's arrays -> the checkpoint's array.
        split: the checkpoint's array, list of shapes -> list of this library's arrays.
    """

    join: Callable
    split: Callable


def _one(join, split=None):
    """The layout of a tensor that is one variable; by default `split` only reshapes."""
    split = split or (lambda array, shape: array.reshape(shape))
    return Layout(
        lambda arrays: join(arrays[0]),
        lambda array, shapes: [split(array, shapes[0])],
    )


SAME = _one(lambda array: array)
FLAT = _one(lambda array: array.reshape(-1))
LINEAR = _one(lambda array: array.T, lambda array, shape: array.T)
HEADS_IN = _one(
    lambda array: array.reshape(array.shape[0], -1).T,  # (N H, D)
    lambda array, shape: array.T.reshape(shape),
)
HEADS_OUT = _one(
    lambda array: array.reshape(-1, array.shape[-1]).T,  # (D, N H)
    lambda array, shape: array.T.reshape(shape),
)
# GPT-2 keeps (inputs, outputs) as Keras does.
HEADS_OUT_AS_IS = _one(lambda array: array.reshape(-1, array.shape[-1]))
FUSED_HEADS = Layout(  # (D, 3 N H)
    lambda arrays: np.concatenate([each.reshape(each.shape[0], -1) for each in arrays], axis=1),
    lambda array, shapes: _parts(array, shapes, axis=1),
)
FUSED_BIASES = Layout(  # (3 N H,)
    lambda arrays: np.concatenate([each.reshape(-1) for each in arrays]),
    lambda array, shapes: _parts(array, shapes, axis=0),
)
ONE_ROW = _one(lambda array: array[None])  # (1, V)
# A convolution's (D, C, height, width) beside ours (height, width, C, D).
CONVOLUTION = _one(
    lambda array: array.transpose(3, 2, 0, 1), lambda array, shape: array.transpose(2, 3, 1, 0)
)


def _parts(array, shapes, axis):
    parts = np.split(array, len(shapes), axis=axis)
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
