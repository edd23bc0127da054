"""One layer of the encoder (section 3.1)."""

import keras
from keras import ops

from keras_transformer.layers.frozen_layers import freeze_what_was_built
from keras_transformer.layers.transformer_block import TransformerBlock
from keras_transformer.ops.backend import get_keras_mask


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderBlock(TransformerBlock):
    """Self-attention, then a feed-forward network, each in a residual connection.

        x = norm(x + dropout(attention(x, x, x)))
        x = norm(x + dropout(feed_forward(x)))

    Args:
        num_heads: int, N, divides the width D of the inputs (or `key_dim` is given).
        intermediate_dim: int, the inner width of the feed-forward network.
        dropout: float in [0, 1), on the output of each sublayer, before it is added (section 5.4).
        activation: name or function, of the feed-forward network.
        gated: whether the feed-forward network is gated.
        normalize_first: False is the paper's post-norm; True normalizes the input of each sublayer
            (pre-norm), and the stack then ends with a normalization of its own.
        normalization: "layer" or "rms".
        epsilon: float, of the normalization.
        use_bias: whether the linear maps have biases.
        feed_forward_bias: whether those of the feed-forward network have; `use_bias` by default.
        attention_dropout: float, on the attention weights; not in the paper.
        feed_forward_dropout: float, inside the feed-forward network; not in the paper.
        key_dim: int, width of a head's queries and keys; D / num_heads by default.
        value_dim: int, width of a head's values; `key_dim` by default.
        num_key_value_heads: int, divides `num_heads`; as many by default.
        attention_scale: float that multiplies the scores; 1 / sqrt(key_dim) by default, 1 in T5.
        position: `PositionScheme` inside attention, or None.
        logit_soft_cap, query_key_norm: as in `MultiHeadAttention`.
        mechanism: "auto", "dense", "fused", "blockwise" or an `AttentionMechanism`.
        seed: int, for the dropout.

    Call arguments:
        inputs: (B, T, D).
        mask: bool (B, T), True on real tokens; by default the mask that Keras carries along.
        attention_mask: bool (T, T), (B, T, T) or (B, N, T, T), True = may attend.
        bias: float (T, T), (N, T, T) or (B, N, T, T), added to the scaled scores.
        positions: int (T,) or (B, T), absolute positions for `position`, -1 on padding.
        segments: int (B, T): packed sentences; a token sees only its own number.
        global_mask: bool (B, T), True where a token sees all and is seen by all; read by
            `SlidingWindowAttention`.
        training: whether dropout acts.
        return_attention_scores: whether to return (outputs, weights (B, N, T, T)).

    Returns:
        (B, T, D)

    Raises:
        ValueError: if an argument is outside its rule, or the mechanism cannot do what is asked.

    >>> EncoderBlock(num_heads=2, intermediate_dim=32)(keras.ops.ones((1, 5, 16))).shape
    (1, 5, 16)

    Reference: Vaswani et al. 2017, section 3.1; pre-norm: Xiong et al. 2020.
    """

    def build(self, inputs_shape):
        self.attention = self._attention(
            inputs_shape[-1], "attention", position=self.position, mechanism=self.mechanism
        )
        self.attention.build(inputs_shape, inputs_shape)
        self.feed_forward = self._feed_forward()
        self.feed_forward.build(inputs_shape)
        self.attention_norm = self._norm(inputs_shape, "attention_norm")
        self.feed_forward_norm = self._norm(inputs_shape, "feed_forward_norm")
        freeze_what_was_built(self)
        self.built = True

    def call(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        positions=None,
        segments=None,
        training=None,
        return_attention_scores=False,
        bias=None,
        global_mask=None,
    ):
        mask = get_keras_mask(inputs) if mask is None else mask
        inputs = ops.cast(inputs, self.compute_dtype)
        normed = self._before(inputs, self.attention_norm)
        attended, scores = self._attend(
            self.attention,
            normed,
            normed,
            return_attention_scores,
            value_mask=mask,
            attention_mask=attention_mask,
            bias=bias,
            global_mask=global_mask,
            query_positions=positions,
            key_positions=positions,
            query_segments=segments,
            key_segments=segments,
            training=training,
        )
        hidden = self._after(inputs, attended, self.attention_norm, training)
        outputs = self._feed(hidden, training)
        return (outputs, scores) if return_attention_scores else outputs

    def compute_output_spec(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        positions=None,
        segments=None,
        training=None,
        return_attention_scores=False,
        bias=None,
        global_mask=None,
    ):
        attended = self.attention.compute_output_spec(
            inputs,
            inputs,
            value_mask=mask,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            bias=bias,
            global_mask=global_mask,
            query_positions=positions,
            key_positions=positions,
            query_segments=segments,
            key_segments=segments,
        )
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        return (outputs, attended[1]) if return_attention_scores else outputs
