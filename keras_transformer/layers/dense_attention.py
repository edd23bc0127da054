"""Exact attention with the whole matrix of scores."""

import keras

from keras_transformer.layers.attention_mechanism import Attended, ExactAttention
from keras_transformer.ops.attention import dense_attention


@keras.saving.register_keras_serializable(package="keras_transformer")
class DenseAttention(ExactAttention):
    """Exact attention that holds all T x S scores: does everything, in O(T S) memory.

    Raises:
        ValueError: at a call, if a global mask is asked for.

    >>> attention = MultiHeadAttention(num_heads=2, key_dim=8, mechanism="dense")

    Reference: Vaswani et al. 2017, section 3.2.1.
    """

    def attend(self, query, key, value, request):
        output, weights = dense_attention(query, key, value, request)
        return Attended(output, weights if request.return_scores else None)
