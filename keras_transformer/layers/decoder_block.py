"""One layer of the decoder (section 3.1)."""

import keras
from keras import ops

from keras_transformer.layers.frozen_layers import freeze_what_was_built
from keras_transformer.layers.transformer_block import TransformerBlock
from keras_transformer.ops.backend import get_keras_mask


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderBlock(TransformerBlock):
    """Masked self-attention, attention to the encoder's output, a feed-forward network.

        x = norm(x + dropout(attention(x, x, x; causal)))
        x = norm(x + dropout(attention(x, context, context)))
        x = norm(x + dropout(feed_forward(x)))

    Called without `context` it has no second sublayer: the block of a decoder-only model.

    Args:
        num_heads, intermediate_dim, dropout, activation, gated, normalize_first, normalization,
            epsilon, use_bias, feed_forward_bias, attention_dropout, feed_forward_dropout, key_dim,
            value_dim, num_key_value_heads, attention_scale, logit_soft_cap, query_key_norm,
            seed: as in `EncoderBlock`.
        position: `PositionScheme` of the self-attention, or None.
        mechanism: of the self-attention: "auto", "dense", "fused", "blockwise" or an
            `AttentionMechanism`. The attention to the context is exact ("auto").

    Call arguments:
        inputs: (B, T, D).
        context: (B, S, D'), the encoder's output, or None.
        mask: bool (B, T), True on real tokens; by default the mask that Keras carries along.
        context_mask: bool (B, S), likewise for the context.
        positions: int (T,) or (B, T), absolute positions, -1 on padding.
        segments: int (B, T): packed sentences; context_segments: int (B, S), likewise.
        attention_mask: bool (T, T), (B, T, T) or (B, N, T, T), of the self-attention, which is
            causal besides. bias: float, likewise, added to its scaled scores.
        training: whether dropout acts.
        return_attention_scores: whether to return (outputs, self weights (B, N, T, T), context
            weights (B, N, T, S)); without `context` the first two.

    Returns:
        (B, T, D)

    Raises:
        ValueError: if an argument is outside its rule, the mechanism cannot do what is asked, or
            `context` is given in some calls and left out in others.

    >>> block = DecoderBlock(num_heads=2, intermediate_dim=32)
    >>> block(keras.ops.ones((1, 5, 16)), context=keras.ops.ones((1, 7, 16))).shape
    (1, 5, 16)

    Reference: Vaswani et al. 2017, section 3.1.
    """

    def build(self, inputs_shape, context_shape=None):
        self.self_attention = self._attention(
            inputs_shape[-1], "self_attention", position=self.position, mechanism=self.mechanism
        )
        self.self_attention.build(inputs_shape, inputs_shape)
        self.self_attention_norm = self._norm(inputs_shape, "self_attention_norm")
        self.context_attention = None
        if context_shape is not None:
            self.context_attention = self._attention(inputs_shape[-1], "context_attention")
            self.context_attention.build(inputs_shape, context_shape)
            self.context_attention_norm = self._norm(inputs_shape, "context_attention_norm")
        self.feed_forward = self._feed_forward()
        self.feed_forward.build(inputs_shape)
        self.feed_forward_norm = self._norm(inputs_shape, "feed_forward_norm")
        freeze_what_was_built(self)
        self.built = True

    def call(
        self,
        inputs,
        context=None,
        mask=None,
        context_mask=None,
        positions=None,
        segments=None,
        context_segments=None,
        training=None,
        return_attention_scores=False,
        attention_mask=None,
        bias=None,
    ):
        self._check_context(context)
        mask = get_keras_mask(inputs) if mask is None else mask
        inputs = ops.cast(inputs, self.compute_dtype)
        normed = self._before(inputs, self.self_attention_norm)
        attended, self_scores = self._attend(
            self.self_attention,
            normed,
            normed,
            return_attention_scores,
            value_mask=mask,
            attention_mask=attention_mask,
            use_causal_mask=True,
            bias=bias,
            query_positions=positions,
            key_positions=positions,
            query_segments=segments,
            key_segments=segments,
            training=training,
        )
        hidden = self._after(inputs, attended, self.self_attention_norm, training)
        scores = [self_scores]
        if context is not None:
            attended, context_scores = self._attend(
                self.context_attention,
                self._before(hidden, self.context_attention_norm),
                context,
                return_attention_scores,
                value_mask=context_mask,
                query_segments=segments,
                key_segments=context_segments,
                training=training,
            )
            hidden = self._after(hidden, attended, self.context_attention_norm, training)
            scores.append(context_scores)
        outputs = self._feed(hidden, training)
        return (outputs, *scores) if return_attention_scores else outputs

    def empty_cache(self, rows, length):
        """Returns the self-attention's cache for `rows` hypotheses of up to `length` tokens."""
        return self.self_attention.empty_cache(rows, length)

    def remember(self, context):
        """Returns the keys and values of the context, computed once a sentence."""
        return self.context_attention.remember(context)

    def step(self, inputs, cache, index, positions, memory=None, context_mask=None):
        """The block for T new tokens of R hypotheses, without dropout.

        Args:
            inputs: (R, T, D). cache, index, positions: as in `MultiHeadAttention.step`.
            memory: what `remember` returned, for B sentences, R = B K, or None.
            context_mask: bool (B, S), or None.

        Returns:
            (outputs (R, T, D), cache with the new tokens).
        """
        self._check_context(memory)
        normed = self._before(inputs, self.self_attention_norm)
        attended, cache = self.self_attention.step(normed, cache, index, positions)
        hidden = self._after(inputs, attended, self.self_attention_norm)
        if memory is not None:
            normed = self._before(hidden, self.context_attention_norm)
            attended = self.context_attention.recall(normed, memory, context_mask)
            hidden = self._after(hidden, attended, self.context_attention_norm)
        return self._feed(hidden), cache

    def _check_context(self, context):
        if (context is None) != (self.context_attention is None):
            built = "without" if self.context_attention is None else "with"
            raise ValueError(
                f"`context` of layer {self.name!r} must be given always or never: its first call "
                f"built it {built} attention to a context. Build another block for the other use."
            )

    def compute_output_spec(
        self,
        inputs,
        context=None,
        mask=None,
        context_mask=None,
        positions=None,
        segments=None,
        context_segments=None,
        training=None,
        return_attention_scores=False,
        attention_mask=None,
        bias=None,
    ):
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        attended = [
            self.self_attention.compute_output_spec(
                inputs,
                inputs,
                value_mask=mask,
                attention_mask=attention_mask,
                return_attention_scores=True,
                bias=bias,
                query_positions=positions,
                key_positions=positions,
                query_segments=segments,
                key_segments=segments,
            )
        ]
        if context is not None:
            across = self.context_attention.compute_output_spec(
                inputs,
                context,
                value_mask=context_mask,
                return_attention_scores=True,
                query_segments=segments,
                key_segments=context_segments,
            )
            attended.append(across)
        scores = [weights for _, weights in attended]
        return (outputs, *scores) if return_attention_scores else outputs
