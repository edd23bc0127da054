"""Keys and values of the tokens that a window still reaches."""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

ALWAYS = int(np.iinfo("int32").max) // 2


class RollingKeyValueCache(NamedTuple):
    """What a window of attention remembers of R rows. L places, however long the text.

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

    @property
    def num_rows(self):
        """R, hypotheses of all sentences."""
        return self.key.shape[0]

    def extend(self, key, value, positions, kept_first=0):
        """Adds T tokens and forgets those furthest back.

        What is attended over holds the old tokens and the new ones, so that a chunk of several does
        not push out what its first tokens still see.

        Args:
            key: (R, T, M, H). value: (R, T, M, W). positions: int32 (R, T), -1 on padding.
            kept_first: int g, the tokens at positions 0 .. g - 1 are never forgotten.

        Returns:
            (what to attend over, of L + T places; the cache to keep).
        """
        together = RollingKeyValueCache(
            ops.concatenate([self.key, ops.cast(key, self.key.dtype)], axis=1),
            ops.concatenate([self.value, ops.cast(value, self.value.dtype)], axis=1),
            ops.concatenate([self.positions, ops.cast(positions, "int32")], axis=1),
        )
        rank = together.positions
        if kept_first:
            first = ops.logical_and(rank >= 0, rank < kept_first)
            rank = ops.where(first, rank + ALWAYS, rank)
        # By position, not by place: padding within a chunk must not push out a token.
        places = ops.cast(ops.top_k(rank, self.positions.shape[1])[1], "int32")  # (R, L)
        kept = RollingKeyValueCache(
            ops.take_along_axis(together.key, places[:, :, None, None], axis=1),
            ops.take_along_axis(together.value, places[:, :, None, None], axis=1),
            ops.take_along_axis(together.positions, places, axis=1),
        )
        return together, kept
