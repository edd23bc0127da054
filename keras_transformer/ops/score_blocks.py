"""One block of the scores, made the same way in the forward and in the backward pass.

Letters as in `blockwise_attention`: t queries and s keys in a block.
"""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.ops import backend, dropout
from keras_transformer.ops.attention_request import bias_block, visible_block
from keras_transformer.ops.block_visits import block_visits
from keras_transformer.ops.blocks import (
    filled,
    fold_groups,
    key_block,
    padded_request,
    query_block,
    unfold_groups,
)


class BlockInputs(NamedTuple):
    """What every block reads: tensors padded to whole blocks, and which blocks to visit."""

    query: Any
    key: Any
    value: Any
    request: Any
    plan: Any
    seed: Any
    by_row: Any  # for each block of queries, the blocks of keys to visit
    by_column: Any  # for each block of keys, the blocks of queries


def block_inputs(query, key, value, request, plan, named):
    seed, rows_wanted = named.pop("seed", None), named.pop("rows_wanted", None)
    request = request._replace(**named)
    by_row, by_column = block_visits(request, plan, rows_wanted)
    return BlockInputs(
        filled(query, 1, plan.rows, plan.padded_rows),
        filled(key, 1, plan.columns, plan.padded_columns),
        filled(value, 1, plan.columns, plan.padded_columns),
        padded_request(request, plan),
        plan,
        seed,
        by_row,
        by_column,
    )


def score_block(inputs, query, i, j):
    """Returns (scores float32 (B, N, t, s), -inf where hidden; slope of the soft cap or None)."""
    plan, request = inputs.plan, inputs.request
    key = key_block(inputs.key, j, plan.column_length)
    scores = ops.cast(
        backend.matrix_product(query, key, transpose_right=True), "float32"
    )  # (B, M, G t, s)
    scores = unfold_groups(scores, inputs.query.shape[2])
    slope = None
    if request.logit_soft_cap is not None:
        bent = ops.tanh(scores / request.logit_soft_cap)
        scores, slope = bent * request.logit_soft_cap, 1.0 - bent * bent
    place = (i * plan.row_length, plan.row_length, j * plan.column_length, plan.column_length)
    bias = bias_block(request, *place)
    if bias is not None:
        scores = scores + bias
    visible = visible_block(request, *place)
    if visible is not None:
        scores = ops.where(visible, scores, -np.inf)
    return scores, slope


def scaled_query_block(inputs, i):
    """Returns (B, M, G t, H), multiplied by the scale."""
    query = query_block(inputs.query, i, inputs.plan.row_length, inputs.key.shape[2])
    return query * ops.cast(inputs.request.scale, query.dtype)


def times_keys(weights, block):
    """Returns float32 (B, N, t, X): weights (B, N, t, s) times keys or values (B, M, s, X)."""
    folded = ops.cast(fold_groups(weights, block.shape[1]), block.dtype)
    return unfold_groups(ops.cast(ops.matmul(folded, block), "float32"), weights.shape[1])


def times_queries(weights, block):
    """Returns float32 (B, M, s, X): sums over queries of weights (B, N, t, s) x (B, M, G t, X)."""
    folded = ops.cast(fold_groups(weights, block.shape[1]), block.dtype)
    return ops.cast(backend.matrix_product(folded, block, transpose_left=True), "float32")


def keep_mask(inputs, weights, i, j):
    """Returns bool (B, N, t, s): what dropout leaves of a block, the same in both passes."""
    index = i * inputs.plan.column_count + j
    return dropout.keep_mask(inputs.seed, ops.shape(weights), inputs.request.dropout, index)


def drop(inputs, keep, weights):
    return dropout.drop(weights, keep, inputs.request.dropout)
