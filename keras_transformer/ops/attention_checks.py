"""Checks of what a call of attention is given: every size that is known, and what is in it.

Letters: B batch, N heads, T queries, S keys. A size that is not known (None) is right.
"""

import keras
import numpy as np

from keras_transformer.ops.backend import concrete

# The shapes that each argument may have; on the letters of the second string 1 stands for all.
_SHAPES = {
    "query_mask": (("BT",), "B"),
    "value_mask": (("BS",), "B"),
    "key_mask": (("BS",), "B"),
    "attention_mask": (("TS", "BTS", "BNTS"), "BNTS"),
    "bias": (("TS", "NTS", "BNTS"), "BNTS"),
    "query_positions": (("T", "BT"), "B"),
    "key_positions": (("S", "BS"), "B"),
    "query_segments": (("T", "BT"), "B"),
    "key_segments": (("S", "BS"), "B"),
    "global_mask": (("BT",), "B"),
}
_MASKS = ("query_mask", "value_mask", "key_mask", "attention_mask", "global_mask")
_FLAGS = ("use_causal_mask", "return_attention_scores")
_NUMBERS = ("query_positions", "key_positions", "query_segments", "key_segments")


def check_attention_call(query, value, key, num_heads, **given):
    """Raises ValueError naming the first argument of a call that does not fit the others.

    Args:
        query: (B, T, D). value: (B, S, D). key: (B, S, D).
        num_heads: int, N.
        **given: the other arguments of the call of `MultiHeadAttention`.
    """
    sizes = _sizes(query, value, key, num_heads)
    given = {name: tensor for name, tensor in given.items() if tensor is not None}
    for name, tensor in given.items():
        if name in _FLAGS:
            _check_flag(name, tensor)
            continue
        _check_shape(name, shape_of(tensor), sizes)
        if name in _MASKS:
            _check_mask(name, tensor)
        elif name in _NUMBERS:
            check_integers(name, tensor)
        elif name == "bias" and _dtype_of(tensor) == "bool":
            raise ValueError(
                "`bias` must hold numbers that are added to the scores; got bool. Pass who may "
                "attend to whom as `attention_mask`."
            )
    for kind, remedy in (("segments", "number of each token's sentence"), ("positions", "place")):
        if (f"query_{kind}" in given) != (f"key_{kind}" in given):
            raise ValueError(
                f"`query_{kind}` and `key_{kind}` must be given both or neither; got only one. "
                f"Pass the other: the {remedy}."
            )
    if "global_mask" in given and differ(sizes["T"], sizes["S"]):
        raise ValueError(
            "`global_mask` must be left out unless queries and keys are the same tokens; got "
            f"{sizes['T']} queries and {sizes['S']} keys. Use an `attention_mask`."
        )


def check_step(inputs, positions, cache):
    """Raises ValueError where the new tokens of a decoding step do not fit each other or the cache.

    Args:
        inputs: (R, T, D). positions: int (R, T). cache: with `num_rows`, int or None.
    """
    shape = shape_of(inputs)
    require_rank_three("inputs", shape)
    found = shape_of(positions)
    if len(found) != 2 or any(map(differ, found, shape[:2])):
        raise ValueError(
            f"`positions` must have shape (rows, tokens), here {shape[:2]}; got {found}. Give each "
            "new token its absolute position."
        )
    if differ(cache.num_rows, shape[0]):
        raise ValueError(
            f"`inputs` must have the rows that the cache was made for, {cache.num_rows}; got "
            f"{shape[0]}. Make the cache by `empty_cache(rows, length)`."
        )


