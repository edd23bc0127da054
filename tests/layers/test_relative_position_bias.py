import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.relative_position_bias import RelativePositionBias
from keras_transformer.ops.relative_buckets import relative_bucket


@pytest.mark.any_backend
def test_buckets_by_hand():
    both_sides = [relative_bucket(each, 8, 16, True) for each in (0, -1, -2, -5, -6, -99, 1, 2, 99)]
    assert both_sides == [0, 1, 2, 2, 3, 3, 5, 6, 7]
    before = [relative_bucket(each, 8, 16, False) for each in (3, 0, -1, -3, -4, -5, -8, -15, -99)]
    assert before == [0, 0, 1, 3, 4, 4, 6, 7, 7]


@pytest.mark.any_backend
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("buckets, furthest", [(32, 128), (10, 37)])
def test_buckets_match_the_reference(bidirectional, buckets, furthest):
    torch = pytest.importorskip("torch")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    distances = range(-300, 301)
    right = t5.T5Attention._relative_position_bucket(
        torch.tensor(distances), bidirectional, buckets, furthest
    )
    ours = [relative_bucket(each, buckets, furthest, bidirectional) for each in distances]
    assert ours == right.tolist()


def test_bias_reads_the_table():
    position = RelativePositionBias(num_buckets=8, max_distance=16)
    position.build((1, 2, 3, 4))
    queries, keys = np.array([[7, 9]]), np.array([[7, 8, 99, 1]])
    bias = ops.convert_to_numpy(
        position.bias(ops.convert_to_tensor(queries), ops.convert_to_tensor(keys))
    )
    table = ops.convert_to_numpy(position.table)
    for row in range(2):
        for column in range(4):
            bucket = relative_bucket(int(keys[0, column] - queries[0, row]), 8, 16, True)
            np.testing.assert_allclose(bias[0, :, row, column], table[bucket], rtol=1e-6)


def test_blocks_that_share_the_object_share_the_variable_after_loading(tmp_path):
    position = RelativePositionBias(num_buckets=8, max_distance=16)
    inputs = keras.Input((None, 8))
    hidden = inputs
    for _ in range(3):
        hidden = MultiHeadAttention(2, 4, position=position)(hidden, hidden)
    model = keras.Model(inputs, hidden)
    assert len(model.trainable_variables) == 3 * 8 + 1
    position.table.assign(keras.random.normal((8, 2), seed=1))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert len(again.trainable_variables) == 3 * 8 + 1
    assert len({id(layer.position) for layer in again.layers[1:]}) == 1
    data = keras.random.normal((2, 5, 8), seed=2)
    np.testing.assert_allclose(
        ops.convert_to_numpy(model(data)), ops.convert_to_numpy(again(data)), atol=1e-6
    )


@pytest.mark.parametrize(
    "arguments, name",
    [
        ({"num_buckets": 5}, "num_buckets"),
        ({"num_buckets": 1, "bidirectional": False}, "num_buckets"),
        ({"max_distance": 8}, "max_distance"),
    ],
)
def test_wrong_arguments(arguments, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        RelativePositionBias(**arguments)


def test_two_objects_stay_two_variables_after_loading(tmp_path):
    inputs = keras.Input((None, 8))
    hidden = inputs
    for _ in range(2):
        position = RelativePositionBias(num_buckets=8, max_distance=16, name="same")
        hidden = MultiHeadAttention(2, 4, position=position)(hidden, hidden)
    keras.Model(inputs, hidden).save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert len(again.trainable_variables) == 2 * 9
