"""Dropout of the blocks."""

import keras

from keras_transformer.arguments import check_rates
from keras_transformer.ops.dropout import dropout


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Layer):
    """`keras.layers.Dropout` by random numbers of 16 bits, which take a fraction of the time.

        outputs = inputs m / (1 - r),   m = 0 with probability r, else 1

    Args:
        rate: float in [0, 1), r.
        seed: int; None takes one from Keras's global state.

    Call arguments:
        inputs: float, any shape. training: whether to drop; else the inputs are returned.

    Raises:
        ValueError: if `rate` is not in [0, 1).

    >>> Dropout(0.1, seed=7)(keras.ops.ones((2, 3, 5)), training=True).shape
    (2, 3, 5)

    Reference: Srivastava et al. 2014; Vaswani et al. 2017, section 5.4.
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        check_rates(rate=rate)
        self.rate = rate
        self.seed = seed
        self.supports_masking = True
        self.seed_generator = keras.random.SeedGenerator(seed) if rate else None
        self.built = True

    def call(self, inputs, training=False):
        if not training or not self.rate:
            return inputs
        return dropout(inputs, self.rate, self.seed_generator.next())

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