def check_recall(query, key, key_mask):
    """Raises ValueError where queries or mask do not fit what `remember` returned.

    Args:
        query: (R, T, D). key: (B, M, S, H), R a multiple of B. key_mask: bool (B, S) or None.
    """
    require_rank_three("query", shape_of(query))
    rows, (sentences, _, length, _) = shape_of(query)[0], shape_of(key)
    if rows is not None and sentences is not None and rows % sentences:
        raise ValueError(
            f"`query` must have a number of rows that is a multiple of the {sentences} sentences "
            f"remembered; got {rows}. The hypotheses of a sentence are adjacent rows."
        )
    if key_mask is not None:
        _check_shape("key_mask", shape_of(key_mask), {"B": sentences, "S": length})


def require_rank_three(name, shape):
    """Raises ValueError where a shape is not that of a batch of sequences of vectors."""
    if len(shape) != 3:
        raise ValueError(
            f"`{name}` must have shape (batch, length, width); got {tuple(shape)}. Reshape it: "
            "further axes belong to the batch or to the length."
        )


def _sizes(query, value, key, num_heads):
    """Returns {letter: int or None}."""
    shapes = {"query": shape_of(query), "value": shape_of(value), "key": shape_of(key)}
    for name, shape in shapes.items():
        require_rank_three(name, shape)
    for name in ("value", "key"):
        if differ(shapes["query"][0], shapes[name][0]):
            raise ValueError(
                f"`{name}` must have as many rows as `query`, {shapes['query'][0]}; got shape "
                f"{shapes[name]}. Repeat the rows of the smaller."
            )
    if differ(shapes["value"][1], shapes["key"][1]):
        raise ValueError(
            f"`key` must be as long as `value`, {shapes['value'][1]}; got shape {shapes['key']}. "
            "Each key goes with one value."
        )
    batch = shapes["query"][0] if shapes["value"][0] is None else shapes["value"][0]
    keys = shapes["key"][1] if shapes["value"][1] is None else shapes["value"][1]
    return {"B": batch, "N": num_heads, "T": shapes["query"][1], "S": keys}


def _check_flag(name, flag):
    if not isinstance(flag, bool | np.bool_):
        raise ValueError(f"`{name}` must be True or False; got {flag!r}. Pass one of the two.")


def _check_shape(name, shape, sizes):
    layouts, broadcast = _SHAPES[name]
    for layout in layouts:
        if len(layout) == len(shape) and not any(
            differ(size, sizes[letter]) and not (size == 1 and letter in broadcast)
            for letter, size in zip(layout, shape, strict=True)
        ):
            return
    letters = " or ".join(f"({', '.join(layout)})" for layout in layouts)
    numbers = " or ".join(
        "(" + ", ".join(str(sizes[letter]) for letter in layout) + ")" for layout in layouts
    )
    raise ValueError(
        f"`{name}` must have shape {letters}, here {numbers}; got {shape}. T and S are the lengths "
        "of `query` and `value`: reshape or cut it to them."
    )


def _check_mask(name, mask):
    values = None if _dtype_of(mask) == "bool" else concrete(mask)
    if values is not None and not np.all((values == 0) | (values == 1)):
        raise ValueError(
            f"`{name}` must hold booleans, or 1 where a token may be seen and 0 elsewhere; got "
            f"values from {values.min()} to {values.max()}. Pass what is to be added to the scores "
            "as `bias`."
        )


def check_integers(name, numbers):
    """Raises ValueError where a tensor, or what can be one, holds other numbers than integers."""
    dtype = _dtype_of(numbers)
    if not dtype.startswith(("int", "uint")):
        raise ValueError(f"`{name}` must hold integers; got {dtype}. Cast it to int32.")


def _dtype_of(tensor):
    tensor = tensor if hasattr(tensor, "dtype") else np.asarray(tensor)
    return keras.backend.standardize_dtype(tensor.dtype)


def differ(one, other):
    """Returns whether two sizes that are known are not the same."""
    return one is not None and other is not None and one != other


def shape_of(tensor):
    """Returns the shape of a tensor, or of what can be one, as a tuple."""
    return tuple(tensor.shape) if hasattr(tensor, "shape") else np.shape(tensor)
