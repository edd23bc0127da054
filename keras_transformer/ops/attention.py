"""Scaled dot-product attention, exact, with the whole matrix of scores (section 3.2.1).

    Attention(Q, K, V) = softmax(Q K^T scale + bias) V

Letters: B batch, T queries, S keys, N query heads, M key/value heads (N = M G), H head width.
"""

import numpy as np
from keras import ops

from keras_transformer.ops import backend
from keras_transformer.ops.attention_request import bias_block, visible_block
from keras_transformer.ops.dropout import dropout

# Scores are float32 when they are masked, so the lowest float32 takes part in no overflow.
LOWEST = float(np.finfo("float32").min)


def dense_attention(query, key, value, request):
    """Attends with all T x S scores at once.

    Args:
        query: (B, T, N, H). key: (B, S, M, H). value: (B, S, M, W); M divides N.
        request: `AttentionRequest`.

    Returns:
        (output (B, T, N, W), weights (B, N, T, S)). A row that may attend to nothing is zero in
        both.
    """
    heads_first = (ops.swapaxes(each, 1, 2) for each in (query, key, value))
    output, weights = heads_first_attention(*heads_first, request)
    return ops.swapaxes(output, 1, 2), weights


def heads_first_attention(query, key, value, request):
    """`dense_attention` for (B, N, T, H), (B, M, S, H) and (B, M, S, W): output (B, N, T, W)."""
    rows, columns = ops.shape(query)[2], ops.shape(key)[2]
    scores = attention_scores(query, key, request)  # (B, N, T, S)
    visible = visible_block(request, 0, rows, 0, columns)
    bias = bias_block(request, 0, rows, 0, columns)
    if bias is not None:
        scores = ops.add(scores, bias)
    weights = ops.cast(masked_softmax(scores, visible), value.dtype)
    dropped = weights
    if request.dropout:
        dropped = dropout(weights, request.dropout, request.seed_generator.next())
    return weighted_values(dropped, value), weights


def fused_dense_attention(query, key, value, request):
    """Like `dense_attention` without weights, by the backend's kernel: it keeps no T x S matrix."""
    rows, columns = ops.shape(query)[1], ops.shape(key)[1]
    # The kernel's own flag spares it a mask; it means positions 0.. for queries and keys alike.
    plain_causal = (
        request.causal and request.query_positions is None and request.key_positions is None
    )
    visible = visible_block(
        request._replace(causal=request.causal and not plain_causal), 0, rows, 0, columns
    )
    alive = None
    if visible is not None:
        # Kernels differ on rows that see nothing: such a row gets everything here and zero below.
        alive = row_is_alive(request, rows, columns) if plain_causal else _any_key(visible)
        visible = ops.logical_or(visible, ops.logical_not(alive))
    bias = bias_block(request, 0, rows, 0, columns)
    output = backend.fused_attention(
        query, key, value, visible, bias, request.scale, is_causal=plain_causal
    )
    if alive is None:
        return output
    alive = ops.transpose(alive, (0, 2, 1, 3))  # (B|1, T|1, N|1, 1)
    return ops.where(alive, output, ops.zeros_like(output))


def row_is_alive(request, rows, columns):
    """Returns bool (B|1, N|1, T, 1): whether a query may attend to any key at all."""
    return _any_key(visible_block(request, 0, rows, 0, columns))


def _any_key(visible):
    return ops.any(visible, axis=-1, keepdims=True)


def attention_scores(query, key, request):
    """Returns float32 (B, N, T, S): scale Q K^T, soft-capped where asked.

    Args:
        query: (B, N, T, H). key: (B, M, S, H).
    """
    # Scaling the queries is T x H work instead of T x S.
    query = ops.multiply(query, ops.cast(request.scale, query.dtype))
    scores = backend.matrix_product(_grouped(query, key), key, transpose_right=True)
    scores = ops.cast(_ungrouped(scores, query), "float32")
    if request.logit_soft_cap is not None:
        cap = request.logit_soft_cap
        scores = ops.multiply(ops.tanh(ops.divide(scores, cap)), cap)
    return scores


def masked_softmax(scores, visible):
    """Softmax over the last axis of what is visible; a row with nothing visible is zero.

    Args:
        scores: float32 (B, N, T, S). visible: bool that broadcasts to it, or None.
    """
    if visible is None:
        return ops.softmax(scores, axis=-1)
    weights = ops.softmax(ops.where(visible, scores, LOWEST), axis=-1)
    alive = ops.any(visible, axis=-1, keepdims=True)
    return ops.where(alive, weights, ops.zeros_like(weights))


def weighted_values(weights, value):
    """Returns (B, N, T, W): the sums of the values (B, M, S, W) under weights (B, N, T, S)."""
    return _ungrouped(ops.matmul(_grouped(weights, value), value), weights)


def _grouped(heads, groups):
    """Returns (B, M, G T, X) from (B, N, T, X): head n reads key/value head n // G of `groups`."""
    if heads.shape[1] == groups.shape[1]:
        return heads
    shape = ops.shape(heads)
    times = heads.shape[1] // groups.shape[1]
    return ops.reshape(heads, (shape[0], groups.shape[1], times * shape[2], shape[3]))


def _ungrouped(grouped, heads):
    """Returns (B, N, T, X) from (B, M, G T, X), with N and T those of `heads`."""
    if grouped.shape[1] == heads.shape[1]:
        return grouped
    shape = ops.shape(heads)
    return ops.reshape(grouped, (shape[0], heads.shape[1], shape[2], ops.shape(grouped)[3]))
