"""What attention is given that it cannot be meant to read: named, on every backend alike."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    AlibiBias,
    LearnedPositionEncoding,
    MultiHeadAttention,
    RandomFeatureAttention,
    SinusoidalPositionEncoding,
    SlidingWindowAttention,
)

D = 6
INPUTS = np.random.default_rng(1).normal(size=(2, 5, D)).astype("float32")
POSITIONS = np.tile(np.arange(5, dtype="int32"), (2, 1))


def built(**options):
    layer = MultiHeadAttention(2, 4, **options)
    layer.build(INPUTS.shape, INPUTS.shape)
    return layer


def numbers(tensor):
    return ops.convert_to_numpy(tensor)


@pytest.mark.parametrize("causal", [False, True])
def test_nan_is_never_hidden_by_random_features(causal):
    layer, inputs = built(mechanism=RandomFeatureAttention(8, seed=1)), INPUTS.copy()
    inputs[0, 2] = np.nan
    found = numbers(layer(inputs, inputs, use_causal_mask=causal))
    assert np.isnan(found[0, 2:]).all() and np.isfinite(found[1]).all()


@pytest.mark.parametrize("mechanism", ["dense", "blockwise"])
def test_nan_in_a_bias_hides_no_key(mechanism):
    bias = np.zeros((5, 5), "float32")
    bias[1] = np.nan
    found = numbers(built(mechanism=mechanism)(INPUTS, INPUTS, bias=bias))
    assert np.isnan(found[:, 1]).all() and np.isfinite(found[:, [0, 2, 3, 4]]).all()


@pytest.mark.parametrize("mechanism", ["dense", SlidingWindowAttention(3)])
def test_positions_of_a_step_may_be_numpys(mechanism):
    layer = built(mechanism=mechanism, position=AlibiBias())
    right = numbers(layer(INPUTS, INPUTS, use_causal_mask=True))
    found, _ = layer.step(ops.convert_to_tensor(INPUTS), layer.empty_cache(2, 5), 0, POSITIONS)
    np.testing.assert_allclose(numbers(found), right, atol=1e-5)


@pytest.mark.parametrize(
    "mechanism", ["dense", SlidingWindowAttention(3), RandomFeatureAttention(8, seed=1)]
)
def test_a_step_fits_its_cache(mechanism):
    layer = built(mechanism=mechanism)
    with pytest.raises(ValueError, match="rows that the cache was made for, 3; got 2"):
        layer.step(INPUTS, layer.empty_cache(3, 5), 0, POSITIONS)
    with pytest.raises(ValueError, match=r"`positions` must have shape .*\(2, 5\); got \(2, 1\)"):
        layer.step(INPUTS, layer.empty_cache(2, 5), 0, POSITIONS[:, :1])
    other = built(mechanism="dense" if mechanism != "dense" else SlidingWindowAttention(3))
    with pytest.raises(ValueError, match="`cache` of layer .* as its own `empty_cache` makes"):
        layer.step(INPUTS, other.empty_cache(2, 5), 0, POSITIONS)
    for rows, length, name in ((2, -1, "length"), (2, 2.5, "length"), (0, 5, "rows")):
        with pytest.raises(ValueError, match=f"`{name}` must be a positive integer"):
            layer.empty_cache(rows, length)


def test_a_step_does_not_begin_before_the_cache():
    layer = built(mechanism="dense")
    with pytest.raises(ValueError, match="`index` must be the number of tokens in the cache"):
        layer.step(INPUTS, layer.empty_cache(2, 5), -1, POSITIONS)


def test_what_is_recalled_fits_what_is_remembered():
    layer = built(mechanism="dense")
    memory = layer.remember(ops.convert_to_tensor(INPUTS))
    with pytest.raises(ValueError, match="multiple of the 2 sentences remembered; got 3"):
        layer.recall(np.zeros((3, 1, D), "float32"), memory)
    with pytest.raises(ValueError, match=r"`key_mask` must have shape .*\(2, 5\); got \(2, 7\)"):
        layer.recall(INPUTS[:, :1], memory, np.ones((2, 7), "bool"))
    layer = built(mechanism=SlidingWindowAttention(3))
    with pytest.raises(ValueError, match="sliding window where a context is remembered"):
        layer.recall(INPUTS[:, :1], layer.remember(ops.convert_to_tensor(INPUTS)))


def test_another_width_than_it_was_built_for():
    with pytest.raises(ValueError, match=r"`value` of layer .* must be 6 wide.* got shape \(2, 5"):
        built()(INPUTS, np.zeros((2, 5, 7), "float32"))


def test_positions_of_queries_without_those_of_keys():
    with pytest.raises(ValueError, match="`query_positions` and `key_positions` must be given bo"):
        built()(INPUTS, INPUTS, query_positions=POSITIONS)


@pytest.mark.parametrize("make", [SinusoidalPositionEncoding, lambda: LearnedPositionEncoding(7)])
def test_positions_of_encodings(make):
    encoding = make()
    for wrong in (1.9 * POSITIONS, POSITIONS[:, :3], np.tile(POSITIONS, (2, 1)), POSITIONS[None]):
        with pytest.raises(ValueError, match="`positions` must h"):
            encoding(INPUTS, positions=wrong)
    with pytest.raises(ValueError, match="`start_index` must hold integers; got float"):
        encoding(INPUTS, start_index=1.5)
    one, all_rows = (
        numbers(encoding(INPUTS, positions=each)) for each in (POSITIONS[0], POSITIONS)
    )
    np.testing.assert_allclose(one, all_rows, atol=1e-6)
    symbolic = keras.Input((None, D))
    assert encoding(symbolic, positions=keras.Input((None,), dtype="int32")).shape[1:] == (None, D)
