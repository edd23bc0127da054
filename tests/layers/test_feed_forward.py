import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import FeedForward


def with_weights(layer, *weights):
    layer.build((None, None, 2))
    layer.set_weights([np.array(each, "float32") for each in weights])
    return layer


def test_by_hand():
    # Section 3.3: relu((1, 2) W_1 + b_1) = relu(1 + 0 + 1, -2 + 1, 4 - 1) = (2, 0, 3).
    layer = with_weights(
        FeedForward(3),
        [[1, 0, 0], [0, -1, 2]],
        [1, 1, -1],
        [[1, 0], [5, 5], [0, 2]],
        [0.5, 0],
    )
    inputs = ops.convert_to_tensor([[[1.0, 2.0]]])
    np.testing.assert_allclose(ops.convert_to_numpy(layer(inputs)), [[[2.5, 6.0]]], rtol=1e-6)


def test_gated_by_hand():
    # The gate is relu((1, 2) W_g) = relu(2, -1); the inner vector (1, 2) W_1 = (3, 5).
    layer = FeedForward(2, gated=True, use_bias=False)
    layer.build((None, None, 2))
    layer.inner_dense.set_weights([np.array([[1, 1], [1, 2]], "float32")])
    layer.gate_dense.set_weights([np.array([[0, 1], [1, -1]], "float32")])
    layer.outer_dense.set_weights([np.eye(2, dtype="float32")])
    inputs = ops.convert_to_tensor([[[1.0, 2.0]]])
    np.testing.assert_allclose(ops.convert_to_numpy(layer(inputs)), [[[6.0, 0.0]]], rtol=1e-6)


def test_every_position_alike_and_dropout_in_training_alone():
    layer = FeedForward(7, dropout=0.5, seed=1)
    inputs = ops.ones((1, 5, 2))
    still = ops.convert_to_numpy(layer(inputs))
    np.testing.assert_allclose(still, np.repeat(still[:, :1], 5, axis=1), rtol=1e-6)
    assert np.ptp(ops.convert_to_numpy(layer(inputs, training=True)), axis=1).max() > 1e-3


def test_maps_start_with_other_values():
    # One initializer object would give both maps the same numbers.
    layer = FeedForward(2, gated=True, kernel_initializer=keras.initializers.GlorotUniform())
    layer.build((None, None, 2))
    first, second = layer.inner_dense.get_weights()[0], layer.gate_dense.get_weights()[0]
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"intermediate_dim": 0}, "`intermediate_dim` must be a positive integer; got 0"),
        ({"intermediate_dim": 8.0}, "`intermediate_dim` must be a positive integer; got 8.0"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\); got 1.0"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        FeedForward(**{"intermediate_dim": 3, **options})
