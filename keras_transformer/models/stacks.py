"""Embedded input and stacks of blocks: what the families of models are put together from.

These are plain objects that call layers. Called on symbolic tensors they add the layers to a
functional model; called on tensors they compute, which is how decoding uses them.
"""

import inspect

import keras
import numpy as np
from keras import ops

from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.dropout_seed import dropout_seed
from keras_transformer.layers.learned_position_encoding import LearnedPositionEncoding
from keras_transformer.layers.position_scheme import PositionScheme
from keras_transformer.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding
from keras_transformer.layers.transformer_block import TransformerBlock, make_normalization

# Every option of a block that a model hands through to it.
BLOCK_OPTIONS = frozenset(inspect.signature(TransformerBlock.__init__).parameters) - {
    "self",
    "num_heads",
    "intermediate_dim",
    "dropout",
    "position",
    "kwargs",
}


def check_block_options(options):
    """Raises ValueError naming an option that no block has."""
    unknown = sorted(set(options) - BLOCK_OPTIONS)
    if unknown:
        raise ValueError(
            f"Unknown argument {unknown[0]!r}; a block takes {sorted(BLOCK_OPTIONS)}. "
            "See `layers.EncoderBlock`."
        )


def check_special_ids(vocabulary_size, **ids):
    """Raises ValueError naming the special id that the vocabulary does not have."""
    for name, value in ids.items():
        if not 0 <= value < vocabulary_size:
            raise ValueError(
                f"`{name}` must be in [0, vocabulary_size); got {value!r} with {vocabulary_size} "
                "entries. Pass the tokenizer's id."
            )


def check_input_names(model, inputs):
    """Raises ValueError naming inputs that a functional model does not have.

    Keras would take them in the order of their names for those that it has.
    """
    if not isinstance(inputs, dict):
        return
    own = model.input
    known = (
        sorted(own) if isinstance(own, dict) else [each.name for each in keras.tree.flatten(own)]
    )
    unknown = sorted(set(inputs) - set(known))
    if unknown:
        raise ValueError(
            f"Inputs of model {model.name!r} must be among {known}; got {unknown} too. Leave "
            "them out, or build the model with what reads them."
        )


def serialized(option):
    """Returns the config of a layer object or of each in a list, and anything else as it is."""
    if isinstance(option, list | tuple):
        return [serialized(each) for each in option]
    if isinstance(option, keras.layers.Layer):
        return _unshared(keras.saving.serialize_keras_object(option))
    return option


def _unshared(config):
    """Returns a config without the marks of sharing that it gets while a file is read or written.

    Layers made of it are to be layers of their own.
    """
    if isinstance(config, list):
        return [_unshared(each) for each in config]
    if not isinstance(config, dict):
        return config
    marks = ("shared_as", "shared_object_id")
    return {name: _unshared(value) for name, value in config.items() if name not in marks}


def deserialized(option):
    """Returns the layer of a config, and anything else as it is."""
    return keras.saving.deserialize_keras_object(option) if isinstance(option, dict) else option


def own_copy(position, name):
    """Returns a position scheme or encoding of the same settings with weights of its own."""
    return position.__class__.from_config(_unshared({**position.get_config(), "name": name}))


class EmbeddedInput:
    """Vectors of a token sequence: dropout(embed(ids) + positions) (sections 3.4, 3.5, 5.4).

    BERT adds two things: the embeddings of `token_types`, and a `norm` before the dropout.
    """

    def __init__(
        self,
        embedding,
        position,
        dropout,
        name,
        seed=None,
        dtype=None,
        type_embedding=None,
        norm=None,
    ):
        self.embedding = embedding
        self.type_embedding = type_embedding
        self.norm = norm
        self.encoding = None
        if position == "sinusoidal":
            self.encoding = SinusoidalPositionEncoding(dtype=dtype, name=f"{name}_positions")
        elif isinstance(position, keras.layers.Layer):
            if not isinstance(position, PositionScheme):
                self.encoding = own_copy(position, f"{name}_positions")
        elif position is not None:
            raise ValueError(
                '`position` must be "sinusoidal", None, a layer that adds positions to embeddings, '
                f"or a `PositionScheme`; got {position!r}."
            )
        seed = dropout_seed(seed, name)
        self.dropout = Dropout(dropout, seed=seed, dtype=dtype, name=f"{name}_dropout")

    def __call__(self, ids, positions, training=None, token_types=None):
        """Returns (B, T, D) from ids, absolute positions and types, each int32 (B, T)."""
        vectors = self.embedding(ids)
        if token_types is not None:
            vectors = ops.add(vectors, self.type_embedding(token_types))
        if self.encoding is not None:
            vectors = self.encoding(vectors, positions=positions)
        if self.norm is not None:
            vectors = self.norm(vectors)
        return self.dropout(vectors, training=training)

    @property
    def max_length(self):
        """How many positions the table of learned positions has; None without one."""
        learned = isinstance(self.encoding, LearnedPositionEncoding)
        return self.encoding.max_length if learned else None

    def check_length(self, name, length, remedy):
        """Raises ValueError where the table is shorter than a length that is known."""
        known = self.max_length is not None and isinstance(length, int | np.integer)
        if known and length > self.max_length:
            raise ValueError(
                f"`{name}` must be at most {self.max_length}, the `max_length` of the model's "
                f"learned positions; got {length} tokens. {remedy}"
            )

    def check_target_length(self, length):
        """`check_length` of what is generated, prompt and new tokens together."""
        self.check_length(
            "max_length",
            length,
            "Lower the search's `max_length` (None is the source's width + 50) or shorten the "
            "prompt, which counts too.",
        )


