"""Token embedding with a tied output head (section 3.4)."""

import math

import keras
from keras import ops

from keras_transformer.ops.backend import check_ids, set_keras_mask


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.ReversibleEmbedding):
    """One matrix that makes vectors of ids and logits of vectors.

        embed(i) = E_i sqrt(model_dim),   logits(x) = x E^T

    Shared by source, target and output head, as in the paper. The matrix starts as a normal
    distribution of deviation model_dim^-0.5, so that embedded vectors have unit variance and logits too.

    Args:
        vocabulary_size: int, V.
        model_dim: int, D.
        scale: whether vectors are multiplied by sqrt(model_dim) on the way in.
        tie_weights: whether the head is the transpose of the matrix, or a matrix of its own.
        pad_id: int, the id that marks padding, or None: the mask that Keras carries along is
            True where an id is another one.
        embeddings_initializer: of the matrix; normal(0, model_dim^-0.5) by default.

    Call arguments:
        inputs: int (B, T), or with `reverse=True` float (B, T, D).
        reverse: whether to make logits.

    Returns:
        (B, T, D), or with `reverse=True` logits (B, T, V).

    Raises:
        ValueError: if an id is outside [0, vocabulary_size) (where values can be seen: see
            `ops.backend.check_ids`).

    >>> embedding = TokenEmbedding(vocabulary_size=11, model_dim=8)
    >>> vectors = embedding(keras.ops.array([[3, 5, 0]]))   # (1, 3, 8)
    >>> embedding(vectors, reverse=True).shape
    (1, 3, 11)

    Reference: Vaswani et al. 2017, section 3.4; Press and Wolf 2016.
    """

    def __init__(
        self,
        vocabulary_size,
        model_dim,
        *,
        scale=True,
        tie_weights=True,
        pad_id=0,
        embeddings_initializer=None,
        **kwargs,
    ):
        for name, value in (("vocabulary_size", vocabulary_size), ("model_dim", model_dim)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"`{name}` must be a positive integer; got {value!r}.")
        if embeddings_initializer is None:
            embeddings_initializer = keras.initializers.RandomNormal(stddev=model_dim**-0.5)
        super().__init__(
            input_dim=vocabulary_size,
            output_dim=model_dim,
            tie_weights=tie_weights,
            embeddings_initializer=embeddings_initializer,
            **kwargs,
        )
        self.supports_masking = True
        self.vocabulary_size = vocabulary_size
        self.model_dim = model_dim
        self.scale = scale
        self.pad_id = pad_id

    def call(self, inputs, reverse=False):
        if reverse:
            return super().call(inputs, reverse=True)
        ids = check_ids(
            ops.cast(inputs, "int32"),
            self.vocabulary_size,
            f"Ids of layer {self.name!r} must be in [0, {self.vocabulary_size}), the size of its "
            "vocabulary: use the tokenizer that the model was built for",
        )
        vectors = super().call(ids)  # (B, T, D)
        if self.scale:
            vectors = ops.multiply(vectors, ops.cast(math.sqrt(self.model_dim), vectors.dtype))
        if self.pad_id is not None:
            set_keras_mask(vectors, ops.not_equal(ids, self.pad_id))
        return vectors

    def head_kernel(self):
        """Returns the head's matrix, float (V, D): logits = x kernel^T."""
        if self.tie_weights:
            return ops.convert_to_tensor(self.embeddings)
        return ops.transpose(self.reverse_embeddings)

    def get_config(self):
        config = super().get_config()
        for unused in ("input_dim", "output_dim", "mask_zero", "activity_regularizer"):
            config.pop(unused, None)
        return {
            **config,
            "vocabulary_size": self.vocabulary_size,
            "model_dim": self.model_dim,
            "scale": self.scale,
            "pad_id": self.pad_id,
        }
