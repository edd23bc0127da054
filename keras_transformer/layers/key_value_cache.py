"""Keys and values of the tokens decoded so far."""

from typing import Any, NamedTuple

from keras import ops


class KeyValueCache(NamedTuple):
    """What attention remembers of R rows. M key/value heads, H and W their widths, L places.

    Attributes:
        key: (R, L, M, H), turned by position already. value: (R, L, M, W).
        positions: int32 (R, L), the absolute position in each place, -1 where it is empty.
    """

    key: Any
    value: Any
    positions: Any

    @classmethod
    def empty(cls, rows, length, num_heads, key_dim, value_dim, dtype):
        """Returns a cache of `length` places for each of `rows` hypotheses."""
        return cls(
            key=ops.zeros((rows, length, num_heads, key_dim), dtype=dtype),
            value=ops.zeros((rows, length, num_heads, value_dim), dtype=dtype),
            positions=ops.full((rows, length), -1, dtype="int32"),
        )

    def update(self, key, value, positions, index):
        """Returns the cache with T more tokens, written from place `index` on.

        Args:
            key: (R, T, M, H). value: (R, T, M, W). positions: int32 (R, T), -1 on padding.
            index: int or int32 scalar tensor.
        """
        return KeyValueCache(
            ops.slice_update(self.key, (0, index, 0, 0), ops.cast(key, self.key.dtype)),
            ops.slice_update(self.value, (0, index, 0, 0), ops.cast(value, self.value.dtype)),
            ops.slice_update(self.positions, (0, index), positions),
        )
