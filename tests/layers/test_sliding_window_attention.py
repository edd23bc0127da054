import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.alibi_bias import AlibiBias
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.rotary_position import RotaryPosition
from keras_transformer.layers.sliding_window_attention import SlidingWindowAttention

B, T, D = 2, 13, 6


def numbers(tensor):
    return ops.convert_to_numpy(tensor)


def pair(mechanism, **options):
    """Returns a layer with the mechanism and a dense one with the same weights."""
    layers = [MultiHeadAttention(2, 4, mechanism=each, **options) for each in (mechanism, "dense")]
    for layer in layers:
        layer.build((B, T, D), (B, T, D))
    layers[1].set_weights(layers[0].get_weights()[: len(layers[1].weights)])
    return layers


def window_mask(window, causal, is_global):
    distance = np.arange(T)[:, None] - np.arange(T)
    mask = (np.abs(distance) < window) | is_global[:, None] | is_global
    return mask & (distance >= 0) if causal else mask


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("global_tokens", [0, 2])
def test_equals_dense_under_the_window_mask(causal, global_tokens):
    mechanism = SlidingWindowAttention(3, global_tokens, block_size=4)
    layer, dense = pair(mechanism, num_key_value_heads=1)
    inputs = keras.random.normal((B, T, D), seed=1)
    mask = window_mask(3, causal, np.arange(T) < global_tokens)
    np.testing.assert_allclose(
        numbers(layer(inputs, inputs, use_causal_mask=causal)),
        numbers(dense(inputs, inputs, attention_mask=mask)),
        atol=1e-5,
    )


def test_a_window_sees_itself_and_the_tokens_before():
    layer, _ = pair(SlidingWindowAttention(2, block_size=4))
    inputs = np.array(keras.random.normal((1, T, D), seed=1))
    before = numbers(layer(inputs, inputs, use_causal_mask=True))
    inputs[:, 5] += 1
    changed = np.abs(numbers(layer(inputs, inputs, use_causal_mask=True)) - before).max((0, 2)) > 0
    assert np.flatnonzero(changed).tolist() == [5, 6]


@pytest.mark.parametrize("projections", [True, False])
def test_global_tokens_named_by_a_mask(projections):
    mechanism = SlidingWindowAttention(2, global_projections=projections, block_size=4)
    layer, dense = pair(mechanism)
    inputs = keras.random.normal((1, T, D), seed=1)
    is_global = np.zeros(T, "bool")
    is_global[[4, 9]] = True
    outputs = numbers(layer(inputs, inputs, global_mask=is_global[None]))
    right = numbers(dense(inputs, inputs, attention_mask=window_mask(2, False, is_global)))
    np.testing.assert_allclose(outputs[:, ~is_global], right[:, ~is_global], atol=1e-5)
    if projections:
        own = layer.get_weights()[len(dense.weights) :]
        dense.set_weights([*own, *dense.get_weights()[len(own) :]])
        right = numbers(dense(inputs, inputs))
    np.testing.assert_allclose(outputs[:, is_global], right[:, is_global], atol=1e-5)


@pytest.mark.parametrize(
    "position, global_tokens", [(None, 0), (RotaryPosition, 0), (AlibiBias, 1)]
)
def test_case_11_rolling_cache(position, global_tokens):
    position = position and position()
    mechanism = SlidingWindowAttention(4, global_tokens)
    layer = MultiHeadAttention(2, 4, mechanism=mechanism, position=position)
    layer.build((B, T, D), (B, T, D))
    inputs = keras.random.normal((B, 12, D), seed=1)
    right = numbers(layer(inputs, inputs, use_causal_mask=True))
    for prompt, chunk in ((3, 3), (4, 1), (5, 1)):
        cache = layer.empty_cache(B, 12)
        assert cache.key.shape[1] == 3 + global_tokens
        ends = [prompt, *range(prompt + chunk, 12, chunk), 12]
        start = 0
        for end in ends:
            positions = ops.broadcast_to(
                ops.arange(start, end, dtype="int32")[None], (B, end - start)
            )
            outputs, cache = layer.step(inputs[:, start:end], cache, start, positions)
            np.testing.assert_allclose(numbers(outputs), right[:, start:end], atol=1e-5)
            start = end


