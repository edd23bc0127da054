"""Softmax attention by positive random features (FAVOR+, Choromanski et al. 2021), in O(n).

    exp(q . k) = E_w[ phi_w(q) phi_w(k) ],   phi_w(x) = exp(w . x - |x|^2 / 2),  w normal

so that sums over keys can be taken once and read by all queries. Everything is float32. Each
query's and key's largest exponent is taken out before the exponential: the query's cancels, the
key's is put back relative to the largest one that the query may see, so that the future changes
nothing.

Letters: B batch, T queries, S keys, N heads, F features, H and W widths, c length of a chunk.
"""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.ops import backend
from keras_transformer.ops.attention import LOWEST


class FeatureSums(NamedTuple):
    """Sums over the keys so far, each divided by exp(highest).

    Attributes:
        values: float32 (B, N, F, W), sum of phi(k) v. weights: (B, N, F), sum of phi(k).
        highest: (B, N), the largest exponent of any key so far.
    """

    values: Any
    weights: Any
    highest: Any

    @property
    def num_rows(self):
        """R, hypotheses of all sentences."""
        return self.weights.shape[0]

    @classmethod
    def empty(cls, batch, heads, features, width):
        """Returns the sums over no keys."""
        return cls(
            ops.zeros((batch, heads, features, width), "float32"),
            ops.zeros((batch, heads, features), "float32"),
            ops.full((batch, heads), LOWEST, "float32"),
        )


