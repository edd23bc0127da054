"""Token embedding with a tied output head (section 3.4)."""

import math

import keras
from keras import ops

from keras_transformer.arguments import check_positive
from keras_transformer.ops.backend import (
    check_ids,
    matrix_product,
    no_autocast,
    rows_inside,
    set_keras_mask,
)


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.ReversibleEmbedding):
    """One matrix that makes vectors of ids and logits of vectors.

        embed(i) = E_i sqrt(model_dim),   logits(x) = head_scale x E^T + head_bias

    Shared by source, target and output head, as in the paper. The matrix starts as a normal
    distribution of deviation model_dim^-0.5, so that vectors and logits have unit variance.

    Args:
        vocabulary_size: int, V.
        model_dim: int, D.
        scale: whether vectors are multiplied by sqrt(model_dim) on the way in.
        tie_weights: whether the head is the transpose of the matrix, or a matrix of its own.
        head_scale: float that multiplies x E^T, None for 1; T5's is model_dim^-0.5.
        head_bias: whether a number for each entry of the vocabulary is added to the logits; BERT
            and Marian have them.
        pad_id: int, the id that marks padding, or None: the mask that Keras carries along is
            True where an id is another one.
        embeddings_initializer: of the matrix; normal(0, model_dim^-0.5) by default.

    Call arguments:
        inputs: int (B, T), or with `reverse=True` float (B, T, D).
        reverse: whether to make logits.

    Returns:
        (B, T, D), or with `reverse=True` logits (B, T, V).

    Raises:
        ValueError: if an id is outside [0, vocabulary_size), in an eager call. A TensorFlow graph
            raises its own error; compiled by XLA (JAX, `jit_compile=True`), which cannot raise, the
            vector becomes NaN.

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
        head_scale=None,
        head_bias=False,
        pad_id=0,
        embeddings_initializer=None,
        **kwargs,
    ):
        check_positive(vocabulary_size=vocabulary_size, model_dim=model_dim)
        if "mask_zero" in kwargs:
            raise ValueError(
                f"`mask_zero` must be left out; got {kwargs['mask_zero']!r}. Pass `pad_id`, the id "
                "that is padding, or None for no mask."
            )
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
        self.head_scale = head_scale
        self.head_bias = head_bias
        self.pad_id = pad_id

    def build(self, input_shape=None):
        super().build(input_shape)
        if self.head_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.vocabulary_size,), initializer="zeros"
            )

    def call(self, inputs, reverse=False):
        if not reverse:
            with no_autocast():  # rows are cast, not the whole matrix for their sake
                return self._vectors(super().call, inputs)
        if not self.has_plain_head:
            return self._scaled_and_shifted(super().call(inputs, reverse=True))
        table = ops.convert_to_tensor(self.embeddings)
        inputs = ops.cast(inputs, table.dtype)
        return self._scaled_and_shifted(matrix_product(inputs, table, transpose_right=True))

    @property
    def has_plain_head(self):
        """Whether the logits are x E^T, without Keras's soft cap or a dtype of their own."""
        return self.tie_weights and self.logit_soft_cap is None and self.reverse_dtype is None

    def quantized_call(self, inputs, reverse=False):
        if not reverse:
            return self._vectors(super().quantized_call, inputs)
        return self._scaled_and_shifted(super().quantized_call(inputs, reverse=True))

    def _vectors(self, call, inputs):
        ids = check_ids(
            ops.cast(inputs, "int32"),
            self.vocabulary_size,
            f"Ids of layer {self.name!r} must be in [0, {self.vocabulary_size}), the size of its "
            "vocabulary: use the tokenizer that the model was built for",
        )
        vectors = rows_inside(call(ids), ids, self.vocabulary_size)  # (B, T, D)
        if self.scale:
            vectors = ops.multiply(vectors, ops.cast(math.sqrt(self.model_dim), vectors.dtype))
        if self.pad_id is not None:
            set_keras_mask(vectors, ops.not_equal(ids, self.pad_id))
        return vectors

    def _scaled_and_shifted(self, logits):
        if self.head_scale is not None:
            logits = ops.multiply(logits, ops.cast(self.head_scale, logits.dtype))
        return ops.add(logits, ops.cast(self.bias, logits.dtype)) if self.head_bias else logits

    def head_factors(self, features):
        """Returns features (R, E) and a kernel (V, E) whose product is the logits.

        A bias makes E one more than D: the features get a 1, the kernel the bias. The kernel is in
        the weights' own dtype, and so is its gradient.

        Args:
            features: (R, D).
        """
        with no_autocast():
            kernel = self.embeddings if self.tie_weights else ops.transpose(self.reverse_embeddings)
            kernel = ops.convert_to_tensor(kernel)
            bias = ops.convert_to_tensor(self.bias) if self.head_bias else None
        if self.head_scale is not None:
            kernel = ops.multiply(kernel, ops.cast(self.head_scale, kernel.dtype))
        if bias is not None:
            kernel = ops.concatenate([kernel, bias[:, None]], axis=1)
            features = ops.concatenate([features, ops.ones_like(features[:, :1])], axis=1)
        return features, kernel

    @property
    def variable_serialization_spec(self):
        spec = super().variable_serialization_spec
        if not self.head_bias:
            return spec
        return {mode: [*names, "bias"] for mode, names in spec.items()}

    def get_config(self):
        config = super().get_config()
        for unused in ("input_dim", "output_dim", "mask_zero", "activity_regularizer"):
            config.pop(unused, None)
        return {
            **config,
            "vocabulary_size": self.vocabulary_size,
            "model_dim": self.model_dim,
            "scale": self.scale,
            "head_scale": self.head_scale,
            "head_bias": self.head_bias,
            "pad_id": self.pad_id,
        }
