"""Metrics that are means over real target tokens."""

import keras
from keras import ops

from keras_transformer.ops.cross_entropy import TokenStatistics, token_statistics
from keras_transformer.training.sequence_crossentropy import target_ids, token_weights


class TokenMetric(keras.metrics.Metric):
    """A weighted mean of one number a token.

    It takes logits as any Keras metric does, or `TokenStatistics`, which `models.SequenceModel`
    computes without a matrix of logits.
    """

    def __init__(self, pad_id=0, name=None):
        super().__init__(name=name, dtype="float32")
        self.pad_id = pad_id
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_pred = ops.convert_to_tensor(y_pred)
        loss, likelihood, correct = token_statistics(
            y_pred, target_ids(y_true, y_pred), label_smoothing=0.0
        )
        weights = token_weights(y_true, y_pred, sample_weight, self.pad_id)
        self.update_from(TokenStatistics(loss, likelihood, correct, weights))

    def update_from(self, statistics):
        """Adds the tokens of one batch, given as `TokenStatistics`."""
        values = self.values(statistics)
        self.total.assign_add(ops.sum(values * statistics.weight))
        self.count.assign_add(ops.sum(statistics.weight))

    def values(self, statistics):
        """Returns the number of each token, float32 (B, T)."""
        raise NotImplementedError

    def result(self):
        return ops.divide_no_nan(self.total, self.count)

    def get_config(self):
        return {"pad_id": self.pad_id, "name": self.name}


class TokenLoss(TokenMetric):
    """The mean smoothed loss; kept by `models.SequenceModel` as the epoch's loss."""

    def values(self, statistics):
        return statistics.loss


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(TokenMetric):
    """The share of real target tokens whose logit is the highest.

    Args:
        pad_id: int, the target id that is padding, or None to count by `sample_weight` alone.

    >>> accuracy = TokenAccuracy()
    >>> accuracy.update_state([[1, 2, 0]], [[[0.0, 9.0, 0.0], [0.0, 9.0, 0.0], [0.0, 9.0, 0.0]]])
    >>> float(accuracy.result())
    0.5
    """

    def __init__(self, pad_id=0, name="token_accuracy"):
        super().__init__(pad_id, name)

    def values(self, statistics):
        return statistics.correct


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenMetric):
    """exp of the mean negative log-likelihood of real target tokens, without smoothing.

    Args:
        pad_id: int, the target id that is padding, or None to count by `sample_weight` alone.

    >>> perplexity = Perplexity()
    >>> perplexity.update_state([[1, 0]], [[[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]])
    >>> float(perplexity.result())
    4.0
    """

    def __init__(self, pad_id=0, name="perplexity"):
        super().__init__(pad_id, name)

    def values(self, statistics):
        return statistics.negative_log_likelihood

    def result(self):
        return ops.exp(super().result())
