"""How scores become outputs, and at what cost in the length n: the second axis of the design."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.layers.key_value_cache import KeyValueCache
from keras_transformer.layers.shared_layer import SharedLayer
from keras_transformer.ops.attention import heads_first_attention

# Queries of a decoding step, all hypotheses of a sentence together, up to which it is plain.
FEW_QUERIES = 64


class Attended(NamedTuple):
    """What a mechanism returns: output (B, T, N, W), and weights (B, N, T, S) where asked."""

    output: Any
    weights: Any = None


class AttentionMechanism(SharedLayer):
    """The contract of a mechanism, passed to `MultiHeadAttention(mechanism=...)`.

    A mechanism overrides `attend`, and `refusal` where there is something that it cannot do;
    `empty_cache` and `step` if it remembers past tokens otherwise than as keys and values. It may
    own weights: `build((B, T, N, H))` gets the shape of the queries.

    Attributes:
        global_projections: whether global tokens look through projections of their own, which then
            arrive as `request.global_heads`.
        reads_positions: whether it asks for the tokens' absolute positions, as a position scheme
            does, because their places in a padded row are not the same to it.
        cache_class: the class of what `empty_cache` returns, with `num_rows`.

    >>> class UniformAttention(AttentionMechanism):
    ...     def attend(self, query, key, value, request):
    ...         return DenseAttention().attend(0 * query, key, value, request)
    >>> attention = MultiHeadAttention(num_heads=2, key_dim=8, mechanism=UniformAttention())
    """

    global_projections = False
    reads_positions = False
    cache_class = KeyValueCache

    def build(self, query_shape):
        self.built = True

    def attend(self, query, key, value, request):
        """Returns `Attended` for query (B, T, N, H), key (B, S, M, H) and value (B, S, M, W)."""
        raise NotImplementedError

    def refusal(self, request):
        """Returns why this mechanism cannot do what is asked, and which can; None if it can."""
        if request.global_mask is not None:
            return "a global mask is read by `SlidingWindowAttention` only; pass one as `mechanism`"
        return None

    def choose(self, request, query_length, key_length):
        """Returns the mechanism that a call runs on: itself, but for `AutoAttention`."""
        return self

    def empty_cache(self, rows, length, num_heads, key_dim, value_dim, dtype):
        """Returns what `step` starts from, a part of `decoding.DecodingState.cache`."""
        return KeyValueCache.empty(rows, length, num_heads, key_dim, value_dim, dtype)

    def step(self, query, key, value, cache, index, request):
        """Causal self-attention of T new tokens over all tokens so far.

        Args:
            query: (R, T, N, H). key: (R, T, M, H). value: (R, T, M, W).
            cache: what `empty_cache` or the last `step` returned.
            index: int32 scalar, tokens in it.
            request: `AttentionRequest`, causal, with the new tokens' `query_positions` (R, T).

        Returns:
            (`Attended`, cache with the new tokens).
        """
        cache = cache.update(key, value, request.query_positions, index)
        _, length, heads, width = query.shape
        # K hypotheses of T queries are K T queries of one sentence.
        together = ops.reshape(query, (-1, cache.num_hypotheses * length, heads, width))
        output = self.recall(together, cache.key, cache.value, cache.narrowed(request)).output
        return Attended(ops.reshape(output, (-1, length, heads, output.shape[-1]))), cache

    def recall(self, query, key, value, request):
        """`attend` over what is kept between steps, (B, M, S, H) and (B, M, S, W)."""
        return self.attend(query, ops.swapaxes(key, 1, 2), ops.swapaxes(value, 1, 2), request)


class ExactAttention(AttentionMechanism):
    """A mechanism that gives what `DenseAttention` gives."""

    def recall(self, query, key, value, request):
        """Few queries have few scores: the plain way, without a copy of what is kept."""
        if query.shape[1] is None or query.shape[1] > FEW_QUERIES:
            return super().recall(query, key, value, request)
        output, _ = heads_first_attention(ops.swapaxes(query, 1, 2), key, value, request)
        return Attended(ops.swapaxes(output, 1, 2))


def mechanism_names():
    """Returns the mechanisms that have a name, by name."""
    # They build on this module, so that it cannot import them at its head.
    from keras_transformer.layers.auto_attention import AutoAttention
    from keras_transformer.layers.blockwise_attention import BlockwiseAttention
    from keras_transformer.layers.dense_attention import DenseAttention
    from keras_transformer.layers.fused_attention import FusedAttention

    return {
        "auto": AutoAttention,
        "blockwise": BlockwiseAttention,
        "dense": DenseAttention,
        "fused": FusedAttention,
    }


def get_mechanism(identifier):
    """Returns the mechanism of that name ("auto", "dense", ...), of that config, or the object."""
    names = mechanism_names()
    if isinstance(identifier, str) and identifier in names:
        return names[identifier]()
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if isinstance(identifier, AttentionMechanism):
        return identifier
    raise ValueError(
        f"`mechanism` must be one of {sorted(names)} or an `AttentionMechanism`; "
        f'got {identifier!r}. Take "auto" if unsure.'
    )
