"""How order enters attention: the contract of the first axis of the design."""

import keras


class PositionScheme(keras.layers.Layer):
    """A position scheme that acts inside attention, passed to `MultiHeadAttention(position=...)`.

    It overrides `rotate` (rotary), or `bias` (ALiBi, T5) and sets `has_bias`. Positions are absolute
    int32, so that a cache offset, left padding and packed sentences are right. `build((B, T, N, H))`
    gets the shape of the queries.
    """

    has_bias = False

    def build(self, heads_shape):
        self.built = True

    def rotate(self, heads, positions):
        """Returns the queries or keys (B, T, N, H), turned by their positions (B|1, T)."""
        return heads

    def bias(self, query_positions, key_positions):
        """Returns float32 (A, N, T, S) to add to the scores, from positions (A, T) and (A, S)."""
        return None
