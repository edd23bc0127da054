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
        cache: nested tensors, one row a hypothesis (R, ...): what a search reorders. Parts of it
            may be `NamedTuple`s of tensors that know how to reorder themselves: with the methods
            `repeat_rows`, `select_rows` and `select_sentences`, see the functions of these names. A
            step may write into the cache that it is given: go on with the one that it returns.
        index: int32 scalar, how many target tokens the cache holds.
    """

    source: Any
    cache: Any
    index: Any


def repeat_rows(state, times):
    """Returns the state with every hypothesis repeated `times` times, copies adjacent.

    A part of the cache that has a method `repeat_rows(times)` does it its own way.
    """
    if times == 1:
        return state
    return _rows_changed(
        state,
        lambda part: part.repeat_rows(times),
        lambda rows: ops.repeat(rows, times, axis=0),
    )


def select_rows(state, parents):
    """Returns the state whose hypothesis k of sentence b goes on from the old `parents[b, k]`.

    A part of the cache that has a method `select_rows(parents)` does it its own way.

    Args:
        parents: int32 (B, K), each below K.
    """
    return _rows_changed(
        state,
        lambda part: part.select_rows(parents),
        lambda rows: ops.take(rows, flat_rows(parents, parents.shape[1]), axis=0),
    )


def select_sentences(state, sentences, num_hypotheses):
    """Returns the state of some of its sentences alone.

    A part of the cache that has a method `select_sentences(sentences, num_hypotheses)` does it its
    own way.

    Args:
        sentences: int32 (S,), each below B. num_hypotheses: int, K.
    """
    state = _rows_changed(
        state,
        lambda part: part.select_sentences(sentences, num_hypotheses),
        lambda rows: ops.take(rows, rows_of(sentences, num_hypotheses), axis=0),
    )
    source = keras.tree.map_structure(lambda rows: ops.take(rows, sentences, axis=0), state.source)
    return state._replace(source=source)


def rows_of(sentences, count):
    """Returns the rows (S * count,) of the sentences (S,) that have `count` rows each."""
    return ops.reshape(sentences[:, None] * count + ops.arange(count, dtype="int32"), (-1,))


def flat_rows(chosen, width):
    """Returns the rows (B * J,) of the choices (B, J) among `width` hypotheses of each sentence."""
    first = ops.arange(ops.shape(chosen)[0], dtype="int32") * width
    return ops.reshape(first[:, None] + chosen, (-1,))


def _rows_changed(state, of_part, of_tensor):
    """Returns the state after one function of the parts that know how, and one of tensors."""

    def changed(part):
        if hasattr(part, "select_rows"):
            return of_part(part)
        return None if keras.tree.is_nested(part) else of_tensor(part)

    return state._replace(cache=keras.tree.traverse(changed, state.cache))
