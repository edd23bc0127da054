"""Beam search: the K best continuations at each step, live and finished hypotheses apart.

Letters: B sentences, K the beam width, R = B * K rows, L the greatest length, V vocabulary.
"""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import check_number, check_positive, check_positive_or_none
from keras_transformer.decoding.inputs import resolve_max_length
from keras_transformer.decoding.prompt import read_prompt
from keras_transformer.decoding.result import make_result
from keras_transformer.decoding.scoring import (
    MINUS_INFINITY,
    best_first,
    best_tokens,
    is_end,
    length_penalty,
    log_probabilities,
    take_hypotheses,
)
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.sentences import advance_sentences
from keras_transformer.decoding.state import repeat_rows, select_rows


class Live(NamedTuple):
    """Hypotheses without an end token.

    Attributes:
        tokens: int32 (B, K, L). last: int32 (B, K), the last of them.
        scores: float32 (B, K), the sum of their log-probabilities; minus infinity where none is.
    """

    tokens: Any
    last: Any
    scores: Any


class Finished(NamedTuple):
    """The best hypotheses with an end token so far.

    Attributes:
        tokens: int32 (B, K, L). lengths: int32 (B, K), the end token counted.
        scores: float32 (B, K), with the length penalty; minus infinity where none is.
    """

    tokens: Any
    lengths: Any
    scores: Any


class BeamState(NamedTuple):
    """The record between two steps: tokens generated so far, the model's cache, the hypotheses."""

    step: Any
    cache: Any
    index: Any
    live: Live
    finished: Finished


def beam_search(
    model, source, prompt, prompt_length, numbers, *, beam_width, num_hypotheses, max_length
):
    """Beam search as a pure function, see `BeamSearch`; `numbers` holds `length_penalty`."""
    alpha = numbers["length_penalty"]
    limit = resolve_max_length(source, max_length)
    last, decoding = read_prompt(model, source, prompt, prompt_length, limit)
    decoding = repeat_rows(decoding, beam_width)

    def advance(decoding, state):
        logits, read = model.step(ops.reshape(state.live.last, (-1, 1)), decoding)
        parents, live = continuations(logits, state.live, state.step)
        if beam_width > 1:
            read = select_rows(read, parents)
        step = state.step + 1
        ended = is_end(model, live.last)
        finished = add_finished(state.finished, live, ended, step, alpha)
        live = drop_beaten(live, ended, finished, length_penalty(limit, alpha), num_hypotheses)
        return BeamState(step, read.cache, read.index, live, finished)

    def alive(state):
        return ops.any(state.live.scores > MINUS_INFINITY, axis=1)

    first = first_state(decoding, last, beam_width, limit)
    state = advance_sentences(advance, alive, decoding, first, limit, beam_width)
    # What is still alive at the greatest length is cut there and scored as it stands.
    cut = state.live.scores > MINUS_INFINITY
    finished = add_finished(state.finished, state.live, cut, state.step, alpha)
    tokens, lengths, scores = (part[:, :num_hypotheses] for part in finished)
    return make_result(tokens, scores, lengths, model.pad_id)


def first_state(decoding, last, beam_width, limit):
    """Returns the state of one live hypothesis a sentence, the prompt, whose last token is (B,)."""
    shape = (ops.shape(last)[0], beam_width)
    tokens = ops.zeros((*shape, limit), dtype="int32")
    nothing = ops.full(shape, MINUS_INFINITY, dtype="float32")
    alone = ops.where(ops.arange(beam_width) == 0, 0.0, nothing)
    last = ops.broadcast_to(last[:, None], shape)
    finished = Finished(tokens, ops.zeros(shape, dtype="int32"), nothing)
    step = ops.zeros((), dtype="int32")
    return BeamState(step, decoding.cache, decoding.index, Live(tokens, last, alone), finished)


def continuations(logits, live, step):
    """Returns the K best continuations of a sentence's live hypotheses by one token, best first.

    The K best are among the K best of each hypothesis, so that no sort of K * V entries is needed.

    Args:
        logits: (R, V). live: `Live`. step: int32 scalar, the place of the new token.

    Returns:
        The hypothesis that each continues, int32 (B, K), and `Live`.
    """
    beam_width = live.scores.shape[1]
    logits = ops.cast(logits, "float32")
    values, tokens = best_tokens(logits, beam_width)  # (R, C)
    count = tokens.shape[1]
    gains = ops.reshape(log_probabilities(values, logits), (-1, beam_width, count))
    scores = ops.reshape(live.scores[:, :, None] + gains, (-1, beam_width * count))
    best = best_first(scores, beam_width)
    parents = ops.floor_divide(best, count)
    last = take_hypotheses(ops.reshape(tokens, (-1, beam_width * count)), best)
    here = ops.arange(ops.shape(live.tokens)[2]) == step
    history = ops.where(here, last[:, :, None], take_hypotheses(live.tokens, parents))
    return parents, Live(history, last, take_hypotheses(scores, best))