class Stack:
    """Blocks one after the other; a pre-norm stack ends with a normalization.

    `mechanism` may be a list, one for each block.
    """

    def __init__(
        self, block_class, num_layers, position, name, seed=None, mechanism="auto", **options
    ):
        self.scheme = None
        if isinstance(position, PositionScheme):
            self.scheme = own_copy(position, f"{name}_positions")
        names = [f"{name}_block_{index}" for index in range(num_layers)]
        self.blocks = [
            block_class(
                position=self.scheme,
                mechanism=of_block,
                name=each,
                seed=dropout_seed(seed, each),
                **options,
            )
            for each, of_block in zip(names, _one_each(mechanism, num_layers), strict=True)
        ]
        self.norm = None
        if options.get("normalize_first"):
            self.norm = make_normalization(
                self.blocks[0].normalization,
                self.blocks[0].epsilon,
                dtype=options.get("dtype"),
                name=f"{name}_norm",
            )

    def __call__(self, hidden, positions, **asked):
        """Returns (B, T, D) after all blocks, each called with `asked`.

        Positions int32 (B, T) are handed on only where scheme or mechanism reads them.
        """
        asked |= self._positions(positions)
        for block in self.blocks:
            hidden = block(hidden, **asked)
        return self.finish(hidden)

    def attention_weights(self, hidden, positions, **asked):
        """Returns what a call returns, and for each block a list of its attention weights."""
        asked |= self._positions(positions)
        weights = []
        for block in self.blocks:
            hidden, *of_block = block(hidden, return_attention_scores=True, **asked)
            weights.append(of_block)
        return self.finish(hidden), weights

    def _positions(self, positions):
        read = any(block.mechanism.reads_positions for block in self.blocks)
        return {"positions": positions} if read or self.scheme is not None else {}

    def finish(self, hidden):
        """The normalization at the end of a pre-norm stack."""
        return hidden if self.norm is None else self.norm(hidden)

    def empty_caches(self, rows, length):
        """Returns one empty `KeyValueCache` a block."""
        return [block.empty_cache(rows, length) for block in self.blocks]

    def step(self, hidden, caches, index, positions, memories=None, context_mask=None):
        """The stack of `DecoderBlock`s for T new tokens. Returns (hidden (R, T, D), caches)."""
        memories = memories or [None] * len(self.blocks)
        updated = []
        for block, cache, memory in zip(self.blocks, caches, memories, strict=True):
            hidden, cache = block.step(hidden, cache, index, positions, memory, context_mask)
            updated.append(cache)
        return self.finish(hidden), updated


def _one_each(mechanism, num_layers):
    """Returns the mechanism of each block."""
    if not isinstance(mechanism, list | tuple):
        return [mechanism] * num_layers
    if len(mechanism) != num_layers:
        raise ValueError(
            f"`mechanism` must be one for all blocks or a list of one for each; got "
            f"{len(mechanism)} for {num_layers} blocks. Pass {num_layers}."
        )
    return mechanism


def started(tokens, pad_id, seen=None):
    """Returns bool (R, T): True from the first token on that is not padding.

    What is padded on the right needs no mask in a causal model: no real token can see it.

    Args:
        tokens: int32 (R, T). pad_id: int. seen: int32 (R,), how many real tokens came before.
    """
    count = ops.cumsum(ops.cast(tokens != pad_id, "int32"), axis=1)
    return (count if seen is None else count + seen[:, None]) > 0


def step_positions(tokens, seen, pad_id):
    """Returns the positions of T new tokens, and how many real tokens came so far.

    Args:
        tokens: int32 (R, T). seen: int32 (R,), real tokens before them. pad_id: int, or None where
            padding is never on the left.

    Returns:
        (positions int32 (R, T), -1 on padding; seen int32 (R,))
    """
    real = ops.ones_like(tokens, dtype="int32")
    if pad_id is not None:
        real = ops.cast(started(tokens, pad_id, seen), "int32")
    counted = ops.cumsum(real, axis=1) + seen[:, None]
    return ops.where(real > 0, counted - 1, -1), seen + ops.sum(real, axis=1)
