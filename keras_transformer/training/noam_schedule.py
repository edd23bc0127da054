"""The paper's learning rate (section 5.3)."""

import keras
from keras import ops

from keras_transformer.arguments import check_above_zero, check_positive


@keras.saving.register_keras_serializable(package="keras_transformer")
class NoamSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then the inverse square root of the step.

        rate(step) = factor * model_dim^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)

    Steps are counted from 1: the optimizer's iteration 0 is step 1. The peak, at step
    `warmup_steps`, is factor * (model_dim * warmup_steps)^-0.5.

    Args:
        model_dim: int, the model's width D.
        warmup_steps: int, steps until the peak, 4000 in the paper.
        factor: float > 0, multiplies the whole, 1 in the paper.

    >>> float(NoamSchedule(model_dim=512)(3999))  # the peak of the base model
    0.000698...

    Reference: Vaswani et al. 2017, section 5.3, equation 3.
    """

    def __init__(self, model_dim, warmup_steps=4000, factor=1.0):
        super().__init__()
        check_positive(model_dim=model_dim, warmup_steps=warmup_steps)
        check_above_zero(factor=factor)
        self.model_dim = model_dim
        self.warmup_steps = warmup_steps
        self.factor = factor

    @classmethod
    def with_peak(cls, peak, model_dim, warmup_steps=4000):
        """Returns the schedule whose highest rate, at step `warmup_steps`, is `peak`."""
        return cls(model_dim, warmup_steps, factor=peak * (model_dim * warmup_steps) ** 0.5)

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1.0
        warming_up = step * self.warmup_steps**-1.5
        return self.factor * self.model_dim**-0.5 * ops.minimum(ops.rsqrt(step), warming_up)

    def get_config(self):
        return {
            "model_dim": self.model_dim,
            "warmup_steps": self.warmup_steps,
            "factor": self.factor,
        }
