"""How order enters attention: the contract of the first axis of the design."""

import keras

from keras_transformer.layers.shared_layer import SharedLayer


class PositionScheme(SharedLayer):
    """A position scheme that acts inside attention, passed to `MultiHeadAttention(position=...)`.

    It overrides `rotate` (rotary), or `bias` (ALiBi, T5) and sets `has_bias`. Positions are
    absolute int32, so that a cache offset, left padding and packed sentences are right.
    `build((B, T, N, H))` gets the shape of the queries. One object may serve several layers, and is
    then one set of weights.

    >>> class FlatBias(PositionScheme):
    ...     has_bias = True
    ...     def bias(self, query_positions, key_positions):
    ...         distance = query_positions[:, :, None] - key_positions[:, None, :]
    ...         return -0.1 * keras.ops.cast(keras.ops.abs(distance), "float32")[:, None]
    >>> attention = MultiHeadAttention(num_heads=2, key_dim=8, position=FlatBias())
    """

    has_bias = False

    def build(self, heads_shape):
        self.built = True

    def rotate(self, heads, positions):
        """Returns the queries or keys (B, T, N, H), turned by their positions (B|1, T)."""
        return heads

    def parameters(self):
        """Returns a tuple of the weights that `bias` reads, as tensors.

        They travel apart from the function, for a mechanism that recomputes the bias in the
        backward pass must name what it is differentiated by.
        """
        return ()

    def bias(self, query_positions, key_positions, *parameters):
        """Returns float32 (A, N, T, S) to add to the scores, from positions (A, T) and (A, S)."""
        return None


def get_position_scheme(identifier):
    """Returns the scheme of that config, the object itself, or None."""
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if identifier is None or isinstance(identifier, PositionScheme):
        return identifier
    raise ValueError(
        f"`position` must be a `PositionScheme` or None; got {identifier!r}. Encodings that are "
        "added to embeddings are layers of their own, called before the first block."
    )
