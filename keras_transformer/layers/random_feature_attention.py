"""Attention in time that grows with the length: softmax by random features."""

import random

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import check_from_zero, check_positive
from keras_transformer.layers.attention_mechanism import Attended, AttentionMechanism
from keras_transformer.ops.random_features import (
    FeatureSums,
    causal_random_feature_attention,
    orthogonal_features,
    random_feature_attention,
)


@keras.saving.register_keras_serializable(package="keras_transformer")
class RandomFeatureAttention(AttentionMechanism):
    """The Performer's estimate of softmax attention (FAVOR+): O(n) time and memory.

        softmax(Q K^T scale) V  ~  D^-1 phi(Q) (phi(K)^T V),  phi(x)_f = exp(w_f . x - |x|^2 / 2)

    The error falls as 1 / sqrt(num_features) and grows fast with the size of the scores. The
    features are orthogonal, saved with the model and the same in every call until `redraw`. Causal
    attention takes prefix sums, and cached decoding keeps those sums instead of the past tokens.

    It can do without: attention scores, dropout, biases (and so ALiBi and relative biases; rotary
    works), soft cap, packed sentences, and any mask but causal and padding. Causal attention takes
    queries and keys in the order in which they stand.

    Args:
        num_features: int, F; about H log H for a good estimate, 256 for heads of 64.
        seed: int, of the features; None for those of the process's random state.

    Raises:
        ValueError: if an argument is outside its rule.

    >>> attention = MultiHeadAttention(num_heads=2, key_dim=8, mechanism=RandomFeatureAttention(64))

    Reference: Choromanski et al. 2021 (Performer), section 2 and 3.
    """

    built_from_axes = (2, 3)

    def __init__(self, num_features=256, seed=None, **kwargs):
        super().__init__(**kwargs)
        check_positive(num_features=num_features)
        if seed is not None:
            check_from_zero(seed=seed)
        self.num_features = num_features
        self.seed = seed

    def build(self, query_shape):
        # keras.utils.set_random_seed seeds Python's generator.
        seed = random.getrandbits(32) if self.seed is None else self.seed
        self.features = self.add_weight(
            name="features",
            shape=(self.num_features, query_shape[-1]),
            initializer=lambda shape, dtype=None: self._drawn(shape, seed),
            trainable=False,
            autocast=False,
        )
        self.num_heads = query_shape[2]
        self.built = True

    cache_class = FeatureSums

    def _drawn(self, shape, seed):
        drawn = orthogonal_features(*shape, np.random.default_rng(seed))
        return ops.convert_to_tensor(drawn)

    def redraw(self, seed=None):
        """Draws other features, between steps of a training; prediction never does.

        Raises:
            ValueError: if there are none yet.
        """
        if not self.built:
            raise ValueError(
                f"{self.name!r} must be built before `redraw`: its features have the width of the "
                "layer's heads. Call or build the layer first."
            )
        if seed is not None:
            check_from_zero(seed=seed)
        seed = random.getrandbits(32) if seed is None else seed
        self.features.assign(self._drawn(self.features.shape, seed))

    def refusal(self, request):
        asked = [
            name
            for name, is_asked in (
                ("attention scores", request.return_scores),
                ("attention dropout", request.dropout > 0),
                ("an attention mask beyond causal and padding", request.attention_mask is not None),
                ("a bias", request.bias is not None or request.position_bias is not None),
                ("a logit soft cap", request.logit_soft_cap is not None),
                ("packed sentences", request.query_segments is not None),
            )
            if is_asked
        ]
        if asked:
            return f'random features cannot do {" and ".join(asked)}; mechanism="dense" can'
        return super().refusal(request)

    def attend(self, query, key, value, request):
        key, value = self._every_head(key), self._every_head(value)
        if not request.causal:
            output = random_feature_attention(
                query, key, value, self._features(), request.scale, _visible(request)
            )
            return Attended(output)
        if query.shape[1] != key.shape[1]:
            raise ValueError(
                "`value` must have as many tokens as `query` for causal random features;"
                f' got {key.shape[1]} for {query.shape[1]}. mechanism="dense" takes others.'
            )
        output, _ = causal_random_feature_attention(
            query, key, value, self._features(), request.scale, _visible(request)
        )
        return Attended(output)

    def _features(self):
        return ops.convert_to_tensor(self.features)

    def _every_head(self, heads):
        """Returns (B, S, N, X) from (B, S, M, X): a key/value head repeated for its queries."""
        times = self.num_heads // heads.shape[2]
        return heads if times == 1 else ops.repeat(heads, times, axis=2)

    def empty_cache(self, rows, length, num_heads, key_dim, value_dim, dtype):
        return FeatureSums.empty(rows, self.num_heads, self.num_features, value_dim)

    def step(self, query, key, value, cache, index, request):
        output, cache = causal_random_feature_attention(
            query,
            self._every_head(key),
            self._every_head(value),
            self._features(),
            request.scale,
            request.query_positions >= 0,
            cache,
        )
        return Attended(output), cache

    def get_config(self):
        return {**super().get_config(), "num_features": self.num_features, "seed": self.seed}


def _visible(request):
    """Returns bool (B|1, S): keys that are neither masked nor empty, or None for all."""
    visible = None if request.key_positions is None else request.key_positions >= 0
    if request.key_mask is None:
        return visible
    return request.key_mask if visible is None else ops.logical_and(request.key_mask, visible)
