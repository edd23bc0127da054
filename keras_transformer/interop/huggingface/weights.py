"""Moving numbers between a checkpoint's tensors and a model's variables, each exactly once."""

from fnmatch import fnmatch
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer.interop.huggingface.layouts import (
    FLAT,
    HEADS_IN,
    HEADS_OUT,
    LINEAR,
    SAME,
    Layout,
)


class Entry(NamedTuple):
    """One tensor of a checkpoint.

    Attributes:
        name: what it is called. variables: the Keras variables that hold it.
        layout: `Layout`. aliases: other names that hold the same numbers where it is tied, or that
            older checkpoints give it.
    """

    name: str
    variables: tuple
    layout: Layout = SAME
    aliases: tuple = ()


def linear(name, dense, layout=LINEAR):
    """Returns the entries of a linear map: weight, and bias where it has one."""
    entries = [Entry(f"{name}.weight", (dense.kernel,), layout)]
    if dense.bias is not None:
        entries.append(Entry(f"{name}.bias", (dense.bias,), FLAT))
    return entries


def attention(names, layer):
    """Returns the entries of attention.

    Args:
        names: of the query, key, value and output maps. layer: `MultiHeadAttention`.
    """
    query, key, value, output = names
    return [
        *linear(query, layer.query_dense, HEADS_IN),
        *linear(key, layer.key_dense, HEADS_IN),
        *linear(value, layer.value_dense, HEADS_IN),
        *linear(output, layer.output_dense, HEADS_OUT),
    ]


def layer_norm(name, layer):
    """Returns the entries of a LayerNorm; its parts were once called gamma and beta."""
    return [
        Entry(f"{name}.weight", (layer.gamma,), aliases=(f"{name}.gamma",)),
        Entry(f"{name}.bias", (layer.beta,), aliases=(f"{name}.beta",)),
    ]


def rms_norm(name, layer):
    """Returns the entry of an RMSNorm."""
    return [Entry(f"{name}.weight", (layer.scale,))]


def head(embedding, name, aliases=()):
    """Returns the entries of an embedding and of the language model's head, tied or not."""
    if embedding.tie_weights:
        return [Entry(name, (embedding.embeddings,), aliases=(*aliases, "lm_head.weight"))]
    return [
        Entry(name, (embedding.embeddings,), aliases=aliases),
        Entry("lm_head.weight", (embedding.reverse_embeddings,), LINEAR),
    ]


def without_prefix(entries, prefix, names):
    """Returns the entries as a checkpoint of the bare model names them, where it has no prefix."""
    if any(name.startswith(prefix) for name in names):
        return entries
    return [
        entry._replace(
            name=entry.name.removeprefix(prefix),
            aliases=tuple(alias.removeprefix(prefix) for alias in entry.aliases),
        )
        for entry in entries
    ]


def read_weights(entries, tensors, ignored=()):
    """Fills the variables; raises one ValueError that lists everything that does not fit.

    Args:
        entries: list of `Entry`. tensors: what `open_tensors` returns.
        ignored: patterns of names that may be there and hold nothing that the model needs.
    """
    names = tensors.names
    complaints, used = [], set()
    for entry in entries:
        present = [name for name in (entry.name, *entry.aliases) if name in names]
        used.update(present)
        complaints += _complaints(entry, present, tensors)
    extra = sorted(names - used)
    extra = [name for name in extra if not any(fnmatch(name, each) for each in ignored)]
    complaints += [f"extra: {name}" for name in extra]
    if complaints:
        raise ValueError(
            "The checkpoint's tensors must be those of the model its config.json describes; "
            + "; ".join(complaints)
            + ". Is the config that of these weights?"
        )
    for entry in entries:
        name = next(name for name in (entry.name, *entry.aliases) if name in names)
        shapes = [tuple(variable.shape) for variable in entry.variables]
        arrays = entry.layout.split(tensors.read(name), shapes)
        for variable, array in zip(entry.variables, arrays, strict=True):
            variable.assign(np.ascontiguousarray(array))


def _complaints(entry, present, tensors):
    if not present:
        return [f"missing: {entry.name}"]
    zeros = [np.broadcast_to(np.float32(0), variable.shape) for variable in entry.variables]
    expected = entry.layout.join(zeros).shape
    wrong = [name for name in present if tensors.shape(name) != expected]
    if wrong:
        return [f"wrong shape: {name} {tensors.shape(name)}, not {expected}" for name in wrong]
    first = tensors.read(present[0]) if len(present) > 1 else None
    different = [each for each in present[1:] if not np.array_equal(tensors.read(each), first)]
    return [f"different though tied: {present[0]} and {name}" for name in different]


def written_weights(entries):
    """Returns {name: array} as a checkpoint holds them, each tensor once."""
    return {
        entry.name: entry.layout.join(
            # A kernel under LoRA is a tensor, the updates added.
            [ops.convert_to_numpy(ops.convert_to_tensor(each)) for each in entry.variables]
        )
        for entry in entries
    }
