"""How scores become outputs, and at what cost in the length n: the second axis of the design."""

from typing import Any, NamedTuple

import keras

from keras_transformer.ops import backend
from keras_transformer.ops.attention import dense_attention, fused_dense_attention


class Attended(NamedTuple):
    """What a mechanism returns: output (B, T, N, W), and weights (B, N, T, S) where asked, else None."""

    output: Any
    weights: Any = None


class AttentionMechanism(keras.layers.Layer):
    """The contract of a mechanism, passed to `MultiHeadAttention(mechanism=...)`.

    A mechanism overrides `attend`, and `refusal` where there is something that it cannot do. It may
    own weights: `build((B, T, N, H))` gets the shape of the queries.
    """

    def build(self, query_shape):
        self.built = True

    def attend(self, query, key, value, request):
        """Returns `Attended` for query (B, T, N, H), key (B, S, M, H) and value (B, S, M, W)."""
        raise NotImplementedError

    def refusal(self, request):
        """Returns why this mechanism cannot do what is asked, and which can; None if it can."""
        return None


@keras.saving.register_keras_serializable(package="keras_transformer")
class DenseAttention(AttentionMechanism):
    """Exact attention that holds all T x S scores: does everything, at O(T S) memory."""

    def attend(self, query, key, value, request):
        output, weights = dense_attention(query, key, value, request)
        return Attended(output, weights if request.return_scores else None)


@keras.saving.register_keras_serializable(package="keras_transformer")
class FusedAttention(AttentionMechanism):
    """Exact attention by the backend's own kernel (PyTorch's scaled_dot_product_attention,
    `jax.nn.dot_product_attention`), which holds no matrix of scores."""

    def attend(self, query, key, value, request):
        return Attended(fused_dense_attention(query, key, value, request))

    def refusal(self, request):
        if keras.config.backend() == "tensorflow":
            return 'TensorFlow has no fused attention; take mechanism="blockwise" or "auto"'
        asked = [
            name
            for name, is_asked in (
                ("attention scores", request.return_scores),
                ("attention dropout", request.dropout > 0),
                ("a logit soft cap", request.logit_soft_cap is not None),
            )
            if is_asked
        ]
        if asked:
            return f'the fused kernel cannot do {" and ".join(asked)}; mechanism="dense" can'
        return None


@keras.saving.register_keras_serializable(package="keras_transformer")
class AutoAttention(AttentionMechanism):
    """Takes the fused kernel where the backend has one that can do what is asked, else the dense way."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = DenseAttention()
        self.fused = FusedAttention()

    def choose(self, request):
        """Returns the mechanism that a call with this request runs on."""
        if backend.has_fused_attention() and self.fused.refusal(request) is None:
            return self.fused
        return self.dense

    def attend(self, query, key, value, request):
        return self.choose(request).attend(query, key, value, request)


_BY_NAME = {"auto": AutoAttention, "dense": DenseAttention, "fused": FusedAttention}


def get_mechanism(identifier):
    """Returns the mechanism of that name ("auto", "dense", "fused"), config, or object."""
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if isinstance(identifier, AttentionMechanism):
        return identifier
    raise ValueError(
        f"`mechanism` must be one of {sorted(_BY_NAME)} or an `AttentionMechanism`; "
        f'got {identifier!r}. Take "auto" if unsure.'
    )