def test_padding_within_a_prompt_pushes_nothing_out():
    layer = MultiHeadAttention(2, 4, mechanism=SlidingWindowAttention(3))
    layer.build((1, T, D), (1, T, D))
    inputs = keras.random.normal((1, 6, D), seed=1)
    right = numbers(layer(inputs, inputs, use_causal_mask=True))
    prompt = ops.concatenate([inputs[:, :4], ops.ones((1, 5, D))], axis=1)
    positions = np.array([[0, 1, 2, 3, -1, -1, -1, -1, -1]], "int32")
    _, cache = layer.step(prompt, layer.empty_cache(1, 20), 0, ops.convert_to_tensor(positions))
    for place in (4, 5):
        positions = ops.convert_to_tensor(np.array([[place]], "int32"))
        outputs, cache = layer.step(inputs[:, place : place + 1], cache, place + 5, positions)
        np.testing.assert_allclose(numbers(outputs)[:, 0], right[:, place], atol=1e-5)


def test_named_global_tokens_come_to_the_first_ones():
    layer, dense = pair(SlidingWindowAttention(2, global_tokens=1, block_size=4))
    inputs = keras.random.normal((1, T, D), seed=1)
    is_global = np.arange(T) == 9
    outputs = numbers(layer(inputs, inputs, global_mask=is_global[None]))
    mask = window_mask(2, False, is_global | (np.arange(T) == 0))
    np.testing.assert_allclose(
        outputs, numbers(dense(inputs, inputs, attention_mask=mask)), atol=1e-5
    )


def test_a_cache_shorter_than_the_window_is_full_some_day():
    layer = MultiHeadAttention(2, 4, mechanism=SlidingWindowAttention(8))
    layer.build((1, T, D), (1, T, D))
    inputs = keras.random.normal((1, 5, D), seed=1)
    positions = ops.arange(5, dtype="int32")[None]
    cache = layer.empty_cache(1, 4)
    with pytest.raises(ValueError, match="`length` of the cache.*4 places for 5 tokens from 0"):
        layer.step(inputs, cache, 0, positions)
    _, cache = layer.step(inputs[:, :4], cache, 0, positions[:, :4])
    with pytest.raises(ValueError, match="`length` of the cache.*4 places for 1 tokens from 4"):
        layer.step(inputs[:, 4:], cache, ops.convert_to_tensor(4), positions[:, 4:])


def test_what_it_cannot_do_names_who_can():
    inputs = keras.random.normal((1, T, D), seed=1)
    layer = MultiHeadAttention(2, 4, mechanism=SlidingWindowAttention(3))
    with pytest.raises(ValueError, match='mechanism="dense" returns them'):
        layer(inputs, inputs, return_attention_scores=True)
    own = MultiHeadAttention(2, 4, mechanism=SlidingWindowAttention(3, 1, global_projections=True))
    own.build((1, T, D), (1, T, D))
    with pytest.raises(ValueError, match="`global_projections` must be False"):
        own.step(inputs[:, :1], own.empty_cache(1, 4), 0, ops.zeros((1, 1), "int32"))
    with pytest.raises(ValueError, match="SlidingWindowAttention"):
        MultiHeadAttention(2, 4)(inputs, inputs, global_mask=np.ones((1, T), "bool"))


@pytest.mark.parametrize(
    "arguments, name",
    [
        ({"window": 0}, "window"),
        ({"window": 3, "global_tokens": -1}, "global_tokens"),
        ({"window": 3, "block_size": 0}, "block_size"),
    ],
)
def test_wrong_arguments(arguments, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        SlidingWindowAttention(**arguments)
