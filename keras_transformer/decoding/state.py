"""What a model carries from one decoding step to the next."""

from typing import Any, NamedTuple

import keras
from keras import ops


class DecodingState(NamedTuple):
    """The record between two calls of a model's `step`.

    Letters: B sentences, K hypotheses a sentence, R = B * K rows; row r belongs to sentence r // K.

    Attributes:
        source: nested tensors, one row a sentence (B, ...): what never changes while decoding, such
            as the encoder's keys and values. Kept once a sentence, never once a hypothesis.
        cache: nested tensors, one row a hypothesis (R, ...): what a search reorders.
        index: int32 scalar, how many target tokens the cache holds.
    """

    source: Any
    cache: Any
    index: Any


def repeat_rows(state, times):
    """Returns the state with every hypothesis repeated `times` times, copies adjacent."""
    if times == 1:
        return state
    cache = keras.tree.map_structure(lambda rows: ops.repeat(rows, times, axis=0), state.cache)
    return state._replace(cache=cache)


def select_rows(state, rows):
    """Returns the state whose hypothesis i is the old hypothesis `rows[i]`."""
    cache = keras.tree.map_structure(lambda old: ops.take(old, rows, axis=0), state.cache)
    return state._replace(cache=cache)
