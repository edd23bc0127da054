"""The mechanism that picks another one for each call."""

import keras

from keras_transformer.layers.attention_mechanism import ExactAttention
from keras_transformer.layers.blockwise_attention import BlockwiseAttention
from keras_transformer.layers.dense_attention import DenseAttention
from keras_transformer.layers.fused_attention import FusedAttention
from keras_transformer.ops import backend

# Scores of a head from which on the whole matrix is not worth its memory.
MANY_SCORES = 1024 * 1024


@keras.saving.register_keras_serializable(package="keras_transformer")
class AutoAttention(ExactAttention):
    """Takes the exact mechanism that suits a call best; `choose` tells which.

    1. Attention scores are asked for: dense, the only one that has them.
    2. The backend has a fused kernel that can do what is asked, and need not be handed a large
       T x S mask or bias made for it: fused.
    3. There are many scores (2^20 a head, say 1024 x 1024): blockwise.
    4. Otherwise dense; also where a length is not known while the graph is traced, as in
       TensorFlow's: for long texts there, pass "blockwise" or inputs of known length.

    `MultiHeadAttention.chosen_mechanism` asks it for a layer.

    Raises:
        ValueError: at a call, if a global mask is asked for.

    >>> from keras_transformer.ops.attention_request import AttentionRequest
    >>> chosen = AutoAttention().choose(AttentionRequest(return_scores=True), 128, 128)
    >>> type(chosen).__name__
    'DenseAttention'
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = DenseAttention(name="dense_attention")
        self.fused = FusedAttention(name="fused_attention")
        self.blockwise = BlockwiseAttention(name="blockwise_attention")

    def build(self, query_shape):
        for mechanism in (self.dense, self.fused, self.blockwise):
            mechanism.build(query_shape)
        self.built = True

    def choose(self, request, query_length, key_length):
        """Returns the mechanism that a call runs on.

        Args:
            request: `AttentionRequest`. query_length, key_length: int, T and S, or None if unknown.
        """
        if request.return_scores:
            return self.dense
        known = isinstance(query_length, int) and isinstance(key_length, int)
        many = known and query_length * key_length >= MANY_SCORES
        if backend.has_fused_attention() and self.fused.refusal(request) is None:
            if not (many and _needs_matrix(request)):
                return self.fused
        return self.blockwise if many else self.dense

    def attend(self, query, key, value, request):
        chosen = self.choose(request, query.shape[1], key.shape[1])
        return chosen.attend(query, key, value, request)


def _needs_matrix(request):
    """Returns whether a kernel that takes a T x S mask or bias would have to be made one."""
    positions = request.query_positions is not None or request.key_positions is not None
    return (
        request.position_bias is not None
        or request.query_segments is not None
        or (request.causal and (positions or request.key_mask is not None))
    )
