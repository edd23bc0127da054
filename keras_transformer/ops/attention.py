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
    rows, columns = ops.shape(query)[1], ops.shape(key)[1]
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
    """Returns float32 (B, N, T, S): scale Q K^T, soft-capped where asked."""
    # Scaling the queries is T x H work instead of T x S.
    query = ops.multiply(query, ops.cast(request.scale, query.dtype))
    if query.shape[2] == key.shape[2]:
        scores = ops.einsum("btnh,bsnh->bnts", query, key)
    else:
        grouped = _group_heads(query, key.shape[2])  # (B, T, M, G, H)
        scores = ops.einsum("btmgh,bsmh->bmgts", grouped, key)
        shape = ops.shape(scores)
        scores = ops.reshape(scores, (shape[0], query.shape[2], shape[3], shape[4]))
    scores = ops.cast(scores, "float32")
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
    """Returns (B, T, N, W): the sums of the values under weights (B, N, T, S)."""
    heads, groups = weights.shape[1], value.shape[2]
    if heads == groups:
        return ops.einsum("bnts,bsnw->btnw", weights, value)
    shape = ops.shape(weights)
    grouped = ops.reshape(weights, (shape[0], groups, heads // groups, shape[2], shape[3]))
    output = ops.einsum("bmgts,bsmw->btmgw", grouped, value)
    shape = ops.shape(output)
    return ops.reshape(output, (shape[0], shape[1], heads, shape[4]))


def _group_heads(query, groups):
    """Returns (B, T, M, G, H) from (B, T, N, H): head n reads key/value head n // G."""
    shape = ops.shape(query)
    return ops.reshape(
        query, (shape[0], shape[1], groups, query.shape[2] // groups, query.shape[3])
    )
