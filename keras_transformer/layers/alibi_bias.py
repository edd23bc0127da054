"""ALiBi: the further away, the lower the score."""

import keras
import numpy as np
from keras import ops

from keras_transformer.layers.position_scheme import PositionScheme
from keras_transformer.ops.alibi import alibi_slopes


@keras.saving.register_keras_serializable(package="keras_transformer")
class AlibiBias(PositionScheme):
    """Attention with linear biases: each head lowers a score in proportion to the distance.

        score(i, j) += -slope_head |i - j|

    Under a causal mask only j <= i is seen, which is the paper's bias; without one the same bias
    acts on both sides. Nothing is learned, and texts longer than those of the training keep a
    meaning.

    >>> attention = MultiHeadAttention(num_heads=6, key_dim=8, position=AlibiBias())

    Reference: Press, Smith and Lewis 2021, section 3; both sides: the authors' notes on encoders.
    """

    has_bias = True
    built_from_axes = (2,)

    def build(self, heads_shape):
        self._slopes = np.array(alibi_slopes(heads_shape[2]), "float32")[None, :, None, None]
        self.built = True

    def bias(self, query_positions, key_positions):
        distance = ops.abs(query_positions[:, :, None] - key_positions[:, None, :])  # (A, T, S)
        return ops.multiply(ops.cast(distance, "float32")[:, None], -self._slopes)
