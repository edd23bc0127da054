"""Log-probabilities of tokens and scores of hypotheses, in float32 whatever the model's dtype."""

from keras import ops

from keras_transformer.decoding.state import flat_rows

MINUS_INFINITY = -float("inf")

# How many tokens `best_tokens` looks at together.
CHUNK = 64


def length_penalty(length, alpha):
    """Divides a hypothesis's log-probability: ((5 + n) / 6) ** alpha (Wu et al. 2016, equation 14).

    Args:
        length: int or int tensor, n, the number of generated tokens with the end token.
        alpha: float or float32 scalar, at least 0; 0 turns the penalty off.

    Returns:
        float32, of the shape of `length`.
    """
    return ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def is_end(model, tokens):
    """Returns bool of the shape of `tokens`: whether each is an end token of the model."""
    found = tokens == model.end_id
    for other in getattr(model, "other_end_ids", ()):
        found = ops.logical_or(found, tokens == other)
    return found


def best_tokens(logits, count):
    """Returns the `count` best logits of each row, best first, and their tokens: two (R, C).

    C is the smaller of `count` and V. The best tokens of a large vocabulary are in the `count`
    chunks
    that have the greatest maxima: one pass over the logits finds those, and only they are sorted.
    """
    vocabulary = logits.shape[-1]
    count = min(count, vocabulary)
    if vocabulary <= 2 * CHUNK * count:
        return _best(logits, count)
    padding = ((0, 0), (0, -vocabulary % CHUNK))
    padded = ops.pad(logits, padding, constant_values=MINUS_INFINITY) if padding[1][1] else logits
    chunks = ops.reshape(padded, (-1, padded.shape[-1] // CHUNK, CHUNK))
    _, chosen = _best(ops.max(chunks, axis=-1), count)
    chosen = ops.sort(chosen, axis=-1)  # of equal logits the first token stays first
    candidates = ops.reshape(take_hypotheses(chunks, chosen), (-1, count * CHUNK))
    values, places = _best(candidates, count)
    first = take_hypotheses(chosen, ops.floor_divide(places, CHUNK)) * CHUNK
    # Padding is chosen where fewer than `count` logits are finite; its value says that it is none.
    return values, ops.minimum(first + ops.mod(places, CHUNK), vocabulary - 1)


def _best(values, count):
    """Returns the `count` greatest of each row, best first, and their places.

    One is taken by `argmax`, whose answer on equal values, the first, is that of every backend.
    """
    if count > 1:
        best, places = ops.top_k(values, count)
        return best, ops.cast(places, "int32")
    places = ops.cast(ops.argmax(values, axis=-1), "int32")[:, None]
    return take_hypotheses(values, places), places


def log_probabilities(values, logits):
    """Returns log softmax of `logits` (R, V) at the entries whose logits are `values` (R, C).

    A row that holds NaN, plus infinity, or nothing finite defines no distribution: its tokens all
    get minus infinity, so that NaN never enters a score. Values above 0, which rounding can make,
    are set to 0: a hypothesis never gains by growing, on which early stopping relies.
    """
    normalizer = ops.logsumexp(logits, axis=-1, keepdims=True)
    values = ops.minimum(values - normalizer, 0.0)
    return ops.where(ops.isfinite(normalizer), values, MINUS_INFINITY)


def best_first(scores, count):
    """Returns the places of the `count` best scores of each row, best first: (B, M) -> (B, count).

    Equal scores keep their order, on every backend, which `ops.top_k` does not promise.
    """
    return ops.cast(ops.argsort(-scores, axis=-1)[:, :count], "int32")


def take_hypotheses(hypotheses, chosen):
    """Returns the chosen (B, J) of the hypotheses (B, M, ...): (B, J, ...)."""
    rest = ops.shape(hypotheses)[2:]
    flat = ops.reshape(hypotheses, (-1, *rest))
    taken = ops.take(flat, flat_rows(chosen, hypotheses.shape[1]), axis=0)
    return ops.reshape(taken, (-1, chosen.shape[1], *rest))
