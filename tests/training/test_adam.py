"""Adam: the numbers of Keras's, whatever is asked of it."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.training import Adam, LayerwiseAdamW, NoamSchedule

SHAPES = ((5, 7), (11,), (3, 2, 13))


def gradients(seed):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape).astype("float32") for shape in SHAPES]


def steps(optimizer, count=5, dtype="float32"):
    """Returns the weights after steps along random gradients."""
    variables = [keras.Variable(value, dtype=dtype) for value in gradients(seed=0)]
    optimizer.build(variables)
    for step in range(count):
        optimizer.apply(
            [ops.convert_to_tensor(each, dtype) for each in gradients(seed=1 + step)], variables
        )
    return [ops.convert_to_numpy(ops.cast(variable, "float32")) for variable in variables]


def assert_same(found, expected, tolerance=1e-5):
    for ours, keras_own in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, keras_own, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"learning_rate": 0.03, "beta_1": 0.7, "beta_2": 0.98, "epsilon": 1e-9},
        {"epsilon": 0.1},
        {"amsgrad": True},
        {"weight_decay": 0.1},
        {"clipnorm": 0.5},
        {"clipvalue": 0.1},
        {"global_clipnorm": 1.0},
        {"use_ema": True, "ema_overwrite_frequency": 2},
        {"loss_scale_factor": 4.0},
        {"gradient_accumulation_steps": 2},
    ],
    ids=lambda options: "-".join(options) or "defaults",
)
def test_the_numbers_are_those_of_keras(options):
    expected = steps(keras.optimizers.Adam(**options))
    found = steps(Adam(**options))
    moved = [np.abs(value - start) for value, start in zip(found, gradients(0), strict=True)]
    assert min(each.mean() for each in moved) > 1e-4
    assert_same(found, expected)


def test_a_schedule_counts_the_steps():
    schedule = NoamSchedule(model_dim=16, warmup_steps=3)
    assert_same(steps(Adam(schedule)), steps(keras.optimizers.Adam(schedule)))


def test_the_first_step_is_the_rate():
    """m / sqrt(v) is the sign of the gradient then, by the corrections."""
    found = steps(Adam(0.01, epsilon=1e-12), count=1)
    for value, start, gradient in zip(found, gradients(0), gradients(1), strict=True):
        np.testing.assert_allclose(value, start - 0.01 * np.sign(gradient), rtol=1e-4)


def test_weights_of_half_precision():
    """Torch's operation computes in float32; the others round 0.999 to 1, and are Keras's."""
    dtype = "float32" if keras.config.backend() == "torch" else "bfloat16"
    expected = steps(keras.optimizers.Adam(0.01), dtype=dtype)
    assert_same(steps(Adam(0.01), dtype="bfloat16"), expected, tolerance=0.03)


def test_a_gradient_that_lies_transposed():
    left, right = (keras.Variable(np.zeros((3, 5), "float32")) for _ in range(2))
    gradient = np.arange(15, dtype="float32").reshape(5, 3)
    Adam(0.1).apply([ops.transpose(ops.convert_to_tensor(gradient))], [left])
    keras.optimizers.Adam(0.1).apply([ops.convert_to_tensor(gradient.T.copy())], [right])
    assert_same([ops.convert_to_numpy(left)], [ops.convert_to_numpy(right)])


def test_rows_of_an_embedding_alone():
    """TensorFlow's gradient of a lookup is a list of rows, of which one may be there twice."""
    start = np.random.default_rng(1).normal(size=(7, 3)).astype("float32")

    def fitted(layer, optimizer, encode):
        model = keras.Sequential([layer, keras.layers.Flatten()])
        model.compile(optimizer, "mse")
        for ids in ([[1, 2]], [[4, 4]], [[1, 6]]):
            inputs = encode(np.array(ids))
            if not model.built:
                model.build(inputs.shape)
                model.set_weights([start])
            model.fit(inputs, np.ones((1, 6)), verbose=0)
        return model.get_weights()

    found = fitted(keras.layers.Embedding(7, 3), Adam(0.1), encode=lambda ids: ids)
    one_hot = keras.layers.Dense(3, use_bias=False)
    assert_same(
        found, fitted(one_hot, keras.optimizers.Adam(0.1), encode=lambda ids: np.eye(7)[ids])
    )


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_fit_and_its_saved_state(jit_compile, tmp_path):
    if keras.config.backend() == "torch" and jit_compile:
        pytest.skip("torch.compile needs a compiler on the machine")
    numbers = np.random.default_rng(3)
    inputs, labels = numbers.normal(size=(13, 5)), numbers.normal(size=(13, 2))

    def fitted(optimizer):
        keras.utils.set_random_seed(2)
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
        model.compile(optimizer, "mse", jit_compile=jit_compile)
        model.fit(inputs, labels, batch_size=13, epochs=4, verbose=0)
        return model

    model, by_keras = fitted(Adam(0.05)), fitted(keras.optimizers.Adam(0.05))
    assert_same(model.get_weights(), by_keras.get_weights())
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is Adam
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    for each in (model, loaded):
        each.fit(inputs, labels, batch_size=13, epochs=2, verbose=0)
    assert_same(loaded.get_weights(), model.get_weights())


def test_layers_at_one_rate_are_adam_with_decay():
    ours = LayerwiseAdamW(0.01, weight_decay=0.1)
    assert_same(steps(ours), steps(keras.optimizers.AdamW(0.01, weight_decay=0.1)))
