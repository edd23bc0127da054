"""Attention to what stands near, and to a few global tokens."""

import keras
from keras import ops

from keras_transformer.arguments import (
    check_flags,
    check_from_zero,
    check_positive,
    check_positive_or_none,
)
from keras_transformer.layers.attention_mechanism import Attended, AttentionMechanism
from keras_transformer.layers.blockwise_attention import few_scores
from keras_transformer.layers.key_value_cache import check_room
from keras_transformer.layers.rolling_key_value_cache import RollingKeyValueCache
from keras_transformer.ops.attention import dense_attention
from keras_transformer.ops.attention_request import is_global
from keras_transformer.ops.blockwise_attention import blockwise_attention


@keras.saving.register_keras_serializable(package="keras_transformer")
class SlidingWindowAttention(AttentionMechanism):
    """Exact attention under a window: O(n w) time, O(n) memory, forward and backward.

        query i sees key j  if  |i - j| < window, or i or j is global  (and j <= i if causal)

    A causal query so sees itself and the window - 1 tokens before it. Blocks of scores that hold no
    such pair are not visited; no n x n mask exists. Distances are those of absolute positions, and
    a cache of decoding keeps only what the window still reaches.

    Args:
        window: int, w.
        global_tokens: int, g: the tokens at positions 0 .. g - 1 see all and are seen by all
            (Longformer). Others can be named besides in a call by `global_mask`, bool (B, T).
        global_projections: whether what global tokens see passes through queries, keys and values
            of their own; not with cached decoding.
        block_size: int, the longest block of queries or keys; half the window, within 64 to 512, by
            default.

    Raises:
        ValueError: if an argument is outside its rule.

    >>> mechanism = SlidingWindowAttention(window=256, global_tokens=1)
    >>> attention = MultiHeadAttention(num_heads=2, key_dim=8, mechanism=mechanism)

    Reference: Beltagy, Peters and Cohan 2020, sections 3.1 and 3.2.
    """

    def __init__(
        self, window, global_tokens=0, global_projections=False, block_size=None, **kwargs
    ):
        super().__init__(**kwargs)
        check_positive(window=window)
        check_from_zero(global_tokens=global_tokens)
        check_flags(global_projections=global_projections)
        check_positive_or_none(block_size=block_size)
        self.window = window
        self.global_tokens = global_tokens
        self.global_projections = global_projections
        self.block_size = block_size

    cache_class = RollingKeyValueCache

    @property
    def reads_positions(self):
        # The first tokens are the first real ones, not the padding before them.
        return self.global_tokens > 0

    def refusal(self, request):
        if request.return_scores:
            return 'a sliding window keeps no attention scores; mechanism="dense" returns them'
        return None

    def attend(self, query, key, value, request):
        local = request._replace(window=self.window, global_tokens=self.global_tokens)
        output = self._attend(query, key, value, local)
        if request.global_heads is None:
            return Attended(output)
        rows = is_global(local, request.query_positions, 0, ops.shape(query)[1])  # (B|1, T)
        if rows is None:
            return Attended(output)
        full = self._attend(*request.global_heads, request._replace(global_mask=None), rows)
        return Attended(ops.where(rows[:, :, None, None], full, output))

    def _attend(self, query, key, value, request, rows_wanted=None):
        block_size = self.block_size or min(512, max(64, self.window // 2))
        if few_scores(query, key, block_size):
            return dense_attention(query, key, value, request)[0]
        return blockwise_attention(query, key, value, request, block_size, rows_wanted)

    @property
    def _places(self):
        """How many earlier tokens a query can reach, however long the text."""
        return self.window - 1 + self.global_tokens

    def empty_cache(self, rows, length, num_heads, key_dim, value_dim, dtype):
        places = max(1, min(length, self._places))
        return RollingKeyValueCache.empty(rows, places, num_heads, key_dim, value_dim, dtype)

    def step(self, query, key, value, cache, index, request):
        if self.global_projections:
            raise ValueError(
                "`global_projections` must be False for cached decoding: the cache holds one set "
                "of keys and values. Share the projections, or decode without a cache."
            )
        if cache.key.shape[1] < self._places:
            # Made for a text shorter than the window: nothing that it still reaches may be lost.
            check_room(cache.key.shape[1], index, key.shape[1])
        memory, cache = cache.extend(key, value, request.query_positions, self.global_tokens)
        request = request._replace(key_positions=memory.positions)
        return self.attend(query, memory.key, memory.value, request), cache

    def recall(self, query, key, value, request):
        raise ValueError(
            "`mechanism` must not be a sliding window where a context is remembered: its tokens "
            "have no distance to those that are decoded. Take an exact one, as blocks do."
        )

    def get_config(self):
        return {
            **super().get_config(),
            "window": self.window,
            "global_tokens": self.global_tokens,
            "global_projections": self.global_projections,
            "block_size": self.block_size,
        }
