"""Multi-head attention (section 3.2.2)."""

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
from keras_transformer.layers.frozen_layers import freeze_what_was_built
from keras_transformer.layers.head_projection import merge_heads, project_heads
from keras_transformer.layers.position_scheme import get_position_scheme
from keras_transformer.layers.quantization_record import QuantizationRecord
from keras_transformer.ops.attention_axes import both_masks, four_axes, mask_axes, two_axes
from keras_transformer.ops.attention_checks import (
    check_attention_call,
    check_recall,
    check_step,
    require_rank_three,
)
from keras_transformer.ops.attention_request import AttentionRequest
from keras_transformer.ops.backend import get_keras_mask
from keras_transformer.ops.positions import counted_positions

QUERY_KEY_NORMS = {
    None: None,
    "rms": keras.layers.RMSNormalization,
    "layer": keras.layers.LayerNormalization,
}


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(QuantizationRecord, keras.layers.Layer):
    """Attention of several heads at once: a drop-in for `keras.layers.MultiHeadAttention`.

        MultiHead(Q, K, V) = Concat(head_1, ..., head_N) W_O
        head_i = softmax((Q W_Qi) (K W_Ki)^T / sqrt(key_dim)) (V W_Vi)

    The same call, mask meaning (True = may attend), weights and numbers as Keras's. Beyond it: an
    additive `bias`, grouped key/value heads, position schemes, mechanisms, packed sentences, a
    key/value cache; no path loses a mask, and a row that may attend to nothing gives zeros.

    Letters: B batch, T queries, S keys, N heads, M key/value heads, H key width, D model width.

    Args:
        num_heads: int, N.
        key_dim: int, H, the width of a head's queries and keys.
        value_dim: int, the width of a head's values; `key_dim` by default.
        dropout: float in [0, 1), share of attention weights dropped in training.
        use_bias: whether the four projections have a bias.
        output_shape: int, the width of the output; that of the query by default.
        num_key_value_heads: int, M, divides N: each key/value head serves N / M query heads
            (grouped-query attention; 1 is multi-query). N by default.
        position: `PositionScheme` that acts inside attention (rotary, ALiBi, relative), or None.
        mechanism: "auto", "dense", "fused", "blockwise" or an `AttentionMechanism`.
        scale: float that multiplies the scores; 1 / sqrt(key_dim) by default (section 3.2.1).
        logit_soft_cap: float c > 0: scores become c tanh(scores / c); None for none.
        query_key_norm: None, "rms" or "layer": each head's query and key is normalized over its
            width, with a learned gain, before it is turned by position.
        kernel_initializer: of the four projections.
        bias_initializer: of their biases.
        seed: int, for the dropout.

    Call arguments:
        query: (B, T, D). value: (B, S, D). key: (B, S, D), `value` by default.
        query_mask: bool (B, T); a masked query gives zeros before the output projection.
        value_mask, key_mask: bool (B, S), both must be True for a key to be seen.
        attention_mask: bool (T, S), (B, T, S) or (B, N, T, S).
        return_attention_scores: whether to return (output, weights (B, N, T, S)).
        training: whether dropout acts.
        use_causal_mask: whether a query sees only keys at its position and before.
        bias: float (T, S), (N, T, S) or (B, N, T, S), added to the scaled scores.
        query_positions, key_positions: int (T,) or (B, T), absolute positions; 0, 1, ... by
            default. A negative key position marks padding.
        query_segments, key_segments: int (B, T): packed sentences; each sees only its own number.
        global_mask: bool (B, T), True where a token of a self-attention sees all and is seen by
            all; read by `SlidingWindowAttention`.

    Raises:
        ValueError: if an argument is outside its rule, or the mechanism cannot do what is asked.

    >>> attention = MultiHeadAttention(num_heads=2, key_dim=8)
    >>> attention(keras.ops.ones((1, 5, 16)), keras.ops.ones((1, 7, 16))).shape
    (1, 5, 16)

    Reference: Vaswani et al. 2017, section 3.2; grouped heads: Ainslie et al. 2023.
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        output_shape=None,
        *,
        num_key_value_heads=None,
        position=None,
        mechanism="auto",
        scale=None,
        logit_soft_cap=None,
        query_key_norm=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.autocast = False  # a bias of -1e9 or 300.5 is none in half precision
        check_positive(num_heads=num_heads, key_dim=key_dim)
        check_positive_or_none(value_dim=value_dim, output_shape=output_shape)
        check_positive_or_none(num_key_value_heads=num_key_value_heads)
        check_rates(dropout=dropout)
        check_flags(use_bias=use_bias)
        check_score_options(scale, logit_soft_cap, query_key_norm)
        if num_heads % (num_key_value_heads or num_heads):
            raise ValueError(
                f"`num_key_value_heads` must divide `num_heads`; got {num_key_value_heads} for "
                f"{num_heads} heads. Take a divisor of {num_heads}."
            )
        self.supports_masking = True
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim or key_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.output_shape = output_shape
        self.num_key_value_heads = num_key_value_heads or num_heads
        self.position = get_position_scheme(position)
        self.mechanism = get_mechanism(mechanism)
        self.scale = key_dim**-0.5 if scale is None else scale
        self.logit_soft_cap = logit_soft_cap
        self.query_key_norm = query_key_norm
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None

    def build(self, query_shape, value_shape, key_shape=None):
        _require_rank_three(query=query_shape, value=value_shape, key=key_shape or value_shape)
        self._widths = {
            "query": query_shape[-1],
            "value": value_shape[-1],
            "key": (key_shape or value_shape)[-1],
        }
        width = self.output_shape or query_shape[-1]
        heads, groups = self.num_heads, self.num_key_value_heads
        self.query_dense = self._heads_dense("query", heads, self.key_dim)
        self.key_dense = self._heads_dense("key", groups, self.key_dim)
        self.value_dense = self._heads_dense("value", groups, self.value_dim)
        self.output_dense = self._dense("btnh,nhd->btd", (width,), "d", "attention_output")
        self.query_dense.build(query_shape)
        self.key_dense.build(key_shape or value_shape)
        self.value_dense.build(value_shape)
        self.output_dense.build((*query_shape[:-1], heads, self.value_dim))
        if self.mechanism.global_projections:
            self.global_denses = [
                self._heads_dense("global_query", heads, self.key_dim),
                self._heads_dense("global_key", groups, self.key_dim),
                self._heads_dense("global_value", groups, self.value_dim),
            ]
            for dense in self.global_denses:
                dense.build(query_shape)
        heads_shape = (*query_shape[:-1], heads, self.key_dim)
        if self.query_key_norm is not None:
            self.query_norm = self._head_norm("query_norm", heads_shape)
            self.key_norm = self._head_norm("key_norm", (*query_shape[:-1], groups, self.key_dim))
        for part in (self.position, self.mechanism):
            if part is not None:
                part.build_for(heads_shape)
        self._request(dropout=self.dropout)  # what the mechanism refuses, it refuses now
        freeze_what_was_built(self)
        self.built = True

    def _heads_dense(self, name, heads, width):
        return self._dense("btd,dnh->btnh", (heads, width), "nh", name)

    def _dense(self, equation, output_axes, bias_axes, name):
        dense = keras.layers.EinsumDense(
            equation,
            output_shape=(None, *output_axes),
            bias_axes=bias_axes if self.use_bias else None,
            # An initializer object repeats its values when it is called again: each takes a copy.
            kernel_initializer=self.kernel_initializer.clone(),
            bias_initializer=self.bias_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )
        # It works on each token alone, so that a mask stays true; Keras would warn that it is lost.
        dense.supports_masking = True
        return dense

    def _head_norm(self, name, heads_shape):
        norm = QUERY_KEY_NORMS[self.query_key_norm](
            epsilon=1e-6, dtype=self.dtype_policy, name=name
        )
        norm.build(heads_shape)
        return norm

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        bias=None,
        query_positions=None,
        key_positions=None,
        query_segments=None,
        key_segments=None,
        global_mask=None,
    ):
        key = value if key is None else key
        check_attention_call(
            query,
            value,
            key,
            self.num_heads,
            query_mask=query_mask,
            value_mask=value_mask,
            key_mask=key_mask,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            use_causal_mask=use_causal_mask,
            bias=bias,
            query_positions=query_positions,
            key_positions=key_positions,
            query_segments=query_segments,
            key_segments=key_segments,
            global_mask=global_mask,
        )
        self._check_widths(query=query, value=value, key=key)
        query_mask = _implicit_mask(query, query_mask)
        key_mask = both_masks(
            _implicit_mask(value, value_mask),
            None if key is value and key_mask is None else _implicit_mask(key, key_mask),
        )
        query, value, key = self._cast(query, value, key)
        request = self._request(
            causal=use_causal_mask,
            key_mask=key_mask,
            attention_mask=mask_axes(attention_mask),
            query_positions=two_axes(query_positions),
            key_positions=two_axes(key_positions),
            query_segments=two_axes(query_segments),
            key_segments=two_axes(key_segments),
            global_mask=None if global_mask is None else ops.cast(global_mask, "bool"),
            bias=four_axes(bias),
            dropout=self.dropout if training else 0.0,
            return_scores=return_attention_scores,
        )
        if self.mechanism.global_projections:
            projected = [
                dense(each)
                for dense, each in zip(self.global_denses, (query, key, value), strict=True)
            ]
            request = request._replace(global_heads=self._placed(*projected, request))
        projected = self._project(query, key, value)
        query_heads, key_heads, value_heads = self._placed(*projected, request)
        attended = self._attend(query_heads, key_heads, value_heads, request, query_mask)
        outputs = merge_heads(attended.output, self.output_dense)
        return (outputs, attended.weights) if return_attention_scores else outputs

    def _check_widths(self, **inputs):
        for name, tensor in inputs.items():
            width = self._widths[name]
            if tensor.shape[-1] != width:
                raise ValueError(
                    f"`{name}` of layer {self.name!r} must be {width} wide, as when it was built; "
                    f"got shape {tuple(tensor.shape)}. Build another layer for another width."
                )

    def _cast(self, query, value, key):
        """Returns them in the layer's dtype; one tensor stays one."""
        cast = {id(each): ops.cast(each, self.compute_dtype) for each in (query, value, key)}
        return (cast[id(each)] for each in (query, value, key))

    def _project(self, query, key, value):
        """Returns the heads of query (B, T, N, H), key (B, S, M, H) and value (B, S, M, W)."""
        if key is not value:
            return self.query_dense(query), self.key_dense(key), self.value_dense(value)
        if query is value:
            return project_heads(value, (self.query_dense, self.key_dense, self.value_dense))
        return self.query_dense(query), *project_heads(value, (self.key_dense, self.value_dense))

    def _placed(self, query, key, value, request):
        """Returns the heads with queries and keys normalized and turned by their positions."""
        if self.query_key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        return (
            self._rotate(query, request.query_positions),
            self._rotate(key, request.key_positions),
            value,
        )

    def _rotate(self, heads, positions):
        if self.position is None:
            return heads
        if positions is None:
            positions = counted_positions(ops.shape(heads)[1])
        return self.position.rotate(heads, positions)

    def _request(self, **asked):
        has_bias = self.position is not None and self.position.has_bias
        request = AttentionRequest(
            position_bias=self.position.bias if has_bias else None,
            position_parameters=self.position.parameters() if has_bias else (),
            scale=self.scale,
            logit_soft_cap=self.logit_soft_cap,
            seed_generator=self.seed_generator,
            **asked,
        )
        refusal = self.mechanism.refusal(request)
        if refusal is not None:
            raise ValueError(f"`mechanism` of layer {self.name!r}: {refusal}.")
        return request

    def _attend(self, query, key, value, request, query_mask=None):
        attended = self.mechanism.attend(query, key, value, request)
        if query_mask is None:
            return attended
        rows = ops.cast(query_mask, "bool")
        output = ops.where(rows[:, :, None, None], attended.output, ops.zeros_like(attended.output))
        weights = attended.weights
        if weights is not None:
            weights = ops.where(rows[:, None, :, None], weights, ops.zeros_like(weights))
        return attended._replace(output=output, weights=weights)

    def chosen_mechanism(
        self,
        query_length,
        key_length,
        training=False,
        use_causal_mask=False,
        return_attention_scores=False,
    ):
        """Returns the mechanism that a call without masks runs on, which "auto" chooses.

        Args:
            query_length, key_length: int, T and S, or None where a graph does not know them.
            training, use_causal_mask, return_attention_scores: as in the call.

        Raises:
            ValueError: if the layer is not built, or the mechanism cannot do what is asked.

        >>> attention = MultiHeadAttention(num_heads=2, key_dim=8, dropout=0.1)
        >>> attention.build((None, None, 16), (None, None, 16))
        >>> attention.chosen_mechanism(8192, 8192, training=True).name
        'blockwise_attention'
        """
        if not self.built:
            raise ValueError(f"Layer {self.name!r} must be built to choose. Call or build it.")
        request = self._request(
            causal=use_causal_mask,
            dropout=self.dropout if training else 0.0,
            return_scores=return_attention_scores,
        )
        return self.mechanism.choose(request, query_length, key_length)

    def empty_cache(self, rows, length):
        """Returns the cache for `rows` hypotheses of up to `length` tokens.

        Raises:
            ValueError: if one of them is not a positive integer.
        """
        sizes = {"rows": rows, "length": length}
        check_positive(**{name: size for name, size in sizes.items() if not _is_tensor(size)})
        widths = self.num_key_value_heads, self.key_dim, self.value_dim
        return self.mechanism.empty_cache(rows, length, *widths, self.compute_dtype)

    def step(self, inputs, cache, index, positions):
        """Causal self-attention of T new tokens over all tokens so far.

        Args:
            inputs: (R, T, D). cache: of `empty_cache`. index: int32 scalar, tokens in the cache.
            positions: int32 (R, T), absolute positions of the new tokens, -1 on padding.

        Returns:
            (outputs (R, T, D), cache with the new tokens).

        Raises:
            ValueError: if the cache is of another mechanism, or rows or positions do not fit; if
                the tokens do not fit into the cache, in an eager call.
        """
        if not isinstance(cache, self.mechanism.cache_class):
            raise ValueError(
                f"`cache` of layer {self.name!r} must be a {self.mechanism.cache_class.__name__}, "
                f"as its own `empty_cache` makes; got {type(cache).__name__}."
            )
        check_step(inputs, positions, cache)
        positions = ops.convert_to_tensor(positions, dtype="int32")
        request = self._request(causal=True, query_positions=positions)
        placed = request._replace(key_positions=positions)
        query, key, value = self._placed(*self._project(inputs, inputs, inputs), placed)
        attended, cache = self.mechanism.step(query, key, value, cache, index, request)
        return merge_heads(attended.output, self.output_dense), cache

    def remember(self, context):
        """Returns keys (B, M, S, H) and values (B, M, S, W) of a context that is read often."""
        key, value = project_heads(context, (self.key_dense, self.value_dense))
        key = key if self.query_key_norm is None else self.key_norm(key)
        return ops.swapaxes(key, 1, 2), ops.swapaxes(value, 1, 2)

    def recall(self, query, memory, key_mask=None):
        """Attends over what `remember` returned: once a sentence, for all its hypotheses.

        Args:
            query: (R, T, D), R = B K, the hypotheses of a sentence adjacent.
            memory: pair of (B, M, S, H) and (B, M, S, W). key_mask: bool (B, S) or None.

        Returns:
            (R, T, D)

        Raises:
            ValueError: if R is no multiple of B or the mask does not fit; under a sliding window.
        """
        key, value = memory
        check_recall(query, key, key_mask)
        heads = self.query_dense(query)  # (R, T, N, H)
        if self.query_key_norm is not None:
            heads = self.query_norm(heads)
        shape = ops.shape(heads)
        # K hypotheses of T queries are K T queries of one sentence.
        together = ops.reshape(heads, (ops.shape(key)[0], -1, self.num_heads, self.key_dim))
        request = self._request(key_mask=key_mask)
        attended = self.mechanism.recall(together, key, value, request)
        output = ops.reshape(attended.output, (shape[0], shape[1], self.num_heads, self.value_dim))
        return merge_heads(output, self.output_dense)

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        return (*query_shape[:-1], self.output_shape or query_shape[-1])

    def compute_output_spec(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        **given,
    ):
        check_attention_call(
            query,
            value,
            value if key is None else key,
            self.num_heads,
            query_mask=query_mask,
            value_mask=value_mask,
            key_mask=key_mask,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            use_causal_mask=use_causal_mask,
            **given,
        )
        shape = self.compute_output_shape(query.shape, value.shape)
        outputs = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return outputs
        scores = (query.shape[0], self.num_heads, query.shape[1], value.shape[1])
        return outputs, keras.KerasTensor(scores, dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self.output_shape,
            "num_key_value_heads": self.num_key_value_heads,
            "position": keras.saving.serialize_keras_object(self.position),
            "mechanism": keras.saving.serialize_keras_object(self.mechanism),
            "scale": self.scale,
            "logit_soft_cap": self.logit_soft_cap,
            "query_key_norm": self.query_key_norm,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "seed": self.seed,
        }


def check_score_options(scale, logit_soft_cap, query_key_norm, scale_name="scale"):
    """Raises ValueError naming the option of the scores that is outside its rule."""
    if scale is not None:
        check_above_zero(**{scale_name: scale})
    if logit_soft_cap is not None:
        check_above_zero(logit_soft_cap=logit_soft_cap)
    if query_key_norm not in tuple(QUERY_KEY_NORMS):
        raise ValueError(
            f"`query_key_norm` must be one of {tuple(QUERY_KEY_NORMS)}; got "
            f"{query_key_norm!r}. None leaves queries and keys as they are."
        )


def _require_rank_three(**shapes):
    for name, shape in shapes.items():
        require_rank_three(name, shape)


def _is_tensor(size):
    """Returns whether a size is known to a graph only."""
    return hasattr(size, "dtype")


def _implicit_mask(tensor, mask):
    """Returns the mask that was passed, else the one that Keras carries with the tensor."""
    return get_keras_mask(tensor) if mask is None else mask
