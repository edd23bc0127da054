"""What sampling does to logits before it draws, as pure functions."""

from keras import ops


def penalize_repetition(logits, seen, penalty):
    """Makes tokens that were seen less probable (Keskar et al. 2019, section 4.1).

    Positive logits are divided by the penalty and negative ones multiplied, so that both fall.

    Args:
        logits: float (R, V). seen: bool (R, V). penalty: float, 1 changes nothing.

    Returns:
        float (R, V)

    Example:

    >>> logits, seen = ops.array([[-1.0, 2.0, 0.5]]), ops.array([[True, True, False]])
    >>> ops.convert_to_numpy(penalize_repetition(logits, seen, 2.0)).tolist()
    [[-2.0, 1.0, 0.5]]
    """
    penalized = ops.where(logits > 0, logits / penalty, logits * penalty)
    return ops.where(seen, penalized, logits)


def in_nucleus(logits, top_p):
    """Marks the fewest tokens whose probabilities together reach `top_p` (Holtzman et al. 2020).

    Args:
        logits: float (R, C), best first. top_p: float in (0, 1]; 1 marks all.

    Returns:
        bool (R, C); the first of each row is always marked.

    Example:

    >>> kept = in_nucleus(ops.log(ops.array([[0.6, 0.3, 0.1]])), 0.7)
    >>> ops.convert_to_numpy(kept).tolist()
    [[True, True, False]]
    """
    probabilities = ops.softmax(ops.cast(logits, "float32"), axis=-1)
    before = ops.cumsum(probabilities, axis=-1) - probabilities
    # A sum of many float32 can reach 1 before the last token, hence the second part.
    return ops.logical_or(before < top_p, ops.full_like(before, top_p) >= 1)
