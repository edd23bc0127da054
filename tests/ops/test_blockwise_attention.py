"""Law 6: blockwise attention is the dense one, values and gradients."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.relative_position_bias import RelativePositionBias
from keras_transformer.ops.attention import dense_attention
from keras_transformer.ops.attention_request import AttentionRequest
from keras_transformer.ops.blockwise_attention import blockwise_attention

B, T, S, N, M, H, W = 2, 11, 13, 6, 3, 5, 7
RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.normal(size=shape).astype("float32")


KEY_MASK = np.arange(S) < np.array([[9], [4]])
DEAD_ROW = np.ones((1, 1, T, S), "bool")
DEAD_ROW[0, 0, 3] = False
LEFT_PADDED = [list(range(S)), [-1] * 4 + list(range(S - 4))]
SEGMENTS = [[0] * 3 + [1] * 6 + [2] * 4, [0] * 8 + [1] * 5]
RESTARTED = [[*range(3), *range(6), *range(4)], [*range(8), *range(5)]]

REQUESTS = {
    "plain": {},
    "causal": {"causal": True},
    "key mask": {"key_mask": KEY_MASK},
    "any mask": {"attention_mask": RANDOM.random((B, N, T, S)) > 0.4},
    "dead row": {"attention_mask": DEAD_ROW},
    "broadcast mask": {"attention_mask": KEY_MASK[:, None, None, :], "causal": True},
    "soft cap": {"logit_soft_cap": 1.5, "causal": True},
    "left padding": {"key_positions": LEFT_PADDED, "query_positions": [[*range(2, T + 2)]] * B},
    "left padding, causal": {
        "causal": True,
        "key_positions": LEFT_PADDED,
        "query_positions": [row[:T] for row in LEFT_PADDED],
    },
    "packed": {
        "causal": True,
        "query_segments": [row[:T] for row in SEGMENTS],
        "key_segments": SEGMENTS,
        "query_positions": [row[:T] for row in RESTARTED],
        "key_positions": RESTARTED,
    },
    "window, causal": {"causal": True, "window": 3},
    "window": {"window": 3},
    "window with global tokens": {"window": 2, "global_tokens": 2},
    "window with global tokens, causal": {"window": 2, "global_tokens": 2, "causal": True},
    "window, left padding": {
        "window": 3,
        "global_tokens": 1,
        "key_positions": LEFT_PADDED,
        "query_positions": [row[:T] for row in LEFT_PADDED],
    },
}


def request_of(asked):
    tensors = {
        name: ops.convert_to_tensor(np.asarray(value, "bool" if "mask" in name else "int32"))
        for name, value in asked.items()
        if not isinstance(value, int | float)
    }
    return AttentionRequest(scale=0.4, **{**asked, **tensors})


def assert_same(gradients, arrays, blockwise, dense):
    """Asserts that two functions of the arrays have the same values and gradients."""
    upstream = normal(B, T, N, W)
    ours, our_gradients = gradients(blockwise, arrays, upstream)
    right, right_gradients = gradients(dense, arrays, upstream)
    np.testing.assert_allclose(ours, right, atol=1e-5)
    for each, other in zip(our_gradients, right_gradients, strict=True):
        np.testing.assert_allclose(each, other, atol=1e-5)


@pytest.mark.parametrize("name", REQUESTS)
def test_equals_dense(name, gradients):
    request = request_of(REQUESTS[name])
    assert_same(
        gradients,
        (normal(B, T, N, H), normal(B, S, M, H), normal(B, S, M, W)),
        lambda *heads: blockwise_attention(*heads, request, 4),
        lambda *heads: dense_attention(*heads, request)[0],
    )


@pytest.mark.parametrize("block_size", [1, 11, 64])
def test_equals_dense_for_any_block_size(block_size, gradients):
    request = AttentionRequest(causal=True)
    assert_same(
        gradients,
        (normal(B, T, N, H), normal(B, S, M, H), normal(B, S, M, W)),
        lambda *heads: blockwise_attention(*heads, request, block_size),
        lambda *heads: dense_attention(*heads, request)[0],
    )


@pytest.mark.parametrize("shape", [(B, N, T, S), (1, 1, T, S), (B, 1, 1, S), (1, N, T, 1)])
def test_gradient_of_a_bias(shape, gradients):
    def request(bias):
        return AttentionRequest(bias=bias, causal=True)

    assert_same(
        gradients,
        (normal(B, T, N, H), normal(B, S, M, H), normal(B, S, M, W), normal(*shape)),
        lambda *heads: blockwise_attention(*heads[:3], request(heads[3]), 4),
        lambda *heads: dense_attention(*heads[:3], request(heads[3]))[0],
    )


@pytest.mark.parametrize("batched", [False, True])
def test_gradient_of_a_table_of_relative_positions(batched, gradients):
    position = RelativePositionBias(num_buckets=8, max_distance=16)
    position.build((B, T, N, H))
    positions = np.array([range(S), range(3, S + 3)], "int32")

    def request(table):
        return AttentionRequest(
            position_bias=position.bias,
            position_parameters=(table,),
            key_positions=ops.convert_to_tensor(positions) if batched else None,
        )

    assert_same(
        gradients,
        (normal(B, T, N, H), normal(B, S, M, H), normal(B, S, M, W), normal(8, N)),
        lambda *heads: blockwise_attention(*heads[:3], request(heads[3]), 4),
        lambda *heads: dense_attention(*heads[:3], request(heads[3]))[0],
    )


def test_dropout_is_the_same_in_both_passes_and_of_its_rate(gradients):
    query, key = np.zeros((1, 64, 2, 3), "float32"), np.zeros((1, 48, 2, 3), "float32")
    value = np.ones((1, 48, 2, 1), "float32")
    generator = keras.random.SeedGenerator(5)

    def attend(query, key, value):
        request = AttentionRequest(dropout=0.25, seed_generator=generator)
        return blockwise_attention(query, key, value, request, 20)

    upstream = np.ones((1, 64, 2, 1), "float32")
    output, found = gradients(attend, (query, key, value), upstream)
    kept = np.array(output) * 48 * 0.75
    np.testing.assert_allclose(kept, np.round(kept), atol=1e-4)  # each a count of kept keys
    assert abs(kept.mean() / 48 - 0.75) < 0.02 and kept.std() > 1
    # The output is linear in the values: under one mask, output = gradient . value.
    np.testing.assert_allclose(np.sum(found[2] * value), np.sum(output), rtol=1e-5)


def test_gradient_under_dropout_by_differences(gradients):
    arrays = normal(1, 5, 2, 3), normal(1, 7, 2, 3), normal(1, 7, 2, 3)
    directions = [normal(*each.shape) for each in arrays]
    upstream = normal(1, 5, 2, 3)

    def attend(*heads):
        request = AttentionRequest(dropout=0.5, seed_generator=keras.random.SeedGenerator(5))
        return blockwise_attention(*heads, request, 3)

    _, found = gradients(attend, arrays, upstream)
    ends = []
    for step in (1e-2, -1e-2):
        moved = [each + step * along for each, along in zip(arrays, directions, strict=True)]
        output = attend(*map(ops.convert_to_tensor, moved))
        ends.append(np.sum(ops.convert_to_numpy(output) * upstream))
    slope = sum(np.sum(each * along) for each, along in zip(found, directions, strict=True))
    np.testing.assert_allclose((ends[0] - ends[1]) / 2e-2, slope, rtol=0.02, atol=1e-3)


def test_extreme_scores_stay_finite(gradients):
    heads = [1e4 * normal(B, T, N, W) for _ in range(2)] + [normal(B, T, N, W)]
    request = AttentionRequest(causal=True)
    output, found = gradients(
        lambda *each: blockwise_attention(*each, request, 4), heads, normal(B, T, N, W)
    )
    right = dense_attention(*map(ops.convert_to_tensor, heads), request)[0]
    np.testing.assert_allclose(output, ops.convert_to_numpy(right), atol=1e-5)
    assert all(np.isfinite(each).all() for each in found)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_near_float32(dtype):
    heads = [ops.convert_to_tensor(normal(B, T, N, H)) for _ in range(3)]
    request = AttentionRequest(causal=True)
    half = blockwise_attention(*[ops.cast(each, dtype) for each in heads], request, 6)
    assert keras.backend.standardize_dtype(half.dtype) == dtype
    right = dense_attention(*heads, request)[0]
    np.testing.assert_allclose(
        ops.convert_to_numpy(ops.cast(half, "float32")), ops.convert_to_numpy(right), atol=0.05
    )
