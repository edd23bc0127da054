import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.alibi_bias import AlibiBias
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.random_feature_attention import RandomFeatureAttention
from keras_transformer.layers.rotary_position import RotaryPosition
from keras_transformer.ops.attention import dense_attention
from keras_transformer.ops.attention_request import AttentionRequest
from keras_transformer.ops.random_features import (
    causal_random_feature_attention,
    orthogonal_features,
    random_feature_attention,
)

B, T, D = 2, 11, 6
SEGMENTS = np.ones((B, T), "int32")
RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.normal(size=shape).astype("float32")


def numbers(tensor):
    return ops.convert_to_numpy(tensor)


def layer_of(features=32, dtype="float32", **options):
    layer = MultiHeadAttention(
        2, 4, mechanism=RandomFeatureAttention(features, seed=3), dtype=dtype, **options
    )
    layer.build((B, T, D), (B, T, D))
    return layer


@pytest.mark.any_backend
def test_features_are_orthogonal_and_as_long_as_normal_ones():
    features = orthogonal_features(64 * 40, 8, np.random.default_rng(0))
    for block in features.reshape(-1, 8, 8)[:5]:
        products = block @ block.T
        np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-4)
    np.testing.assert_allclose(np.mean(np.sum(features**2, axis=1)), 8, rtol=0.03)


@pytest.mark.parametrize("causal", [True, False])
def test_error_falls_as_features_grow(causal):
    heads = [ops.convert_to_tensor(0.5 * normal(1, 37, 2, 8)) for _ in range(3)]
    request = AttentionRequest(causal=causal, scale=8**-0.5)
    right = numbers(dense_attention(*heads, request)[0])
    errors = []
    for count in (16, 4096):
        found = []
        for seed in range(4):
            features = orthogonal_features(count, 8, np.random.default_rng(seed))
            features = ops.convert_to_tensor(features)
            if causal:
                outputs, _ = causal_random_feature_attention(
                    *heads, features, request.scale, None, chunk_length=8
                )
            else:
                outputs = random_feature_attention(*heads, features, request.scale, None)
            found.append(np.mean((numbers(outputs) - right) ** 2))
        errors.append(np.mean(found) ** 0.5)
    # As 1 / sqrt(count): a sixteenth, but for the noise of four draws.
    assert errors[1] < errors[0] / 4
    assert errors[1] < 0.02


def test_causal_attention_is_the_full_one_over_each_prefix(gradients):
    heads = normal(B, T, 2, 4), normal(B, T, 2, 4), normal(B, T, 2, 4)
    features = ops.convert_to_tensor(orthogonal_features(16, 4, np.random.default_rng(0)))

    def prefixes(query, key, value):
        rows = [
            random_feature_attention(
                query[:, end - 1 : end], key[:, :end], value[:, :end], features, 0.5, None
            )
            for end in range(1, T + 1)
        ]
        return ops.concatenate(rows, axis=1)

    def causal(query, key, value):
        return causal_random_feature_attention(
            query, key, value, features, 0.5, None, chunk_length=4
        )[0]

    upstream = normal(B, T, 2, 4)
    ours, our_gradients = gradients(causal, heads, upstream)
    right, right_gradients = gradients(prefixes, heads, upstream)
    np.testing.assert_allclose(ours, right, atol=1e-5)
    for each, other in zip(our_gradients, right_gradients, strict=True):
        np.testing.assert_allclose(each, other, atol=1e-4)


def test_case_9_deterministic_also_after_loading(tmp_path):
    inputs = keras.Input((None, D))
    attention = MultiHeadAttention(2, 4, mechanism=RandomFeatureAttention(16))
    model = keras.Model(inputs, attention(inputs, inputs))
    data = keras.random.normal((B, T, D), seed=1)
    first = numbers(model(data, training=False))
    for _ in range(5):
        np.testing.assert_array_equal(numbers(model(data, training=False)), first)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numbers(again(data, training=False)), first)
    attention.mechanism.redraw()
    assert np.abs(numbers(model(data)) - first).max() > 1e-4


@pytest.mark.parametrize("causal", [True, False])
def test_case_9_finite_in_half_precision_and_long(causal):
    layer = layer_of(dtype="float16")
    inputs = 30 * keras.random.normal((1, 700, D), seed=1)
    assert np.isfinite(numbers(layer(inputs, inputs, use_causal_mask=causal))).all()


@pytest.mark.parametrize("causal", [True, False])
def test_case_9_padding_is_inert(causal):
    layer = layer_of(position=RotaryPosition())
    inputs = keras.random.normal((1, 5, D), seed=1)
    right = numbers(layer(inputs, inputs, use_causal_mask=causal))
    filling = 50 * ops.ones((1, 3, D))
    for parts, real in (((inputs, filling), slice(5)), ((filling, inputs), slice(3, 8))):
        padded = ops.concatenate(parts, axis=1)
        mask = np.zeros((1, 8), "bool")
        mask[:, real] = True
        positions = np.where(mask, np.cumsum(mask, axis=1) - 1, -1)
        outputs = layer(
            padded,
            padded,
            value_mask=mask,
            query_positions=positions,
            key_positions=positions,
            use_causal_mask=causal,
        )
        np.testing.assert_allclose(numbers(outputs)[:, real], right, atol=1e-5)


def test_case_9_the_future_changes_nothing():
    layer = layer_of()
    inputs = np.array(keras.random.normal((1, T, D), seed=1))
    before = numbers(layer(inputs, inputs, use_causal_mask=True))
    inputs[:, 6:] = 100.0
    after = numbers(layer(inputs, inputs, use_causal_mask=True))
    np.testing.assert_allclose(after[:, :6], before[:, :6], atol=1e-6)


def test_nothing_visible_gives_zeros():
    layer = layer_of(use_bias=False)
    inputs = keras.random.normal((1, T, D), seed=1)
    for causal in (True, False):
        outputs = layer(inputs, inputs, value_mask=np.zeros((1, T), "bool"), use_causal_mask=causal)
        np.testing.assert_array_equal(numbers(outputs), 0)


def test_cached_equals_uncached():
    layer = layer_of(position=RotaryPosition(), num_key_value_heads=1)
    inputs = keras.random.normal((B, T, D), seed=1)
    right = numbers(layer(inputs, inputs, use_causal_mask=True))
    for ends in ([5, 6, 7, 11], [11]):
        cache, start = layer.empty_cache(B, T), 0
        for end in ends:
            positions = ops.broadcast_to(
                ops.arange(start, end, dtype="int32")[None], (B, end - start)
            )
            outputs, cache = layer.step(inputs[:, start:end], cache, start, positions)
            np.testing.assert_allclose(numbers(outputs), right[:, start:end], atol=1e-5)
            start = end


@pytest.mark.parametrize(
    "options, call",
    [
        ({}, {"return_attention_scores": True}),
        ({}, {"attention_mask": np.ones((T, T), "bool")}),
        ({}, {"bias": np.ones((T, T), "float32")}),
        ({"position": AlibiBias()}, {}),
        ({"dropout": 0.1}, {"training": True}),
        ({"logit_soft_cap": 5.0}, {}),
        ({}, {"query_segments": SEGMENTS, "key_segments": SEGMENTS}),
    ],
)
def test_what_it_cannot_do_names_who_can(options, call):
    inputs = keras.random.normal((B, T, D), seed=1)
    with pytest.raises(ValueError, match='random features cannot do .*mechanism="dense" can'):
        layer_of(**options)(inputs, inputs, **call)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="`num_features`"):
        RandomFeatureAttention(0)
