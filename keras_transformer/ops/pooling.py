"""One vector for a sequence of vectors."""

from keras import ops


def weighted_mean(hidden, weights):
    """Returns (B, D): the mean of the vectors by their weights, zeros where no vector weighs.

        mean = sum_t w_t h_t / sum_t w_t

    Args:
        hidden: (B, T, D). weights: float, int or bool (B, T), none negative.

    >>> float(weighted_mean(ops.array([[[1.0], [3.0], [9.0]]]), ops.array([[1, 1, 0]]))[0, 0])
    2.0
    """
    weights = ops.cast(weights, "float32")[:, :, None]
    total = ops.sum(ops.multiply(ops.cast(hidden, "float32"), weights), axis=1)
    weight = ops.sum(weights, axis=1)
    mean = ops.divide(total, ops.where(weight > 0, weight, ops.ones_like(weight)))
    return ops.cast(mean, hidden.dtype)