def orthogonal_features(count, width, generator):
    """Returns float32 (count, width): normal vectors, orthogonal within each block of `width`.

    Their lengths are those of independent normal vectors, so that each alone is still normal
    (section 3.2 of the paper and its appendix).
    """
    blocks = []
    for _ in range(-(-count // width)):
        square, triangle = np.linalg.qr(generator.normal(size=(width, width)))
        blocks.append((square * np.sign(np.diag(triangle))).T)
    directions = np.concatenate(blocks)[:count]
    lengths = np.linalg.norm(generator.normal(size=(count, width)), axis=1, keepdims=True)
    return (directions * lengths).astype("float32")


def feature_exponents(heads, features, scale):
    """Returns float32 (B, T, N, F): w . x - |x|^2 / 2 for x = sqrt(scale) heads."""
    heads = ops.cast(heads, "float32") * scale**0.5
    products = ops.matmul(heads, ops.transpose(ops.cast(features, "float32")))
    return products - ops.sum(ops.square(heads), axis=-1, keepdims=True) / 2


def query_features(query, features, scale):
    """Returns float32 (B, T, N, F), each query's largest 1."""
    exponents = feature_exponents(query, features, scale)
    return ops.exp(exponents - ops.stop_gradient(ops.max(exponents, axis=-1, keepdims=True)))


def key_features(key, features, scale, visible):
    """Returns (float32 (B, S, N, F), each key's largest 1; its exponent (B, S, N))."""
    exponents = feature_exponents(key, features, scale)
    highest = ops.stop_gradient(ops.max(exponents, axis=-1))
    weights = ops.exp(exponents - highest[..., None])
    if visible is not None:
        weights = ops.where(visible[:, :, None, None], weights, 0.0)
        highest = ops.where(visible[:, :, None], highest, LOWEST)
    return weights, highest


def random_feature_attention(query, key, value, features, scale, visible):
    """Attends to all visible keys.

    Args:
        query: (B, T, N, H). key: (B, S, N, H). value: (B, S, N, W). features: (F, H).
        visible: bool (B|1, S), or None.

    Returns:
        (B, T, N, W) of the values' dtype; zero where no key is visible.
    """
    query_weights = query_features(query, features, scale)
    key_weights, highest = key_features(key, features, scale, visible)
    top = ops.max(highest, axis=1, keepdims=True)
    key_weights = key_weights * ops.exp(highest - top)[..., None]
    values = ops.einsum("bsnf,bsnw->bnfw", key_weights, ops.cast(value, "float32"))
    totals = ops.einsum("btnf,bnf->btn", query_weights, ops.sum(key_weights, axis=1))
    outputs = ops.einsum("btnf,bnfw->btnw", query_weights, values)
    return _divided(outputs, totals, value.dtype)


def causal_random_feature_attention(
    query, key, value, features, scale, visible, sums=None, chunk_length=128
):
    """Attends to the visible keys up to each query's own: T = S, in order.

    Args:
        query, key, value, features, scale, visible: as in `random_feature_attention`.
        sums: `FeatureSums` over keys before the first, or None.
        chunk_length: int, tokens that meet directly; earlier ones are met through the sums.

    Returns:
        (output (B, T, N, W), `FeatureSums` over all keys).
    """
    length = ops.shape(query)[1]
    chunk = min(chunk_length, length) if isinstance(length, int) else chunk_length
    count = -(-length // chunk)
    query_weights = query_features(query, features, scale)
    key_weights, highest = key_features(key, features, scale, visible)
    if sums is None:
        heads, width = query.shape[2], value.shape[3]
        sums = FeatureSums.empty(ops.shape(query)[0], heads, features.shape[0], width)
    inputs = (
        _chunks(query_weights, count, chunk, 0.0),
        _chunks(key_weights, count, chunk, 0.0),
        _chunks(ops.cast(value, "float32"), count, chunk, 0.0),
        _chunks(highest, count, chunk, LOWEST),
    )
    sums, outputs = backend.scan(
        lambda sums, chunks: _causal_chunk(FeatureSums(*sums), *chunks), tuple(sums), inputs
    )
    outputs = ops.transpose(outputs, (1, 0, 2, 3, 4))  # (B, count, c, N, W)
    shape = (ops.shape(query)[0], count * chunk, value.shape[2], value.shape[3])
    outputs = ops.reshape(outputs, shape)[:, :length]
    return ops.cast(outputs, value.dtype), FeatureSums(*sums)


def _chunks(tensor, count, length, value):
    """Returns (count, B, c, ...) from (B, T, ...), filled up with `value`."""
    missing = count * length - ops.shape(tensor)[1]
    if not (isinstance(missing, int) and missing == 0):
        widths = [(0, missing if axis == 1 else 0) for axis in range(len(tensor.shape))]
        tensor = ops.pad(tensor, widths, constant_values=value)
    shape = ops.shape(tensor)
    tensor = ops.reshape(tensor, (shape[0], count, length, *shape[2:]))
    return ops.moveaxis(tensor, 1, 0)


def _causal_chunk(sums, query_weights, key_weights, value, highest):
    """Returns (sums with the chunk's keys, output (B, c, N, W))."""
    length = query_weights.shape[1]
    highest = ops.transpose(highest, (0, 2, 1))  # (B, N, c)
    earlier = np.tril(np.ones((length, length), "bool"))
    exponents = ops.where(earlier, highest[:, :, None, :], LOWEST)  # (B, N, query, key)
    top = ops.maximum(ops.max(exponents, axis=-1), sums.highest[..., None])  # (B, N, query)
    near = ops.einsum("bqnf,bknf->bnqk", query_weights, key_weights)
    near = ops.where(earlier, near * ops.exp(exponents - top[..., None]), 0.0)
    far = ops.exp(sums.highest[..., None] - top)  # (B, N, query)
    far_values = ops.einsum("bqnf,bnfw->bnqw", query_weights, sums.values)
    far_total = ops.einsum("bqnf,bnf->bnq", query_weights, sums.weights)
    outputs = ops.einsum("bnqk,bknw->bnqw", near, value) + far_values * far[..., None]
    totals = ops.sum(near, axis=-1) + far_total * far
    outputs = _divided(outputs, totals, "float32")
    last = top[:, :, -1]
    shrink = ops.exp(sums.highest - last)
    key_weights = ops.transpose(key_weights, (0, 2, 1, 3))  # (B, N, c, F)
    key_weights = key_weights * ops.exp(highest - last[..., None])[..., None]
    added = ops.einsum("bnkf,bknw->bnfw", key_weights, value)
    sums = (
        sums.values * shrink[..., None, None] + added,
        sums.weights * shrink[..., None] + ops.sum(key_weights, axis=2),
        last,
    )
    return sums, ops.transpose(outputs, (0, 2, 1, 3))


def _divided(outputs, totals, dtype):
    """Returns outputs / totals in a dtype, zero where the total is; NaN stays."""
    alive = ops.not_equal(totals, 0)
    outputs = outputs / ops.where(alive, totals, 1.0)[..., None]
    return ops.cast(ops.where(alive[..., None], outputs, 0.0), dtype)
