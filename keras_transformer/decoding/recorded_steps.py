"""A model whose steps run without Python between their operations, on torch."""

import keras

from keras_transformer.ops.backend import Unrecordable


class RecordedModel:
    """A model like the one that it is given, but for steps of one token, which it replays.

    One serves one search, during which no weight changes.

    Such a step is some hundred small operations, and their way through Python takes longer than the
    products of a few sentences. The first of a shape is recorded as the operations of torch that it
    came to; the others run those and nothing else. As where a backend compiles, what is no tensor
    stays as it was when it was recorded. A step that looks at the values of its tensors cannot be
    recorded and runs as it is written.

    Args:
        model: see `Search`. records: dict, where the records are kept. on_record: called before a
            step is recorded.
    """

    def __init__(self, model, records, on_record):
        self._model = model
        self._records = records
        self._on_record = on_record
        # Tells weights that were replaced; those that were written into are seen.
        self._weights = tuple(id(each.value) for each in getattr(model, "variables", ()))

    def __getattr__(self, name):
        return getattr(self._model, name)

    def step(self, tokens, state):
        """Reads one more token of each row from a record, or several as they are."""
        if tokens.shape[1] != 1:
            return self._model.step(tokens, state)
        leaves = keras.tree.flatten((tokens, state))
        key = (self._weights, *map(_kind, leaves))
        if key not in self._records:
            self._on_record()
            self._records[key] = _record(self._model.step, tokens, state)
        record = self._records[key]
        return self._model.step(tokens, state) if record is None else record(leaves)


class _Record:
    """The operations of a step, and how its results are put together."""

    def __init__(self, operations, results):
        self.operations = operations
        self.places = [_is_tensor(leaf) for leaf in keras.tree.flatten(results)]
        self.structure = keras.tree.map_structure(
            lambda leaf: 0 if _is_tensor(leaf) else leaf, results
        )

    def __call__(self, leaves):
        """Returns (logits, state) from the leaves of (tokens, state)."""
        results = self.operations(*filter(_is_tensor, leaves))
        return _filled(self.structure, self.places, results)


def _record(step, tokens, state):
    """Returns the `_Record` of a step, or None where it cannot be recorded."""
    from torch.fx.experimental.proxy_tensor import make_fx

    leaves = keras.tree.flatten((tokens, state))
    places = list(map(_is_tensor, leaves))
    found = []

    def run(*tensors):
        results = step(*_filled((tokens, state), places, tensors))
        found.append(results)
        return list(filter(_is_tensor, keras.tree.flatten(results)))

    try:
        # A step may write into its cache, and this one is not the one that counts.
        operations = make_fx(run)(*(leaf.clone() for leaf in filter(_is_tensor, leaves)))
    except Unrecordable:
        return None
    except RuntimeError as error:
        if "tracing tensor" in str(error):  # torch's word for a look at a value
            return None
        raise
    return _Record(operations, found[0])


def _filled(structure, places, tensors):
    """Returns the structure with tensors in the marked places of its leaves."""
    tensors = iter(tensors)
    leaves = [
        next(tensors) if is_tensor else leaf
        for leaf, is_tensor in zip(keras.tree.flatten(structure), places, strict=True)
    ]
    return keras.tree.pack_sequence_as(structure, leaves)


def _kind(leaf):
    return (tuple(leaf.shape), leaf.dtype, leaf.device) if _is_tensor(leaf) else leaf


def _is_tensor(leaf):
    import torch

    return isinstance(leaf, torch.Tensor)