def add_finished(finished, live, ended, length, alpha):
    """Returns the K best of the finished hypotheses and of the live ones marked as ended (B, K),
    best first."""
    penalized = live.scores / length_penalty(length, alpha)
    scores = ops.where(ended, penalized, MINUS_INFINITY)
    lengths = ops.broadcast_to(length, ops.shape(scores))
    added = Finished(live.tokens, lengths, scores)
    both = Finished(*(ops.concatenate(pair, axis=1) for pair in zip(finished, added, strict=True)))
    best = best_first(both.scores, live.scores.shape[1])
    return Finished(*(take_hypotheses(part, best) for part in both))


def drop_beaten(live, ended, finished, greatest_penalty, num_hypotheses):
    """Returns the live hypotheses without those that ended or that cannot win any more.

    A score is a sum of log-probabilities, which only falls as tokens are added, over a penalty,
    which only grows: at best a hypothesis keeps its sum and gets the penalty of the greatest
    length. Once K are finished and none of them is below that, it is dropped. A sentence whose live
    hypotheses could not come among those wanted is done, and has none left.
    """
    at_best = live.scores / greatest_penalty  # (B, K)
    worst, worst_wanted = finished.scores[:, -1:], finished.scores[:, num_hypotheses - 1, None]
    keep = ops.logical_and(at_best > worst, ops.logical_not(ended))
    wins = ops.logical_and(keep, at_best > worst_wanted)
    keep = ops.logical_and(keep, ops.any(wins, axis=1, keepdims=True))
    return live._replace(scores=ops.where(keep, live.scores, MINUS_INFINITY))


@keras.saving.register_keras_serializable(package="keras_transformer")
class BeamSearch(Search):
    """Searches for the outputs with the best score, keeping the best few beginnings at each step.

    The score of an output y of n tokens, its end token counted, is
    log P(y | source) / ((5 + n) / 6) ** length_penalty (Wu et al. 2016, equation 14).

    Each step keeps the `beam_width` best continuations by log-probability. Those that end join the
    finished hypotheses, of which the `beam_width` with the best scores stay; the others live on,
    and fill the beam again at the next step. A sentence is done when no live hypothesis could come
    among the `num_hypotheses` best however it went on. At `max_length` a hypothesis without an end
    token is cut, and its score is that of the tokens it has. Width 1 is `GreedySearch`.

    Differs from Vaswani et al. 2017, section 6.1, in nothing at the defaults.

    Args:
        beam_width: int, the hypotheses kept for each sentence. May exceed the vocabulary.
        length_penalty: float, at least 0: the exponent alpha. 0 compares plain log-probabilities.
        max_length: int, the greatest number of generated tokens; None is the source length + 50.
        num_hypotheses: int, how many of them are returned, all by default. Those are the same
            however many are asked for; fewer are found in fewer steps.

    Call arguments: `(model, source, prompt=None)`, see `Search.__call__`.

    Returns:
        `SearchResult`, K = num_hypotheses, best first.

    Raises:
        ValueError: where an argument is out of range.

    Example:

    ```python
    search = BeamSearch(beam_width=4, length_penalty=0.6)
    tokens, scores, lengths = search(model, source)
    best = tokens[0, 0, : lengths[0, 0]]
    ```

    Reference: Wu et al. 2016, "Google's Neural Machine Translation System", section 7.
    """

    function = staticmethod(beam_search)

    def __init__(self, beam_width=4, length_penalty=0.6, max_length=None, num_hypotheses=None):
        super().__init__(max_length)
        check_positive(beam_width=beam_width)
        check_positive_or_none(num_hypotheses=num_hypotheses)
        if num_hypotheses is not None and num_hypotheses > beam_width:
            raise ValueError(
                f"`num_hypotheses` must be at most `beam_width` {beam_width}; got "
                f"{num_hypotheses}. Widen the beam."
            )
        check_number("length_penalty", length_penalty, "a number of at least 0", lambda x: x >= 0)
        self.beam_width = beam_width
        self.length_penalty = length_penalty
        self.num_hypotheses = beam_width if num_hypotheses is None else num_hypotheses

    def best_only(self):
        """Returns the same search for the best hypothesis of each sentence."""
        return type(self)(**{**self.get_config(), "num_hypotheses": 1})

    @property
    def width(self):
        """How many hypotheses are followed."""
        return self.beam_width

    def choices(self):
        """The settings that shape the computation."""
        names = ("beam_width", "num_hypotheses", "max_length")
        return {name: getattr(self, name) for name in names}

    def numbers(self):
        """The settings that are only numbers in it."""
        return {"length_penalty": np.float32(self.length_penalty)}

    def get_config(self):
        """Returns the arguments of `__init__`."""
        names = ("beam_width", "length_penalty", "num_hypotheses")
        return {**{name: getattr(self, name) for name in names}, **super().get_config()}
