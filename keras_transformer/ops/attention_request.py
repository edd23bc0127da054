"""What one call of attention asks of a mechanism: who may attend to whom, and what is added to the scores.

Nothing here is a T x S matrix unless the caller passed one: a mechanism takes the block it works on with
`visible_block` and `bias_block`, so that O(n) mechanisms stay O(n).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

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
        bias: float (B|1, N|1, T, S) added to the scaled scores, or None.
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
    """Returns `length` entries of one axis from `start`, which may be a traced integer."""
    if isinstance(start, int) and start == 0 and tensor.shape[axis] == length:
        return tensor
    index = ops.add(ops.arange(length, dtype="int32"), start)
    return ops.take(tensor, index, axis=axis)


def visible_block(request, row_start, rows, column_start, columns):
    """Returns bool (B|1, N|1, rows|1, columns): who may attend to whom in a block of the scores.

    None stands for a block in which everything is visible.
    """
    parts = []
    if request.key_mask is not None:
        key_mask = slice_axis(request.key_mask, 1, column_start, columns)
        parts.append(key_mask[:, None, None, :])
    if request.key_positions is not None:
        key_positions = block_positions(request.key_positions, column_start, columns)
        parts.append(ops.greater_equal(key_positions, 0)[:, None, None, :])
    if request.causal:
        query_positions = block_positions(request.query_positions, row_start, rows)
        key_positions = block_positions(request.key_positions, column_start, columns)
        earlier = ops.less_equal(key_positions[:, None, :], query_positions[:, :, None])
        parts.append(earlier[:, None])
    if request.query_segments is not None:
        query_segments = slice_axis(request.query_segments, 1, row_start, rows)
        key_segments = slice_axis(request.key_segments, 1, column_start, columns)
        same = ops.equal(query_segments[:, :, None], key_segments[:, None, :])
        parts.append(same[:, None])
    if request.attention_mask is not None:
        mask = slice_axis(request.attention_mask, 2, row_start, rows)
        parts.append(slice_axis(mask, 3, column_start, columns))
    if not parts:
        return None
    visible = parts[0]
    for part in parts[1:]:
        visible = ops.logical_and(visible, part)
    return visible


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
        bias = slice_axis(request.bias, 2, row_start, rows)
        bias = ops.cast(slice_axis(bias, 3, column_start, columns), "float32")
        total = bias if total is None else ops.add(total, bias)
    return total
