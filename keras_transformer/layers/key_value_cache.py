"""Keys and values of the tokens decoded so far."""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.ops import backend


def check_room(places, index, count):
    """Raises ValueError where `count` tokens from `index` on do not fit into so many places.

    A compiled step may not know them; the searches make caches as long as they read.
    """
    start = backend.concrete(index)
    known = all(each is not None for each in (start, count, places))
    if start is not None and int(start) < 0:
        raise ValueError(
            "`index` must be the number of tokens in the cache, 0 or more; got "
            f"{int(start)}. Begin with 0."
        )
    if known and int(start) + count > places:
        raise ValueError(
            f"`length` of the cache must hold every token; got {places} places for {count} tokens "
            f"from {int(start)} on. Make the cache longer with `empty_cache(rows, length)`."
        )


class KeyValueCache(NamedTuple):
    """What attention remembers of B sentences with K hypotheses each, R = B K rows of tokens.

    M key/value heads, H and W their widths, L places. A token's keys and values stay where they
    were written. When a search goes on with other hypotheses, only `origins` changes: the cache of
    a search over 128 rows is 100 MB at the paper's base size, and `origins` is a few kB.

    The K rows of a place lie side by side, so that a step writes one block and attention reads the
    whole as it lies: a compiler has no reason to copy it.

    Attributes:
        key: (B, M, L K, H), turned by position already. value: (B, M, L K, W).
        positions: int32 (B, L), the absolute position in each place, -1 where it is empty.
        origins: int32 (B, K, L): in which of the K rows a hypothesis finds the token of a place.
    """

    key: Any
    value: Any
    positions: Any
    origins: Any

    @classmethod
    def empty(cls, rows, length, num_heads, key_dim, value_dim, dtype):
        """Returns a cache of `length` places for one hypothesis of each of `rows` sentences."""
        return cls(
            key=ops.zeros((rows, num_heads, length, key_dim), dtype=dtype),
            value=ops.zeros((rows, num_heads, length, value_dim), dtype=dtype),
            positions=ops.full((rows, length), -1, dtype="int32"),
            origins=ops.zeros((rows, 1, length), dtype="int32"),
        )

    @property
    def num_hypotheses(self):
        """K, how many hypotheses a sentence has."""
        return self.origins.shape[1]

    @property
    def num_rows(self):
        """R, hypotheses of all sentences."""
        return None if self.key.shape[0] is None else self.key.shape[0] * self.num_hypotheses

    def repeat_rows(self, times):
        """Returns the cache with every hypothesis repeated `times` times, copies adjacent.

        The rows added are empty: all copies find the tokens so far where they were written.
        """
        return KeyValueCache(
            key=self._with_more_rows(self.key, times),
            value=self._with_more_rows(self.value, times),
            positions=self.positions,
            origins=ops.repeat(self.origins, times, axis=1),
        )

    def _with_more_rows(self, heads, times):
        """Returns (B, M, L K times, X) from (B, M, L K, X), the first K of each place as before."""
        batch, groups, places, width = ops.shape(heads)
        count = self.num_hypotheses
        by_place = ops.reshape(heads, (batch, groups, places // count, count, width))
        more = ((0, 0), (0, 0), (0, 0), (0, count * (times - 1)), (0, 0))
        return ops.reshape(ops.pad(by_place, more), (batch, groups, places * times, width))

    def select_rows(self, parents):
        """Returns the cache whose hypotheses go on from the old ones `parents`, int32 (B, K)."""
        return self._replace(origins=ops.take_along_axis(self.origins, parents[:, :, None], axis=1))

    def select_sentences(self, sentences, num_hypotheses):
        """Returns the cache of some sentences alone, int32 (S,)."""
        return KeyValueCache(*(ops.take(part, sentences, axis=0) for part in self))

    def update(self, key, value, positions, index):
        """Returns the cache with T more tokens, written from place `index` on.

        Where the backend works eagerly, they are written into this cache.

        Args:
            key: (R, T, M, H). value: (R, T, M, W). positions: int32 (R, T), -1 on padding; the same
                for all hypotheses of a sentence.
            index: int or int32 scalar tensor.

        Raises:
            ValueError: if the tokens do not fit, in an eager call.
        """
        check_room(self.origins.shape[2], index, key.shape[1])
        count, length = self.num_hypotheses, key.shape[1]
        positions = ops.reshape(ops.cast(positions, "int32"), (-1, count, length))  # (B, K, T)
        own = ops.broadcast_to(
            ops.arange(count, dtype="int32")[None, :, None], ops.shape(positions)
        )
        start = (0, 0, index * count, 0)
        return KeyValueCache(
            key=backend.write(self.key, self._by_place(key), start),
            value=backend.write(self.value, self._by_place(value), start),
            positions=backend.write(ops.copy(self.positions), positions[:, 0], (0, index)),
            origins=backend.write(ops.copy(self.origins), own, (0, 0, index)),
        )

    def _by_place(self, heads):
        """Returns (B, M, T K, X) from (R, T, M, X)."""
        length, groups, width = heads.shape[1:]
        count = self.num_hypotheses
        heads = ops.reshape(ops.cast(heads, self.key.dtype), (-1, count, length, groups, width))
        heads = ops.transpose(heads, (0, 3, 2, 1, 4))  # (B, M, T, K, X)
        return ops.reshape(heads, (-1, groups, length * count, width))

    def narrowed(self, request):
        """Returns the request for K T queries of a sentence over the L K rows of its places.

        A query sees the places of its own history, which `origins` tells.

        Args:
            request: `AttentionRequest` with `query_positions` (R, T).
        """
        count, length = self.num_hypotheses, request.query_positions.shape[1]
        request = request._replace(
            query_positions=ops.reshape(request.query_positions, (-1, count * length)),
            key_positions=ops.repeat(self.positions, count, axis=1),  # (B, L K)
        )
        if count == 1:
            return request
        rows = ops.arange(count, dtype="int32")
        own = ops.equal(self.origins[:, :, None, :, None], rows)  # (B, K, 1, L, K)
        own = ops.repeat(own, length, axis=2)  # (B, K, T, L, K)
        places = ops.shape(self.origins)[2]
        own = ops.reshape(own, (-1, 1, count * length, places * count))
        return request._replace(attention_mask=own)
