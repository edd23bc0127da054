"""Label-smoothed cross-entropy over real target tokens (section 5.4)."""

import keras
from keras import ops

from keras_transformer.arguments import check_id_or_none, check_rates
from keras_transformer.ops import backend
from keras_transformer.ops.cross_entropy import token_statistics


@keras.saving.register_keras_serializable(package="keras_transformer")
class SequenceCrossentropy(keras.losses.Loss):
    """The mean cross-entropy, in nats, of the real target tokens.

        loss = -sum_t w_t sum_v q_tv log p_tv / sum_t w_t,   q = (1 - e) onehot(target) + e / V

    A mean over tokens under any split of the batch: padding and `sample_weight` 0 count for
    nothing, and under a `tf.distribute` strategy the tokens of all replicas are counted together.

    Args:
        label_smoothing: float in [0, 1), e; 0.1 in the paper.
        pad_id: int, the target id that is padding, or None: no id is (a model whose padding and end
            share an id), and padding is what has `sample_weight` 0.

    Call arguments:
        y_true: int (B, T), or one-hot float (B, T, V).
        y_pred: logits (B, T, V).
        sample_weight: float (B, T), or None for ones.

    Raises:
        ValueError: if `label_smoothing` is outside [0, 1), or `pad_id` is no id.

    >>> float(SequenceCrossentropy(label_smoothing=0.0)([[1, 0]], [[[0.0, 0.0], [9.0, 0.0]]]))
    0.693...

    Reference: Vaswani et al. 2017, section 5.4; Szegedy et al. 2015.
    """

    def __init__(self, label_smoothing=0.1, pad_id=0, name="sequence_crossentropy"):
        super().__init__(name=name, dtype="float32")
        check_rates(label_smoothing=label_smoothing)
        check_id_or_none(pad_id=pad_id)
        self.label_smoothing = label_smoothing
        self.pad_id = pad_id

    def __call__(self, y_true, y_pred, sample_weight=None):
        y_pred = ops.convert_to_tensor(y_pred)
        losses = self.call(y_true, y_pred)
        weights = token_weights(y_true, y_pred, sample_weight, self.pad_id)
        return mean_over_tokens(ops.sum(losses * weights), weights)

    def call(self, y_true, y_pred):
        """Returns the loss of each token, float32 (B, T), padding included."""
        return token_statistics(y_pred, target_ids(y_true, y_pred), self.label_smoothing)[0]

    def get_config(self):
        return {
            "label_smoothing": self.label_smoothing,
            "pad_id": self.pad_id,
            "name": self.name,
        }


def target_ids(y_true, y_pred, vocabulary_size=None):
    """Returns int32 (B, T) from ids (B, T), below `vocabulary_size`, or one-hot rows (B, T, V).

    An id outside is an error, as far as the backend can look; on JAX it makes the loss NaN.
    """
    y_true = ops.convert_to_tensor(y_true)
    if len(y_true.shape) == len(y_pred.shape):
        return ops.cast(ops.argmax(y_true, axis=-1), "int32")
    targets = ops.cast(y_true, "int32")
    if vocabulary_size is None:
        return targets
    return backend.check_ids(
        targets,
        vocabulary_size,
        f"labels must be in [0, {vocabulary_size}), the vocabulary: do they come from the "
        "tokenizer that the model was made for?",
    )


def token_weights(y_true, y_pred, sample_weight, pad_id):
    """Returns float32 (B, T): how much each target counts."""
    targets = target_ids(y_true, y_pred)
    weights = ops.ones_like(targets, dtype="float32")
    if sample_weight is not None:
        weights = backend.as_matrix(ops.cast(sample_weight, "float32"), ops.shape(targets)[0])
        weights = ops.broadcast_to(weights, ops.shape(targets))
    if pad_id is not None:
        weights = ops.where(targets == pad_id, 0.0, weights)
    return weights


def mean_over_tokens(total, weights):
    """Returns total / sum(weights), the weights summed over all replicas; 0 where nothing counts.

    The replicas' shares add up to the mean, for Keras sums their gradients.
    """
    count = backend.sum_over_replicas(ops.sum(weights))
    return total / ops.where(count > 0, count, 1.0)
