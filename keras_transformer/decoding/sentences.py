"""The loop of a search, which goes on without the sentences that are done."""

import keras
from keras import ops

from keras_transformer.decoding.state import rows_of, select_sentences

# The sentences that are left go on by themselves once they are one of so many.
SHARE = 4


def advance_sentences(advance, alive, decoding, state, limit, num_hypotheses, num_rows=1):
    """Returns the state in which no sentence is alive, or whose step is the limit.

    A batch takes as many steps as its longest output, and most sentences are done long before. Once
    a quarter of them or fewer are alive, those alone are read on, and put back at the end. Once
    only: each size of a batch is a compilation of its own.

    Args:
        advance: function `(decoding, state) -> state` after one step more, pure tensor code.
        alive: function `state -> bool (B,)`, which sentences are not done.
        decoding: `DecodingState` of B sentences with K hypotheses each.
        state: record with `step`, an int32 scalar; `cache` and `index`, those of `decoding`; and
            other fields, nested tensors (B * num_rows, ...), a sentence's rows side by side.
        limit: int or int32 scalar, the greatest step.
        num_hypotheses: int, K. num_rows: int.
    """
    few = ops.shape(alive(state))[0] // SHARE
    state = _advance_until(few, advance, alive, decoding, state, limit)
    if isinstance(few, int) and few == 0:
        return state
    # Those alive come first.
    done = ops.cast(ops.logical_not(alive(state)), "int32")
    left = ops.cast(ops.argsort(done)[:few], "int32")
    rows = rows_of(left, num_rows)
    decoding = decoding._replace(cache=state.cache, index=state.index)
    decoding = select_sentences(decoding, left, num_hypotheses)
    part = _fields_changed(
        state._replace(cache=decoding.cache), lambda field: ops.take(field, rows, axis=0)
    )
    part = _advance_until(0, advance, alive, decoding, part, limit)
    return _fields_changed(
        state._replace(step=part.step),
        lambda field, new: ops.scatter_update(field, rows[:, None], new),
        part,
    )


def _advance_until(few, advance, alive, decoding, state, limit):
    """Returns the state after the steps until at most so few sentences are alive, or the limit."""

    def is_going(state):
        count = ops.sum(ops.cast(alive(state), "int32"))
        return ops.logical_and(state.step < limit, count > few)

    def step(state):
        return (advance(decoding._replace(cache=state.cache, index=state.index), state),)

    return ops.while_loop(is_going, step, (state,))[0]


def _fields_changed(state, function, *others):
    """Returns the state after a function of the tensors that have rows of sentences."""
    names = [name for name in state._fields if name not in ("step", "cache", "index")]
    fields = {
        name: keras.tree.map_structure(
            function, *(getattr(each, name) for each in (state, *others))
        )
        for name in names
    }
    return state._replace(**fields)
