"""What a search returns."""

from typing import Any, NamedTuple

from keras import ops


class SearchResult(NamedTuple):
    """K hypotheses for each of B sentences, best first; L is the greatest length.

    Attributes:
        tokens: int32 (B, K, L), the tokens after the prompt with their one end token, then padding.
        scores: float32 (B, K), not increasing along K. Minus infinity marks a place for which the
            search found no hypothesis, as when the model has fewer than K outputs.
        lengths: int32 (B, K), how many of the tokens are the hypothesis, the end token counted. A
            hypothesis that met the greatest length has no end token.
    """

    tokens: Any
    scores: Any
    lengths: Any


def make_result(tokens, scores, lengths, pad_id):
    """Returns the result with padding after each hypothesis and in the places that hold none."""
    lengths = ops.where(scores > -float("inf"), lengths, 0)
    positions = ops.arange(ops.shape(tokens)[-1], dtype="int32")
    tokens = ops.where(positions < lengths[..., None], tokens, pad_id)
    return SearchResult(ops.cast(tokens, "int32"), scores, ops.cast(lengths, "int32"))
