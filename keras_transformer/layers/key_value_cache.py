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

    Attributes:
        key: (B, M, K, L, H), turned by position already. value: (B, M, K, L, W).
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
            key=ops.zeros((rows, num_heads, 1, length, key_dim), dtype=dtype),
            value=ops.zeros((rows, num_heads, 1, length, value_dim), dtype=dtype),
            positions=ops.full((rows, length), -1, dtype="int32"),
            origins=ops.zeros((rows, 1, length), dtype="int32"),
        )

    @property
    def num_hypotheses(self):
        """K, how many hypotheses a sentence has."""
        return self.key.shape[2]

    def repeat_rows(self, times):
        """Returns the cache with every hypothesis repeated `times` times, copies adjacent.

        The rows added are empty: all copies find the tokens so far where they were written.
        """
        more = ((0, 0), (0, 0), (0, self.num_hypotheses * (times - 1)), (0, 0), (0, 0))
        return KeyValueCache(
            key=ops.pad(self.key, more),
            value=ops.pad(self.value, more),
            positions=self.positions,
            origins=ops.repeat(self.origins, times, axis=1),
        )

    def select_rows(self, parents):
        """Returns the cache whose hypotheses go on from the old ones `parents`, int32 (B, K)."""
        return self._replace(origins=ops.take_along_axis(self.origins, parents[:, :, None], axis=1))

    def update(self, key, value, positions, index):
        """Returns the cache with T more tokens, written from place `index` on.

        Where the backend works eagerly, keys and values are written into this cache.

        Args:
            key: (R, T, M, H). value: (R, T, M, W). positions: int32 (R, T), -1 on padding; the same
                for all hypotheses of a sentence.
            index: int or int32 scalar tensor.

        Raises:
            ValueError: if the tokens do not fit, in an eager call.
        """
        check_room(self.key.shape[3], index, key.shape[1])
        count, length = self.num_hypotheses, key.shape[1]
        positions = ops.reshape(ops.cast(positions, "int32"), (-1, count, length))  # (B, K, T)
        own = ops.broadcast_to(
            ops.arange(count, dtype="int32")[None, :, None], ops.shape(positions)
        )
        start = (0, 0, 0, index, 0)
        return KeyValueCache(
            key=backend.write(self.key, self._by_sentence(key), start),
            value=backend.write(self.value, self._by_sentence(value), start),
            positions=ops.slice_update(self.positions, (0, index), positions[:, 0]),
            origins=ops.slice_update(self.origins, (0, 0, index), own),
        )

    def _by_sentence(self, heads):
        """Returns (B, M, K, T, X) from (R, T, M, X)."""
        groups, width = heads.shape[2:]
        shape = (-1, self.num_hypotheses, heads.shape[1], groups, width)
        return ops.transpose(ops.cast(ops.reshape(heads, shape), self.key.dtype), (0, 3, 1, 2, 4))

    def view(self, heads):
        """Returns (B, M, K L, X): `key` or `value`, the places of all hypotheses in a row."""
        batch, groups, count, length, width = ops.shape(heads)
        return ops.reshape(heads, (batch, groups, count * length, width))

    def narrowed(self, request):
        """Returns the request for K T queries of a sentence over the K L places of its rows.

        A query sees the places of its own history, which `origins` tells.

        Args:
            request: `AttentionRequest` with `query_positions` (R, T).
        """
        count, length = self.num_hypotheses, request.query_positions.shape[1]
        request = request._replace(
            query_positions=ops.reshape(request.query_positions, (-1, count * length)),
            key_positions=ops.tile(self.positions, (1, count)),  # (B, K L)
        )
        if count == 1:
            return request
        rows = ops.arange(count, dtype="int32")[:, None]
        own = ops.equal(self.origins[:, :, None, None, :], rows)  # (B, K, 1, K, L)
        own = ops.repeat(own, length, axis=2)  # (B, K, T, K, L)
        places = ops.shape(self.origins)[2]
        own = ops.reshape(own, (-1, 1, count * length, count * places))
        return request._replace(attention_mask=own)
