"""Dropout: what is dropped, what is kept, and that no two draws have to do with each other."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import Dropout
from keras_transformer.ops.dropout import keep_mask

RATE = 0.3
SEEDS = [(7, 0), (7, 1), (8, 0), (2**31 + 7, 0)]


def mask(seed, block=None, shape=(211, 307)):
    dtype = keras.random.SeedGenerator(1).state.dtype
    words = ops.convert_to_tensor(np.array(seed, "uint32").astype(dtype))
    return ops.convert_to_numpy(keep_mask(words, shape, RATE, block))


def test_kept_shares_and_their_independence():
    kept = [mask(seed) for seed in SEEDS] + [mask(SEEDS[0], block) for block in (0, 1)]
    np.testing.assert_array_equal(kept[0], mask(SEEDS[0]))
    normalized = [(each.ravel() - (1 - RATE)) / (RATE * (1 - RATE)) ** 0.5 for each in kept]
    count = normalized[0].size
    for number, each in enumerate(normalized):
        # Sums of `count` independent numbers of variance 1: beyond 4 deviations once in 16,000.
        assert abs(each.sum()) < 4 * count**0.5
        for lag in (1, 2, 3, 4, 8, 307):
            assert abs(np.dot(each[:-lag], each[lag:])) < 4 * count**0.5
        for other in normalized[:number]:
            assert abs(np.dot(each, other)) < 4 * count**0.5
            assert abs(np.dot(each[1:], other[:-1])) < 4 * count**0.5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_drops_in_training_alone_and_keeps_the_mean(dtype):
    layer = Dropout(RATE, seed=3, dtype=dtype)
    inputs = ops.ones((13, 17, 19), dtype)
    assert layer(inputs) is inputs or np.all(ops.convert_to_numpy(layer(inputs)) == 1)
    outputs = layer(inputs, training=True)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype
    outputs = ops.convert_to_numpy(ops.cast(outputs, "float32"))
    assert np.unique(outputs) == pytest.approx([0, 1 / (1 - RATE)], rel=1e-2)
    assert outputs.mean() == pytest.approx(1, abs=4 * (RATE / (1 - RATE) / outputs.size) ** 0.5)
    again = ops.convert_to_numpy(ops.cast(layer(inputs, training=True), "float32"))
    assert np.any(again != outputs)


def test_gradients_pass_where_inputs_pass(gradients):
    layer = Dropout(RATE, seed=5)
    inputs = np.random.default_rng(1).normal(size=(5, 7)).astype("float32")
    upstream = np.random.default_rng(2).normal(size=(5, 7)).astype("float32")
    outputs, (found,) = gradients(lambda x: layer(x, training=True), [inputs], upstream)
    scale = np.where(outputs == 0, 0, 1 / (1 - RATE)).astype("float32")
    np.testing.assert_allclose(outputs, inputs * scale, rtol=1e-4)
    np.testing.assert_allclose(found, upstream * scale, rtol=1e-4)


def test_rates_at_the_edges():
    inputs = ops.ones((11, 13))
    assert Dropout(0.0)(inputs, training=True) is inputs
    assert not Dropout(0.0).variables
    few = ops.convert_to_numpy(Dropout(0.9999, seed=1)(inputs, training=True))
    assert np.isfinite(few).all()
    for rate in (1.0, -0.1, "0.1"):
        with pytest.raises(ValueError, match=r"`rate` must be in \[0, 1\)"):
            Dropout(rate)


def test_in_a_symbolic_call_in_training():
    inputs = keras.Input((4, 5))
    model = keras.Model(inputs, Dropout(RATE, seed=3)(inputs, training=True))
    assert np.any(ops.convert_to_numpy(model(np.ones((2, 4, 5), "float32"))) == 0)


def test_a_compiled_step_drops_what_an_eager_one_drops():
    """TensorFlow's graph draws in one compiled pass, and draws again for the gradient."""
    random = np.random.default_rng(1)
    x, y = (random.normal(size=(11, 5, 7)).astype("float32") for _ in range(2))
    found = []
    for options in ({"run_eagerly": True}, {"jit_compile": False}, {}):
        inputs = keras.Input((None, 7))
        hidden = Dropout(RATE, seed=3)(keras.layers.Dense(7, kernel_initializer="ones")(inputs))
        model = keras.Model(inputs, keras.layers.Dense(7, kernel_initializer="ones")(hidden))
        if options.get("jit_compile") is False and keras.config.backend() == "jax":
            continue  # JAX compiles each step
        model.compile(keras.optimizers.SGD(0.01), "mse", **options)
        model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
        found.append([ops.convert_to_numpy(each) for each in model.trainable_variables])
    assert any(np.ptp(each) > 0.01 for each in found[0])
    for other in found[1:]:
        for ours, right in zip(other, found[0], strict=True):
            np.testing.assert_allclose(ours, right, atol=1e-5)
