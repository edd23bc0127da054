"""What a search is called with, checked and brought to one of few shapes."""

from typing import Any, NamedTuple

import keras
import numpy as np

from keras_transformer.decoding.prompt import WIDTH_MULTIPLE

_PROTOCOL = ("start", "step", "start_id", "end_id", "pad_id", "vocabulary_size")


class SearchInputs(NamedTuple):
    """Numpy arrays of a shape bucket: B rounded up to a power of two, widths to multiples of 8.

    Attributes:
        source: nested arrays (B, ...). prompt: int32 (B, P). prompt_length: int32 scalar.
        batch_size: int, how many of the rows were asked for; the others repeat the last of them.
    """

    source: Any
    prompt: Any
    prompt_length: Any
    batch_size: int


def check_model(model):
    """Raises where the model lacks a part of the decoding protocol."""
    missing = [name for name in _PROTOCOL if not hasattr(model, name)]
    if missing:
        raise ValueError(
            f"`model` must have {', '.join(_PROTOCOL)}; {type(model).__name__} lacks "
            f"{', '.join(missing)}. Pass a model that generates, such as `models.Transformer`."
        )


def prepare_inputs(model, source, prompt, fewest=1):
    """Checks the arguments of a search and pads them to their bucket, of `fewest` rows or more.

    Rows are filled with copies of the last one: they end when it ends, where rows of padding could
    go on to the greatest length and keep the whole batch waiting.
    """
    source = _source_to_numpy(source)
    batch_sizes = {part.shape[0] for part in keras.tree.flatten(source)}
    if len(batch_sizes) != 1:
        raise ValueError(
            "`source` must hold arrays with one leading axis in common, the batch; "
            f"got batch sizes {sorted(batch_sizes)}."
        )
    batch_size = batch_sizes.pop()
    if getattr(source, "ndim", None) == 1 and _is_integer(source):
        raise ValueError(
            f"`source` must have shape (B, S), a row of ids for each sentence; got {source.shape}. "
            "Pass [ids] for one sentence."
        )
    if has_width(source):
        _check_ids("source", source, model.vocabulary_size)
        width = max(_round_up(source.shape[1]), WIDTH_MULTIPLE)
        source = _widen(source, width, constant_values=model.pad_id)
    if prompt is None:
        prompt = np.full((batch_size, 1), model.start_id, "int32")
    prompt = _check_prompt(_to_numpy("prompt", prompt), batch_size, model.vocabulary_size)
    prompt_length = prompt.shape[1]
    if prompt_length > 1:
        prompt = _widen(prompt, _round_up(prompt_length), mode="edge")
    rows = max(_power_of_two(batch_size), fewest)
    source, prompt = keras.tree.map_structure(lambda part: _fill(part, rows), (source, prompt))
    return SearchInputs(source, prompt, np.int32(prompt_length), batch_size)


def check_lengths(model, inputs, max_length):
    """Raises where the model says that it cannot read as far as the search may go.

    Args:
        model: see `Search`. inputs: `SearchInputs`. max_length: int, or None for the paper's.
    """
    if not hasattr(model, "check_lengths"):
        return
    source_length = None
    if has_width(inputs.source):
        source_length = int(np.sum(inputs.source != model.pad_id, axis=1).max())
    limit = resolve_max_length(inputs.source, max_length)
    model.check_lengths(source_length, int(inputs.prompt_length) - 1 + limit)


def has_width(source):
    """Returns whether the source is one (B, S) array of token ids, so that it has a length."""
    return hasattr(source, "shape") and len(source.shape) == 2 and _is_integer(source)


def resolve_max_length(source, max_length):
    """Returns `max_length`, or where it is None the paper's: source length + 50 (section 6.1)."""
    if max_length is not None:
        return max_length
    if not has_width(source):
        raise ValueError(
            "`max_length` must be given where `source` is not one array of token ids (B, S): it "
            "has no length to which 50 could be added. Set `max_length` of the search."
        )
    return keras.ops.shape(source)[1] + 50


def _source_to_numpy(source):
    if isinstance(source, dict):
        return {name: _source_to_numpy(part) for name, part in source.items()}
    if isinstance(source, tuple):
        return tuple(map(_source_to_numpy, source))
    return _to_numpy("source", source)


def _to_numpy(name, value):
    if not hasattr(value, "shape"):
        try:
            value = np.asarray(value)
        except ValueError as error:
            raise ValueError(
                f"`{name}` must be rectangular: every row as long as the others. Pad the rows."
            ) from error
    value = keras.ops.convert_to_numpy(value)
    if value.ndim == 0 or value.dtype.kind not in "biuf":
        raise ValueError(
            f"`{name}` must hold arrays of numbers with the batch as leading axis; got shape "
            f"{value.shape} and dtype {value.dtype}."
        )
    return value.astype({"f": keras.config.floatx(), "b": "bool"}.get(value.dtype.kind, "int32"))


def _is_integer(array):
    return keras.backend.standardize_dtype(array.dtype).startswith(("int", "uint"))


def _check_ids(name, ids, limit):
    if ids.size and (ids.min() < 0 or ids.max() >= limit):
        raise ValueError(
            f"`{name}` must hold ids from 0 to {limit - 1} (the model's vocabulary_size is "
            f"{limit}); got {ids.min()} to {ids.max()}. Use the tokenizer the model was made for."
        )


def _check_prompt(prompt, batch_size, vocabulary_size):
    if prompt.ndim != 2 or not _is_integer(prompt) or prompt.shape[1] == 0:
        raise ValueError(
            "`prompt` must be integer ids of shape (batch, length), of length 1 or more; got shape "
            f"{prompt.shape} and dtype {prompt.dtype}. Leave it out to start from the start token."
        )
    if prompt.shape[0] != batch_size:
        raise ValueError(
            f"`prompt` must have one row a sentence, as `source` has ({batch_size}); "
            f"got {prompt.shape[0]}."
        )
    _check_ids("prompt", prompt, vocabulary_size)
    return prompt


def _round_up(width):
    return -(-width // WIDTH_MULTIPLE) * WIDTH_MULTIPLE


def _power_of_two(rows):
    return 1 << max(rows - 1, 0).bit_length()


def _widen(ids, width, **how):
    return np.pad(ids, ((0, 0), (0, width - ids.shape[1])), **how)


def _fill(array, rows):
    missing = rows - array.shape[0]
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array
