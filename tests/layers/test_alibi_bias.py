import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.alibi_bias import AlibiBias
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.ops.alibi import alibi_slopes


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "heads, slopes",
    [
        (1, [2**-8]),
        (2, [2**-4, 2**-8]),
        (3, [2**-4, 2**-8, 2**-2]),
        (6, [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]),
        (8, [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]),
    ],
)
def test_case_17_slopes_for_any_head_count(heads, slopes):
    np.testing.assert_allclose(alibi_slopes(heads), slopes, rtol=1e-7)


def test_bias_by_hand():
    position = AlibiBias()
    position.build((1, 3, 2, 4))
    bias = position.bias(ops.convert_to_tensor([[5, 7]]), ops.convert_to_tensor([[5, 6, 9]]))
    distance = np.array([[0, 1, 4], [2, 1, 2]], "float32")
    np.testing.assert_allclose(
        ops.convert_to_numpy(bias)[0], [-distance / 16, -distance / 256], rtol=1e-6
    )


@pytest.mark.parametrize("causal", [True, False])
def test_attention_equals_the_same_bias_passed(causal):
    inputs = keras.random.normal((2, 5, 12), seed=1)
    layer = MultiHeadAttention(6, 4, position=AlibiBias())
    plain = MultiHeadAttention(6, 4)
    for each in (layer, plain):
        each.build((2, 5, 12), (2, 5, 12))
    plain.set_weights(layer.get_weights())
    distance = np.abs(np.arange(5)[:, None] - np.arange(5))
    bias = -np.array(alibi_slopes(6))[:, None, None] * distance
    np.testing.assert_allclose(
        ops.convert_to_numpy(layer(inputs, inputs, use_causal_mask=causal)),
        ops.convert_to_numpy(
            plain(inputs, inputs, use_causal_mask=causal, bias=bias.astype("float32"))
        ),
        atol=1e-5,
    )
