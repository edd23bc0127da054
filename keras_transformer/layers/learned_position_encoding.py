"""Learned position encoding: one trained vector a position."""

import keras
from keras import ops

from keras_transformer.arguments import check_from_zero, check_positive
from keras_transformer.ops.backend import check_ids, concrete, rows_inside
from keras_transformer.ops.positions import check_encoded_positions, encoded_positions


@keras.saving.register_keras_serializable(package="keras_transformer")
class LearnedPositionEncoding(keras.layers.Layer):
    """Adds a trained vector for each absolute position, up to `max_length` of them.

        outputs_t = inputs_t + table[skipped_rows + position_t]

    A position past the table is an error: when the length is known, while the call is traced; for
    positions that are tensors, when their values are seen, eagerly and in a TensorFlow graph.
    What XLA compiles (JAX, TensorFlow's `jit_compile=True`) cannot raise: there such a row becomes
    NaN, so that nothing hides it.

    Args:
        max_length: int, positions 0 .. max_length - 1 have a vector.
        embeddings_initializer: of the table (skipped_rows + max_length, D).
        skipped_rows: int, rows at the head of the table that no position takes: RoBERTa and
            Longformer count positions from `pad_id` + 1, so that theirs are 2.

    Call arguments:
        inputs: (B, T, D).
        start_index: int or int scalar tensor, the position of the first token (cached decoding).
        positions: int (T,) or (B, T), absolute positions, instead of `start_index`. Negative ones
            (padding) add nothing.

    Returns:
        inputs + encoding, (B, T, D).

    Raises:
        ValueError: if a position is at or past `max_length`, or `start_index` is negative or given
            together with `positions`.

    >>> LearnedPositionEncoding(max_length=16)(keras.ops.zeros((2, 16, 8))).shape
    (2, 16, 8)

    Reference: Gehring et al. 2017, section 3.1; Vaswani et al. 2017, section 3.5 and table 3 (E).
    """

    def __init__(
        self, max_length, embeddings_initializer="random_normal", skipped_rows=0, **kwargs
    ):
        super().__init__(**kwargs)
        check_positive(max_length=max_length)
        check_from_zero(skipped_rows=skipped_rows)
        self.supports_masking = True
        self.max_length = max_length
        self.skipped_rows = skipped_rows
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, input_shape):
        self.table = self.add_weight(
            name="table",
            shape=(self.skipped_rows + self.max_length, input_shape[-1]),
            initializer=self.embeddings_initializer,
        )
        self.built = True

    def call(self, inputs, start_index=0, positions=None):
        self._check_positions(inputs.shape, start_index, positions)
        positions = encoded_positions(ops.shape(inputs)[1], start_index, positions)
        real = positions >= 0
        rows = check_ids(ops.maximum(positions, 0), self.max_length, self._message())
        table = ops.convert_to_tensor(self.table)[self.skipped_rows :]
        encoding = rows_inside(ops.take(table, rows, axis=0), rows, self.max_length)  # (B|1, T, D)
        encoding = ops.where(real[:, :, None], encoding, ops.zeros_like(encoding))
        return ops.add(inputs, encoding)

    def _check_positions(self, shape, start_index, positions):
        check_encoded_positions(shape, start_index, positions)
        if positions is not None:
            return
        length, start = shape[1], concrete(start_index)
        if length is not None and start is not None and int(start) + length > self.max_length:
            raise ValueError(f"{self._message()}; got {int(start)} to {int(start) + length - 1}.")

    def _message(self):
        return (
            f"positions of layer {self.name!r} must be below its `max_length` {self.max_length}: "
            "shorten the text, build the layer longer, or take positions without a table"
        )

    def compute_output_spec(self, inputs, start_index=0, positions=None):
        self._check_positions(inputs.shape, start_index, positions)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
            "skipped_rows": self.skipped_rows,
        }
