"""Adam in one pass over memory."""

import keras
from keras import ops

from keras_transformer.ops import backend


@keras.saving.register_keras_serializable(package="keras_transformer")
class Adam(keras.optimizers.Adam):
    """`keras.optimizers.Adam` that reads and writes each weight once a step (section 5.3).

        m <- b1 m + (1 - b1) g
        v <- b2 v + (1 - b2) g^2
        w <- w - rate sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon)

    The numbers are those of `keras.optimizers.Adam`, but for rounding. That one is written in
    single operations, each a pass over a tensor as large as the weight, and on TensorFlow and torch
    more than a dozen such passes are a good part of the step of a large model; here the framework's
    own fused operation is called. JAX fuses Keras's. With `amsgrad` it is Keras's on all of them.

    Args:
        learning_rate, beta_1, beta_2, epsilon, **options: as `keras.optimizers.Adam`. With
            `weight_decay` it is AdamW.

    >>> optimizer = Adam(NoamSchedule(512, 4000), beta_2=0.98, epsilon=1e-9)

    Reference: Kingma and Ba 2015, algorithm 1; Loshchilov and Hutter 2019.
    """

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        if keras.config.backend() == "torch" and not self.amsgrad:
            self._update(grads, trainable_variables, learning_rate)  # all in one call
        else:
            super()._backend_update_step(grads, trainable_variables, learning_rate)

    def update_step(self, gradient, variable, learning_rate):
        if self.amsgrad or not backend.has_fused_adam(variable.dtype):
            super().update_step(gradient, variable, learning_rate)
        else:
            self._update([gradient], [variable], learning_rate)

    def _update(self, gradients, variables, learning_rate):
        step = ops.cast(self.iterations + 1, "float32")
        correction = ops.sqrt(1.0 - self.beta_2**step) / (1.0 - self.beta_1**step)
        places = [self._get_variable_index(variable) for variable in variables]
        backend.fused_adam(
            variables,
            [self._momentums[place] for place in places],
            [self._velocities[place] for place in places],
            gradients,
            ops.cast(learning_rate, "float32") * correction,
            self.beta_1,
            self.beta_2,
            self.epsilon,
        )
