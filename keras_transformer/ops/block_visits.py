"""Which blocks of the scores hold anything that may be seen.

Letters: A = B or 1, R blocks of t queries, C blocks of s keys.
"""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.ops import backend
from keras_transformer.ops.attention_request import is_global
from keras_transformer.ops.blocks import filled, repeated_last

LAST = int(np.iinfo("int32").max)


class Visits(NamedTuple):
    """For each block along one axis, how many along the other to visit, and which.

    Attributes:
        counts: int (R,). blocks: int (R, C), those to visit in front. Read with `backend.entry`.
    """

    counts: Any
    blocks: Any


def block_visits(request, plan, rows_wanted=None):
    """Returns (for each block of queries, for each block of keys) the `Visits`.

    The answer may hold blocks in which nothing is visible, but leaves out none in which something
    is.

    Args:
        request: `AttentionRequest`, not padded. plan: `Blocks`.
        rows_wanted: bool (A, T), rows whose output is needed, or None for all.
    """
    needed = ops.ones((1, plan.row_count, plan.column_count), "bool")
    if request.causal or request.window is not None:
        needed = ops.logical_and(needed, _within_reach(request, plan))
    if request.query_segments is not None:
        low, high = _row_range(request.query_segments, plan)
        key_low, key_high = _column_range(request.key_segments, _seen_keys(request, plan), plan)
        overlap = ops.logical_and(
            low[:, :, None] <= key_high[:, None, :], high[:, :, None] >= key_low[:, None, :]
        )
        needed = ops.logical_and(needed, overlap)
    if request.key_mask is not None:
        real = ops.any(_columns(request.key_mask, plan, False), axis=-1)  # (B, C)
        needed = ops.logical_and(needed, real[:, None, :])
    if rows_wanted is not None:
        wanted = ops.any(_rows(rows_wanted, plan), axis=-1)  # (A, R)
        needed = ops.logical_and(needed, wanted[:, :, None])
    needed = ops.any(needed, axis=0)
    return _visits(needed), _visits(ops.transpose(needed))


def _visits(needed):
    """Returns the `Visits` of a bool (R, C)."""
    columns = ops.shape(needed)[1]
    places = ops.arange(columns, dtype="int32")
    order = ops.argsort(ops.where(needed, places, places + columns), axis=1)
    counts = ops.sum(ops.cast(needed, "int32"), axis=1)
    return Visits(backend.lookup_table(counts), backend.lookup_table(ops.cast(order, "int32")))


def _within_reach(request, plan):
    """Returns bool (A, R, C): whether causal mask and window leave anything of a block."""
    queries = _positions(request.query_positions, plan.rows)
    keys = _positions(request.key_positions, plan.columns)
    low, high = _row_range(queries, plan)
    key_low, key_high = _column_range(keys, _seen_keys(request, plan), plan)
    low, high = low[:, :, None], high[:, :, None]
    key_low, key_high = key_low[:, None, :], key_high[:, None, :]
    reach = key_low <= high if request.causal else key_low <= key_high
    if request.window is None:
        return reach
    near = key_high > low - request.window
    if not request.causal:
        # Not high + window, which could pass the largest int.
        near = ops.logical_and(near, key_low - request.window < high)
    query_global = is_global(request, request.query_positions, 0, plan.rows)
    if query_global is not None:
        key_global = is_global(request, request.key_positions, 0, plan.columns)
        query_global = ops.any(_rows(query_global, plan), axis=-1)[:, :, None]
        key_global = ops.any(_columns(key_global, plan, False), axis=-1)[:, None, :]
        near = ops.logical_or(near, ops.logical_or(query_global, key_global))
    return ops.logical_and(reach, near)


def _positions(positions, length):
    return ops.arange(length, dtype="int32")[None] if positions is None else positions


def _seen_keys(request, plan):
    """Returns bool (A, C, s): keys that are neither empty nor filling."""
    return _columns(_positions(request.key_positions, plan.columns), plan, -1) >= 0


def _row_range(numbers, plan):
    """Returns the (lowest, highest) of int (A, T) in each block of queries, (A, R) each."""
    blocks = _rows(numbers, plan)
    return ops.min(blocks, axis=-1), ops.max(blocks, axis=-1)


def _column_range(numbers, seen, plan):
    """Returns the (lowest, highest) of int (A, S) among each block's seen keys, (A, C) each."""
    blocks = _columns(numbers, plan, -1)
    low = ops.min(ops.where(seen, blocks, LAST), axis=-1)
    return low, ops.max(ops.where(seen, blocks, -1), axis=-1)


def _rows(numbers, plan):
    """Returns (A, R, t) from (A, T); what fills the last block repeats the last row."""
    numbers = repeated_last(numbers, plan.rows, plan.padded_rows)
    return ops.reshape(numbers, (ops.shape(numbers)[0], plan.row_count, plan.row_length))


def _columns(numbers, plan, value):
    """Returns (A, C, s) from (A, S)."""
    numbers = filled(numbers, 1, plan.columns, plan.padded_columns, value)
    return ops.reshape(numbers, (ops.shape(numbers)[0], plan.column_count, plan.column_length))
