import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.learned_position_encoding import LearnedPositionEncoding


@pytest.fixture
def layer():
    layer = LearnedPositionEncoding(max_length=16)
    layer.build((None, None, 3))
    return layer


def added(layer, length, **arguments):
    outputs = layer(ops.zeros((2, length, 3)), **arguments)
    return ops.convert_to_numpy(outputs)


def test_adds_the_rows_of_the_table(layer):
    table = ops.convert_to_numpy(layer.table)
    np.testing.assert_array_equal(added(layer, 5), [table[:5], table[:5]])
    np.testing.assert_array_equal(added(layer, 5, start_index=11)[0], table[11:])
    start = ops.convert_to_tensor(7)
    np.testing.assert_array_equal(added(layer, 2, start_index=start)[0], table[7:9])
    positions = np.array([[-1, 0], [4, 2]])
    np.testing.assert_array_equal(
        added(layer, 2, positions=positions), [[np.zeros(3), table[0]], table[[4, 2]]]
    )


def test_case_19_positions_past_the_table_are_an_error(layer):
    assert added(layer, 16).shape == (2, 16, 3)
    for call in (
        lambda: added(layer, 17),
        lambda: added(layer, 1, start_index=16),
        lambda: added(layer, 1, start_index=ops.convert_to_tensor(16)),
        lambda: added(layer, 2, positions=np.array([3, 16])),
        lambda: layer(keras.Input((17, 3))),
    ):
        with pytest.raises(ValueError, match="below its `max_length` 16.*got .* to 16"):
            call()


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="only its graphs can raise")
def test_case_19_in_a_graph(layer):
    import tensorflow as tf

    compiled = tf.function(lambda positions: layer(ops.zeros((1, 2, 3)), positions=positions))
    compiled(tf.constant([3, 15]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="below its `max_length` 16"):
        compiled(tf.constant([3, 16]))
    unknown = tf.function(layer, input_signature=[tf.TensorSpec((None, None, 3))])
    with pytest.raises(tf.errors.InvalidArgumentError, match="below its `max_length` 16"):
        unknown(tf.zeros((1, 17, 3)))


@pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="tests what XLA does on TensorFlow"
)
def test_case_19_compiled_by_xla_is_nan_and_nothing_else(layer):
    import tensorflow as tf

    compiled = tf.function(
        lambda positions: layer(ops.zeros((1, 3, 3)), positions=positions), jit_compile=True
    )
    outputs = compiled(tf.constant([3, 16, -1])).numpy()
    assert np.isfinite(outputs[0, [0, 2]]).all() and np.isnan(outputs[0, 1]).all()


@pytest.mark.skipif(keras.config.backend() != "jax", reason="tests what JAX's traces do")
def test_case_19_compiled_by_jax_is_nan_and_nothing_else(layer):
    import jax

    outputs = jax.jit(lambda positions: layer(ops.zeros((1, 2, 3)), positions=positions))(
        np.array([3, 16])
    )
    assert np.isfinite(outputs[0, 0]).all() and np.isnan(outputs[0, 1]).all()
    with pytest.raises(ValueError, match="got 0 to 16"):
        jax.jit(layer)(np.zeros((1, 17, 3), "float32"))


@pytest.mark.any_backend
def test_given_positions_take_the_place_of_the_length(layer):
    outputs = layer(keras.Input((20, 3)), positions=keras.Input((20,), dtype="int32"))
    assert outputs.shape == (None, 20, 3)


def test_saves_and_loads(layer, tmp_path):
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, layer(inputs))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    data = ops.ones((1, 4, 3))
    np.testing.assert_array_equal(
        ops.convert_to_numpy(model(data)), ops.convert_to_numpy(again(data))
    )


def test_wrong_length():
    with pytest.raises(ValueError, match="`max_length`"):
        LearnedPositionEncoding(0)
