"""Exact attention by the backend's own kernel."""

import keras

from keras_transformer.layers.attention_mechanism import Attended, ExactAttention
from keras_transformer.ops.attention import fused_dense_attention


@keras.saving.register_keras_serializable(package="keras_transformer")
class FusedAttention(ExactAttention):
    """Exact attention by `scaled_dot_product_attention` of torch or `jax.nn.dot_product_attention`.

    It keeps no matrix of scores where the kernel does not; a mask or a bias is passed to it whole.
    It has no attention scores, no dropout and no soft cap, and TensorFlow has no such kernel.

    Raises:
        ValueError: at a layer's build or call, if it cannot do what is asked.

    >>> attention = MultiHeadAttention(num_heads=2, key_dim=8, mechanism="fused")

    Reference: Dao et al. 2022 (FlashAttention).
    """

    def attend(self, query, key, value, request):
        return Attended(fused_dense_attention(query, key, value, request))

    def refusal(self, request):
        if keras.config.backend() == "tensorflow":
            return 'TensorFlow has no fused attention; take mechanism="blockwise" or "auto"'
        asked = [
            name
            for name, is_asked in (
                ("attention scores", request.return_scores),
                ("attention dropout", request.dropout > 0),
                ("a logit soft cap", request.logit_soft_cap is not None),
            )
            if is_asked
        ]
        if asked:
            return f'the fused kernel cannot do {" and ".join(asked)}; mechanism="dense" can'
        return super().refusal(request)
