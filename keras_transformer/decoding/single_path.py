"""Generation of one token after another, never going back: what greedy search and sampling share.

Letters: B sentences, K paths a sentence, R = B * K rows, L the greatest length, V vocabulary.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding.inputs import resolve_max_length
from keras_transformer.decoding.prompt import read_prompt
from keras_transformer.decoding.scoring import (
    MINUS_INFINITY,
    is_end,
    log_probabilities,
    take_hypotheses,
)
from keras_transformer.decoding.sentences import advance_sentences
from keras_transformer.decoding.state import repeat_rows


class PathState(NamedTuple):
    """The record between two steps.

    Attributes:
        step: int32 scalar, tokens generated so far. cache, index: the model's.
        memory: what the choice of a token remembers. last: int32 (R,), the token to be read next.
        tokens: int32 (R, L). scores: float32 (R,), sums of log-probabilities. lengths: int32 (R,).
        live: bool (R,), whether the row has met no end token yet.
    """

    step: Any
    cache: Any
    index: Any
    memory: Any
    last: Any
    tokens: Any
    scores: Any
    lengths: Any
    live: Any


def follow_paths(model, source, prompt, prompt_length, choose, memory, *, num_paths, max_length):
    """Extends each row by the token that `choose` picks, until all rows have ended or are full.

    Args:
        model, source, prompt, prompt_length, max_length: as in `beam_search`.
        choose: function `(logits (R, V), memory, step) -> (tokens int32 (R,), memory)`.
        memory: nested tensors, the first memory.
        num_paths: int, K.

    Returns:
        Tokens (B, K, L), sums of log-probabilities (B, K) and lengths (B, K). A row whose logits
        define no distribution ends with minus infinity.
    """
    limit = resolve_max_length(source, max_length)
    last, decoding = read_prompt(model, source, prompt, prompt_length, limit)
    decoding = repeat_rows(decoding, num_paths)

    def advance(decoding, state):
        logits, read = model.step(state.last[:, None], decoding)
        logits = ops.cast(logits, "float32")
        chosen, memory = choose(logits, state.memory, state.step)
        return extend(state, chosen, is_end(model, chosen), memory, logits, read)

    by_sentence = (-1, num_paths)

    def alive(state):
        return ops.any(ops.reshape(state.live, by_sentence), axis=1)

    first = first_state(decoding, last, memory, num_paths, limit)
    state = advance_sentences(
        advance, alive, decoding, first, limit, num_hypotheses=num_paths, num_rows=num_paths
    )
    return (
        ops.reshape(state.tokens, (*by_sentence, limit)),
        ops.reshape(state.scores, by_sentence),
        ops.reshape(state.lengths, by_sentence),
    )


def first_state(decoding, last, memory, num_paths, limit):
    """Returns the state before the first step, from the prompt's last token (B,)."""
    last = ops.repeat(last, num_paths, axis=0)
    rows = ops.shape(last)[0]
    return PathState(
        step=ops.zeros((), dtype="int32"),
        cache=decoding.cache,
        index=decoding.index,
        memory=memory,
        last=last,
        tokens=ops.zeros((rows, limit), dtype="int32"),
        scores=ops.zeros((rows,), dtype="float32"),
        lengths=ops.zeros((rows,), dtype="int32"),
        live=ops.ones((rows,), dtype="bool"),
    )


def extend(state, chosen, ended, memory, logits, read):
    """Returns the state with one token (R,) more in every live row; the others are frozen."""
    values = take_hypotheses(logits, chosen[:, None])
    gains = ops.where(state.live, log_probabilities(values, logits)[:, 0], 0.0)
    scores = state.scores + gains
    here = ops.arange(ops.shape(state.tokens)[1]) == state.step
    going_on = ops.logical_and(ops.logical_not(ended), scores > MINUS_INFINITY)
    return PathState(
        step=state.step + 1,
        cache=read.cache,
        index=read.index,
        memory=memory,
        last=chosen,
        tokens=ops.where(here, chosen[:, None], state.tokens),
        scores=scores,
        lengths=state.lengths + ops.cast(state.live, "int32"),
        live=ops.logical_and(state.live, going_on),
    )
