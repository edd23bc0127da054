"""Sinusoidal position encoding (section 3.5)."""

import keras
from keras import ops

from keras_transformer.arguments import check_above
from keras_transformer.ops.positions import (
    check_encoded_positions,
    encoded_positions,
    sinusoids,
)


@keras.saving.register_keras_serializable(package="keras_transformer")
class SinusoidalPositionEncoding(keras.layers.Layer):
    """Adds the paper's sinusoids to a sequence of vectors.

        PE[pos, 2i] = sin(pos / max_wavelength^(2i/D)),  PE[pos, 2i+1] = cos(the same angle)

    Positions are counted in int32 and angles computed in float32, whatever the layer's dtype:
    bfloat16 cannot count past 256. Any length and any width, odd ones too (the last column is then
    a sine).

    Args:
        max_wavelength: float > 1, 10000 in the paper.
        layout: "interleaved": sines in the even columns, cosines in the odd ones, as in the paper;
            "half_split": all sines before all cosines, as in Marian's models.

    Call arguments:
        inputs: (B, T, D).
        start_index: int or int scalar tensor, the position of the first token (cached decoding).
        positions: int (T,) or (B, T), absolute positions, instead of `start_index`. Negative ones
            (padding) add nothing.

    Returns:
        inputs + encoding, (B, T, D).

    Raises:
        ValueError: if an argument is outside its rule, or `start_index` is negative or given
            together with `positions`.

    >>> SinusoidalPositionEncoding()(keras.ops.zeros((1, 2, 3)))[0, 0]  # sin 0, cos 0, sin 0
    [0., 1., 0.]

    Reference: Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, max_wavelength=10000, layout="interleaved", **kwargs):
        super().__init__(**kwargs)
        check_above(1, max_wavelength=max_wavelength)
        if layout not in ("interleaved", "half_split"):
            raise ValueError(
                f'`layout` must be "interleaved" or "half_split"; got {layout!r}. The first is the '
                "paper's."
            )
        self.supports_masking = True
        self.max_wavelength = max_wavelength
        self.layout = layout

    def build(self, input_shape):
        self.built = True

    def call(self, inputs, start_index=0, positions=None):
        check_encoded_positions(inputs.shape, start_index, positions)
        positions = encoded_positions(ops.shape(inputs)[1], start_index, positions)
        interleaved = self.layout == "interleaved"
        encoding = sinusoids(positions, inputs.shape[-1], self.max_wavelength, interleaved)
        encoding = ops.where(positions[:, :, None] >= 0, encoding, ops.zeros_like(encoding))
        return ops.add(inputs, ops.cast(encoding, inputs.dtype))

    def compute_output_spec(self, inputs, start_index=0, positions=None):
        check_encoded_positions(inputs.shape, start_index, positions)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
            "layout": self.layout,
        }
