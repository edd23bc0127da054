"""Position-wise feed-forward network (section 3.3)."""

import keras
from keras import ops

from keras_transformer.arguments import check_positive, check_rates
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.frozen_layers import freeze_what_was_built
from keras_transformer.layers.quantization_record import QuantizationRecord
from keras_transformer.ops.activations import get_activation


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(QuantizationRecord, keras.layers.Layer):
    """Two linear maps with an activation between, the same at every position.

        FFN(x) = activation(x W_1 + b_1) W_2 + b_2
        gated:   (activation(x W_g + b_g) * (x W_1 + b_1)) W_2 + b_2

    Args:
        intermediate_dim: int, the width between the two maps.
        activation: name (Keras's, "gelu_tanh", "quick_gelu", "squared_relu") or function; "relu" in
            the paper.
        gated: whether the inner vector is multiplied by an activated gate (Shazeer 2020).
        dropout: float in [0, 1), on the inner vector; not in the paper.
        use_bias: whether the maps have biases.
        kernel_initializer: of the maps.
        seed: int, for the dropout.

    Call arguments:
        inputs: (B, T, D).

    Returns:
        (B, T, D)

    >>> FeedForward(intermediate_dim=32)(keras.ops.ones((1, 5, 8))).shape
    (1, 5, 8)

    Raises:
        ValueError: if an argument is outside its rule.

    Reference: Vaswani et al. 2017, section 3.3.
    """

    def __init__(
        self,
        intermediate_dim,
        activation="relu",
        *,
        gated=False,
        dropout=0.0,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(intermediate_dim=intermediate_dim)
        check_rates(dropout=dropout)
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.activation = get_activation(activation)
        self.gated = gated
        self.dropout = dropout
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.dropout_layer = Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, input_shape):
        inner = (*input_shape[:-1], self.intermediate_dim)
        self.inner_dense = self._dense(self.intermediate_dim, "inner")
        self.inner_dense.build(input_shape)
        if self.gated:
            self.gate_dense = self._dense(self.intermediate_dim, "gate")
            self.gate_dense.build(input_shape)
        self.outer_dense = self._dense(input_shape[-1], "outer")
        self.outer_dense.build(inner)
        freeze_what_was_built(self)
        self.built = True

    def _dense(self, width, name):
        return keras.layers.Dense(
            width,
            use_bias=self.use_bias,
            # An initializer object called again repeats its values: each map takes a copy.
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )

    def call(self, inputs, training=None):
        inner = self.inner_dense(inputs)  # (B, T, F)
        if self.gated:
            inner = ops.multiply(self.activation(self.gate_dense(inputs)), inner)
        else:
            inner = self.activation(inner)
        return self.outer_dense(self.dropout_layer(inner, training=training))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": keras.activations.serialize(self.activation),
            "gated": self.gated,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }
