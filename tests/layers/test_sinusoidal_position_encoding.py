import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding


def numbers(tensor):
    return ops.convert_to_numpy(tensor)


def sinusoids(length, width):
    """The paper's formula, a number at a time."""
    table = np.zeros((length, width))
    for position in range(length):
        for column in range(width):
            angle = position / 10000 ** (column // 2 * 2 / width)
            table[position, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


@pytest.mark.parametrize("width", [1, 2, 5, 127])
@pytest.mark.parametrize("length", [1, 7])
def test_case_13_any_width(width, length):
    layer = SinusoidalPositionEncoding()
    outputs = numbers(layer(np.zeros((2, length, width), "float32")))
    np.testing.assert_allclose(outputs, [sinusoids(length, width)] * 2, atol=1e-5)
    symbolic = layer(keras.Input((None, width)))
    assert symbolic.shape == (None, None, width)


@pytest.mark.parametrize("width", [1, 5])
def test_case_13_compiled(width):
    inputs = keras.Input((None, width))
    model = keras.Model(inputs, SinusoidalPositionEncoding()(inputs))
    outputs = model.predict(np.zeros((2, 3, width), "float32"), verbose=0)
    np.testing.assert_allclose(outputs, [sinusoids(3, width)] * 2, atol=1e-5)


def test_positions_start_and_padding():
    layer = SinusoidalPositionEncoding()
    table = sinusoids(9, 6)
    zeros = np.zeros((1, 3, 6), "float32")
    np.testing.assert_allclose(numbers(layer(zeros, start_index=5))[0], table[5:8], atol=1e-5)
    outputs = numbers(layer(zeros, positions=np.array([[-1, 0, 7]])))[0]
    np.testing.assert_allclose(outputs, [np.zeros(6), table[0], table[7]], atol=1e-5)


def test_wrong_wavelength():
    with pytest.raises(ValueError, match="`max_wavelength`"):
        SinusoidalPositionEncoding(max_wavelength=1)
