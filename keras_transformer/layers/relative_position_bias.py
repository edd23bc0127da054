"""T5's relative position bias: a learned number for each head and bucket of distances."""

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import check_flags, check_positive
from keras_transformer.layers.position_scheme import PositionScheme
from keras_transformer.ops.relative_buckets import relative_bucket


@keras.saving.register_keras_serializable(package="keras_transformer")
class RelativePositionBias(PositionScheme):
    """Adds to a score what a table holds for the head and for how far apart query and key stand.

        score(i, j) += table[bucket(j - i), head]

    As in T5, all blocks of a stack share one table: give them the same object.

    Args:
        num_buckets: int, rows of the table; even and at least 4 where `bidirectional`, else at
            least 2.
        max_distance: int, the distance from which on all share the last bucket.
        bidirectional: True for encoders: keys before and after are told apart. False for decoders,
            where all buckets serve the keys before.
        embeddings_initializer: of the table (num_buckets, N).

    Raises:
        ValueError: if an argument is outside its rule.

    >>> position = RelativePositionBias()
    >>> blocks = [MultiHeadAttention(num_heads=2, key_dim=8, position=position) for _ in range(3)]

    Reference: Raffel et al. 2020, section 2.1.
    """

    has_bias = True
    built_from_axes = (2,)

    def __init__(
        self,
        num_buckets=32,
        max_distance=128,
        bidirectional=True,
        embeddings_initializer="random_normal",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_flags(bidirectional=bidirectional)
        check_positive(num_buckets=num_buckets, max_distance=max_distance)
        sides = 2 if bidirectional else 1
        if num_buckets < 2 * sides or num_buckets % sides:
            raise ValueError(
                f"`num_buckets` must be at least {2 * sides} and divide into {sides} direction(s); "
                f"got {num_buckets!r}. T5 takes 32."
            )
        if max_distance <= num_buckets // sides // 2:
            raise ValueError(
                "`max_distance` must be above the distances that have a bucket of their own, "
                f"{num_buckets // sides // 2}; got {max_distance!r}. T5 takes 128."
            )
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, heads_shape):
        # Scores are float32, so the table is not cast to a half precision on the way.
        self.table = self.add_weight(
            name="table",
            shape=(self.num_buckets, heads_shape[2]),
            initializer=self.embeddings_initializer,
            autocast=False,
        )
        distances = range(-self.max_distance, self.max_distance + 1)
        rule = (self.num_buckets, self.max_distance, self.bidirectional)
        self._buckets = np.array([relative_bucket(each, *rule) for each in distances], "int32")
        self.built = True

    def parameters(self):
        return (ops.convert_to_tensor(self.table),)

    def bias(self, query_positions, key_positions, table=None):
        table = ops.convert_to_tensor(self.table if table is None else table)
        by_distance = ops.transpose(ops.take(table, self._buckets, axis=0))  # (N, 2 max + 1)
        distance = key_positions[:, None, :] - query_positions[:, :, None]  # (A, T, S)
        index = ops.clip(distance, -self.max_distance, self.max_distance) + self.max_distance
        bias = ops.take(ops.cast(by_distance, "float32"), index, axis=1)  # (N, A, T, S)
        return ops.transpose(bias, (1, 0, 2, 3))

    def get_config(self):
        return {
            **super().get_config(),
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "bidirectional": self.bidirectional,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }
