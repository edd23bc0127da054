"""What the encoder's and the decoder's blocks have in common: the third axis of the design."""

import keras
from keras import ops

from keras_transformer.arguments import (
    check_above_zero,
    check_flags,
    check_positive,
    check_positive_or_none,
    check_rates,
)
from keras_transformer.layers.attention_mechanism import get_mechanism
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.dropout_seed import dropout_seed
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import (
    MultiHeadAttention,
    check_score_options,
)
from keras_transformer.layers.position_scheme import get_position_scheme
from keras_transformer.ops.activations import get_activation

NORMALIZATIONS = ("layer", "rms")


class TransformerBlock(keras.layers.Layer):
    """Sublayers, each in a residual connection with dropout and normalization (section 3.1, 5.4).

        post-norm (the paper): x = norm(x + dropout(sublayer(x)))
        pre-norm:              x = x + dropout(sublayer(norm(x)))

    `EncoderBlock` and `DecoderBlock` add what they attend to.
    """

    def __init__(
        self,
        num_heads,
        intermediate_dim,
        dropout=0.0,
        *,
        activation="relu",
        gated=False,
        normalize_first=False,
        normalization="layer",
        epsilon=1e-6,
        use_bias=True,
        feed_forward_bias=None,
        attention_dropout=0.0,
        feed_forward_dropout=0.0,
        key_dim=None,
        value_dim=None,
        num_key_value_heads=None,
        attention_scale=None,
        logit_soft_cap=None,
        query_key_norm=None,
        position=None,
        mechanism="auto",
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.autocast = False  # attention is to see a bias as it is
        check_positive(num_heads=num_heads, intermediate_dim=intermediate_dim)
        check_positive_or_none(key_dim=key_dim, value_dim=value_dim)
        check_positive_or_none(num_key_value_heads=num_key_value_heads)
        check_rates(dropout=dropout, attention_dropout=attention_dropout)
        check_rates(feed_forward_dropout=feed_forward_dropout)
        check_above_zero(epsilon=epsilon)
        check_flags(gated=gated, normalize_first=normalize_first, use_bias=use_bias)
        check_score_options(attention_scale, logit_soft_cap, query_key_norm, "attention_scale")
        if normalization not in NORMALIZATIONS:
            raise ValueError(
                f"`normalization` must be one of {NORMALIZATIONS}; got {normalization!r}. "
                'The paper takes "layer".'
            )
        self.supports_masking = True
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.activation = get_activation(activation)
        self.gated = gated
        self.normalize_first = normalize_first
        self.normalization = normalization
        self.epsilon = epsilon
        self.use_bias = use_bias
        self.feed_forward_bias = use_bias if feed_forward_bias is None else feed_forward_bias
        self.attention_dropout = attention_dropout
        self.feed_forward_dropout = feed_forward_dropout
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.num_key_value_heads = num_key_value_heads
        self.attention_scale = attention_scale
        self.logit_soft_cap = logit_soft_cap
        self.query_key_norm = query_key_norm
        self.position = get_position_scheme(position)
        self.mechanism = get_mechanism(mechanism)
        self.seed = seed
        self.residual_dropout = Dropout(
            dropout, seed=dropout_seed(seed, "residual"), dtype=self.dtype_policy
        )

    def _attention(self, model_dim, name, **axes):
        if self.key_dim is None and model_dim % self.num_heads:
            raise ValueError(
                f"`num_heads` must divide the width of the inputs; got {self.num_heads} heads for "
                f"width {model_dim}. Take a divisor, or set `key_dim`."
            )
        return MultiHeadAttention(
            self.num_heads,
            self.key_dim or model_dim // self.num_heads,
            self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            num_key_value_heads=self.num_key_value_heads,
            scale=self.attention_scale,
            logit_soft_cap=self.logit_soft_cap,
            query_key_norm=self.query_key_norm,
            seed=dropout_seed(self.seed, name),
            dtype=self.dtype_policy,
            name=name,
            **axes,
        )

    def _feed_forward(self):
        return FeedForward(
            self.intermediate_dim,
            self.activation,
            gated=self.gated,
            dropout=self.feed_forward_dropout,
            use_bias=self.feed_forward_bias,
            seed=dropout_seed(self.seed, "feed_forward"),
            dtype=self.dtype_policy,
            name="feed_forward",
        )

    def _norm(self, shape, name):
        norm = make_normalization(
            self.normalization, self.epsilon, dtype=self.dtype_policy, name=name
        )
        norm.build(shape)
        return norm

    def _before(self, inputs, norm):
        return norm(inputs) if self.normalize_first else inputs

    @staticmethod
    def _attend(attention, query, value, return_attention_scores, **asked):
        """Returns (outputs, weights), weights None unless asked for."""
        if return_attention_scores:
            return attention(query, value, return_attention_scores=True, **asked)
        return attention(query, value, **asked), None

    def _after(self, inputs, outputs, norm, training=False):
        """Closes the residual connection around a sublayer."""
        summed = ops.add(inputs, self.residual_dropout(outputs, training=training))
        return summed if self.normalize_first else norm(summed)

    def _feed(self, inputs, training=False):
        """The last sublayer of every block."""
        outputs = self.feed_forward(self._before(inputs, self.feed_forward_norm), training=training)
        return self._after(inputs, outputs, self.feed_forward_norm, training)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "activation": keras.activations.serialize(self.activation),
            "gated": self.gated,
            "normalize_first": self.normalize_first,
            "normalization": self.normalization,
            "epsilon": self.epsilon,
            "use_bias": self.use_bias,
            "feed_forward_bias": self.feed_forward_bias,
            "attention_dropout": self.attention_dropout,
            "feed_forward_dropout": self.feed_forward_dropout,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "num_key_value_heads": self.num_key_value_heads,
            "attention_scale": self.attention_scale,
            "logit_soft_cap": self.logit_soft_cap,
            "query_key_norm": self.query_key_norm,
            "position": keras.saving.serialize_keras_object(self.position),
            "mechanism": keras.saving.serialize_keras_object(self.mechanism),
            "seed": self.seed,
        }


def make_normalization(kind, epsilon, **kwargs):
    """Returns the normalization layer of that kind, "layer" or "rms"."""
    if kind == "rms":
        norm = keras.layers.RMSNormalization(epsilon=epsilon, **kwargs)
        # It works on each token alone, so that a mask stays true; Keras would warn that it is lost.
        norm.supports_masking = True
        return norm
    return keras.layers.LayerNormalization(epsilon=epsilon, **kwargs)
