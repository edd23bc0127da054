"""What one call of attention asks of a mechanism: who sees whom, and what is added to the scores.

Nothing here is a T x S matrix unless the caller passed one: a mechanism takes the block that it
works on with `visible_block` and `bias_block`, so that O(n) mechanisms stay O(n).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keras import ops


class AttentionRequest(NamedTuple):
    """One call of attention. Letters: B batch, N heads, T queries, S keys. True = may attend.

    Attributes:
        causal: whether a query sees only keys at its own position and before.
        key_mask: bool (B, S), or None.
        attention_mask: bool (B|1, N|1, T, S), or None.
        query_positions: int32 (B|1, T) absolute positions, or None for 0..T-1.
        key_positions: int32 (B|1, S), or None for 0..S-1. A negative position marks an empty place.
        query_segments: int32 (B|1, T), or None: packed sentences see only their own segment.
        key_segments: int32 (B|1, S), or None.
        window: int w, or None: a query sees keys less than w positions away (before it and, unless
            causal, after it), and global tokens; a global token sees everything.
        global_tokens: int g: the tokens at positions 0 .. g - 1 are global; read with a `window`.
        global_mask: bool (B|1, T), True where a token of a self-attention is global besides, or
            None.
        global_heads: query, key and value heads for what global tokens see, or None for the same.
        bias: float (B|1, N|1, T, S) added to the scaled scores, or None. -inf hides a key.
        position_bias: function of (query_positions (A, t), key_positions (A, s), *parameters) that
            returns float (A, N, t, s) to add to the scores, or None.
        position_parameters: tuple of the tensors that `position_bias` is to be differentiated by.
        scale: float, multiplies the products of query and key.
        logit_soft_cap: float c, scores become c tanh(scores / c) before bias and mask, or None.
        dropout: float, share of attention weights dropped in this call.
        seed_generator: `keras.random.SeedGenerator` for the dropout, or None.
        return_scores: whether the attention weights are asked for too.
    """

    causal: bool = False
    key_mask: Any = None
    attention_mask: Any = None
    query_positions: Any = None
    key_positions: Any = None
    query_segments: Any = None
    key_segments: Any = None
    window: int | None = None
    global_tokens: int = 0
    global_mask: Any = None
    global_heads: tuple | None = None
    bias: Any = None
    position_bias: Callable | None = None
    position_parameters: tuple = ()
    scale: float = 1.0
    logit_soft_cap: float | None = None
    dropout: float = 0.0
    seed_generator: Any = None
    return_scores: bool = False


def block_positions(positions, start, length):
    """Returns int32 (A, length): the positions of a block, counted from 0 where none are given."""
    if positions is None:
        return ops.expand_dims(ops.add(ops.arange(length, dtype="int32"), start), 0)
    return slice_axis(positions, 1, start, length)


def slice_axis(tensor, axis, start, length):
    """Returns `length` entries of one axis from `start`, which may be a traced integer.

    An axis of length 1 is there to be broadcast and stays.
    """
    if tensor.shape[axis] == 1 or (
        isinstance(start, int) and start == 0 and tensor.shape[axis] == length
    ):
        return tensor
    if isinstance(start, int) and isinstance(length, int):
        return tensor[(slice(None),) * axis + (slice(start, start + length),)]
    starts = [start if each == axis else 0 for each in range(len(tensor.shape))]
    shape = [*ops.shape(tensor)[:axis], length, *ops.shape(tensor)[axis + 1 :]]
    return ops.slice(tensor, starts, shape)


def visible_block(request, row_start, rows, column_start, columns):
    """Returns bool (B|1, N|1, rows|1, columns): who may attend to whom in a block of the scores.

    None stands for a block in which everything is visible.
    """
    parts = []
    block = (row_start, rows, column_start, columns)
    if request.key_mask is not None:
        key_mask = slice_axis(request.key_mask, 1, column_start, columns)
        parts.append(key_mask[:, None, None, :])
    if request.key_positions is not None:
        key_positions = block_positions(request.key_positions, column_start, columns)
        parts.append(ops.greater_equal(key_positions, 0)[:, None, None, :])
    if request.causal or request.window is not None:
        parts.append(_near_block(request, row_start, rows, column_start, columns)[:, None])
    if request.query_segments is not None:
        query_segments = slice_axis(request.query_segments, 1, row_start, rows)
        key_segments = slice_axis(request.key_segments, 1, column_start, columns)
        same = ops.equal(query_segments[:, :, None], key_segments[:, None, :])
        parts.append(same[:, None])
    if request.attention_mask is not None:
        mask = slice_axis(request.attention_mask, 2, row_start, rows)
        parts.append(slice_axis(mask, 3, column_start, columns))
    if request.bias is not None:
        # Minus infinity hides a key, so that a row of nothing else is zero, not NaN. NaN stays.
        parts.append(ops.not_equal(_given_bias(request, *block), -np.inf))
    if not parts:
        return None
    visible = parts[0]
    for part in parts[1:]:
        visible = ops.logical_and(visible, part)
    return visible


def _near_block(request, row_start, rows, column_start, columns):
    """Returns bool (A, rows, columns): which keys the causal mask and the window leave."""
    query_positions = block_positions(request.query_positions, row_start, rows)
    key_positions = block_positions(request.key_positions, column_start, columns)
    distance = ops.subtract(query_positions[:, :, None], key_positions[:, None, :])
    if request.window is None:
        return ops.greater_equal(distance, 0)
    near = ops.less(distance, request.window)
    if not request.causal:
        near = ops.logical_and(near, ops.greater(distance, -request.window))
    query_global = is_global(request, request.query_positions, row_start, rows)
    key_global = is_global(request, request.key_positions, column_start, columns)
    if query_global is not None:
        either = ops.logical_or(query_global[:, :, None], key_global[:, None, :])
        near = ops.logical_or(near, either)
    return ops.logical_and(near, ops.greater_equal(distance, 0)) if request.causal else near


def is_global(request, positions, start, length):
    """Returns bool (A, length): which tokens of a block are global, or None if none can be."""
    named = None
    if request.global_mask is not None:
        named = slice_axis(request.global_mask, 1, start, length)
    if not request.global_tokens:
        return named
    positions = block_positions(positions, start, length)
    first = ops.logical_and(
        ops.greater_equal(positions, 0), ops.less(positions, request.global_tokens)
    )
    return first if named is None else ops.logical_or(first, named)


def bias_block(request, row_start, rows, column_start, columns):
    """Returns float32 (B|1, N|1, rows, columns) to add to a block of the scores, or None."""
    total = None
    if request.position_bias is not None:
        total = request.position_bias(
            block_positions(request.query_positions, row_start, rows),
            block_positions(request.key_positions, column_start, columns),
            *request.position_parameters,
        )
    if request.bias is not None:
        bias = _given_bias(request, row_start, rows, column_start, columns)
        bias = ops.where(ops.not_equal(bias, -np.inf), bias, 0.0)  # hidden: see `visible_block`
        total = bias if total is None else ops.add(total, bias)
    return total


def _given_bias(request, row_start, rows, column_start, columns):
    """Returns float32 (B|1, N|1, rows, columns): a block of the caller's bias."""
    bias = slice_axis(request.bias, 2, row_start, rows)
    return ops.cast(slice_axis(bias, 3, column_start, columns), "float32")
