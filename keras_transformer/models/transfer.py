"""Moving a trained model to another task: a new head, frozen layers, rates by depth, LoRA."""

import re

import keras
from keras import ops

from keras_transformer.arguments import check_above_zero, check_positive, is_integer
from keras_transformer.layers.learned_position_encoding import LearnedPositionEncoding
from keras_transformer.layers.patch_embedding import PatchEmbedding
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.models.transformer_encoder import TransformerEncoder
from keras_transformer.ops.pooling import weighted_mean
from keras_transformer.ops.positions import positions_from_mask

_BLOCK = re.compile(r"(.+)_block_(\d+)")
_INPUT_LAYERS = (TokenEmbedding, LearnedPositionEncoding, PatchEmbedding)


def with_head(encoder, head, pooling=None, name=None):
    """Returns a functional model: an encoder, with the weights that it has, under a new head.

        outputs = head(pool(encoder(inputs)))

    The encoder stays one layer of the model and a model by itself; both train the same variables.

    Args:
        encoder: `TransformerEncoder`, such as the `encoder` of a `MaskedLanguageModel`, or another
            functional model that ends in vectors, such as a `VisionTransformer` without classes.
        head: a layer, or anything that is called on the vectors.
        pooling: "mean" or "first", over real tokens, for a `TransformerEncoder` that has no pooling
            of its own; None: the head gets what the encoder returns.
        name: str, of the model.

    Returns:
        `keras.Model` of the encoder's inputs.

    Raises:
        ValueError: if `pooling` is another, or there is nothing to pool.

    >>> encoder = TransformerEncoder(101, num_layers=2, model_dim=16, num_heads=2,
    ...                              intermediate_dim=32)
    >>> model = with_head(encoder, keras.layers.Dense(3), pooling="mean")
    >>> model({"tokens": keras.ops.ones((5, 7), "int32")}).shape
    (5, 3)

    Reference: Devlin et al. 2019, section 3.2.
    """
    if pooling not in (None, "mean", "first"):
        raise ValueError(
            f'`pooling` must be None, "mean" or "first"; got {pooling!r}. None gives the head what '
            "the encoder returns."
        )
    own = getattr(encoder, "pooling", None)
    if pooling is not None and (own is not None or not isinstance(encoder, TransformerEncoder)):
        raise ValueError(
            "`pooling` must be None unless the encoder is a `TransformerEncoder` without pooling; "
            f"got {pooling!r} for {type(encoder).__name__} with pooling={own!r}. Leave it out."
        )
    inputs = keras.tree.map_structure(
        lambda each: keras.Input(each.shape[1:], dtype=each.dtype, name=each.name), encoder.input
    )
    hidden = encoder(inputs)
    if pooling is not None:
        weights = ops.not_equal(inputs["tokens"], encoder.pad_id)
        if pooling == "first":
            weights = ops.equal(positions_from_mask(weights), 0)
        hidden = weighted_mean(hidden, weights)
    return keras.Model(inputs, head(hidden), name=name)


def freeze(model, num_blocks=None):
    """Keeps the embedded input and the first blocks of each stack as they are in training.

    Call it before `compile`. `layer.trainable = True` undoes it for a layer. One of this library's
    models that is saved and loaded, alone or within another, trains the same layers; a functional
    model of its layers keeps, as Keras does, whether a whole block trains. Instead of
    `keras.models.clone_model`, whose clone is another kind of model, take
    `type(model).from_config(model.get_config())`.

    Args:
        model: a model of this library, or one that holds such a model, as `with_head` returns.
        num_blocks: int, how many blocks of each stack, 0 for the embedded input alone; None for all
            blocks and the normalization after them.

    Raises:
        ValueError: if the model has no stack of so many blocks.

    >>> encoder = TransformerEncoder(101, num_layers=2, model_dim=16, num_heads=2,
    ...                              intermediate_dim=32)
    >>> freeze(encoder, num_blocks=1)
    >>> encoder.get_layer("encoder_block_1").trainable
    True
    """
    stacks = _stacks(model)
    shortest = min(map(len, stacks.values()))
    if num_blocks is not None and not (is_integer(num_blocks) and 0 <= num_blocks <= shortest):
        raise ValueError(
            f"`num_blocks` must be None or an integer from 0 to {shortest}, the blocks that the "
            f"model has; got {num_blocks!r}. None freezes all."
        )
    frozen = _input_layers(model)
    for blocks in stacks.values():
        frozen += blocks[:num_blocks]
    if num_blocks is None:
        norms = [f"{stack}_norm" for stack in stacks]
        frozen += [layer for layer in _layers(model) if layer.name in norms]
    for layer in frozen:
        # One by one: on TensorFlow a frozen layer that is frozen again leaves those within alone.
        for each in layer._flatten_layers():
            each.trainable = False


def layer_rates(model, decay):
    """Returns the learning rates of layers by depth, as factors: deeper into the input, smaller.

        rate(block i of L) = decay^(L - i),  rate(embedded input) = decay^(L + 1),  rate(head) = 1

    Args:
        model: a model of this library, or one that holds such a model, as `with_head` returns.
        decay: float in (0, 1].

    Returns:
        Dict of layer's name to factor, as `training.LayerwiseAdamW` takes it; frozen layers are
        left out. Any other layer that is not in it has the rate 1.

    Raises:
        ValueError: if `decay` is outside its rule, or the model has no blocks.

    >>> encoder = TransformerEncoder(101, num_layers=2, model_dim=16, num_heads=2,
    ...                              intermediate_dim=32)
    >>> rates = layer_rates(encoder, 0.5)
    >>> rates["encoder_block_1"], rates["encoder_block_0"], rates["embedding"]
    (0.5, 0.25, 0.125)

    Reference: Howard and Ruder 2018, section 3.2; Bao et al. 2022 (BEiT), section 3.1.
    """
    if not 0 < decay <= 1:
        raise ValueError(
            f"`decay` must be in (0, 1]; got {decay!r}. 1 gives every layer the same rate."
        )
    stacks = _stacks(model)
    longest = max(map(len, stacks.values()))
    depths = [(layer, longest + 1) for layer in _input_layers(model)]
    for blocks in stacks.values():
        depths += [(block, len(blocks) - index) for index, block in enumerate(blocks)]
    return {layer.name: decay**depth for layer, depth in depths if layer.trainable_weights}


def enable_lora(model, rank, alpha=None, layers=("query", "value")):
    """Adds low-rank updates, which alone train, to maps of a model that is built.

        W' = W + (alpha / rank) A B,  B = 0 at first

    for a feed-forward map A (inputs, rank) and B (rank, outputs); for one of attention, whose
    kernel is (inputs, heads, width), as Keras factors it: A (inputs, heads, rank) and B
    (rank, width), one B for all heads.

    It is Keras's own `enable_lora` of `Dense`, `EinsumDense` and `Embedding`, whose biases go on
    training; everything else in the model is frozen. A tied embedding stays tied: vectors and
    logits are of the one updated matrix. A saved model holds W' and no update, so that it loads
    anywhere; its maps are whole and train as such until this is called again. Call it before
    `compile`.

    Args:
        model: a model of this library, such as the encoder that `with_head` was given.
        rank: int, of the updates.
        alpha: float, `rank` by default.
        layers: names of the maps: of attention "query", "key", "value", "attention_output", of the
            feed-forward network "inner", "gate", "outer", or "embedding".

    Raises:
        ValueError: if the model has no map of a name.

    >>> encoder = TransformerEncoder(101, num_layers=2, model_dim=16, num_heads=2,
    ...                              intermediate_dim=32)
    >>> enable_lora(encoder, rank=2)
    >>> len(encoder.trainable_variables)    # 2 blocks x 2 maps x (A, B, bias)
    12

    Reference: Hu et al. 2022, section 4.
    """
    check_positive(rank=rank)
    if alpha is not None:
        check_above_zero(alpha=alpha)
    found = [layer for layer in _layers(model) if hasattr(layer, "enable_lora")]
    missing = sorted(set(layers) - {layer.name for layer in found})
    if missing or not layers:
        raise ValueError(
            f"`layers` must be names of the model's maps, {sorted({each.name for each in found})}; "
            f"got {tuple(layers)!r}. Take some of them."
        )
    chosen = [layer for layer in found if layer.name in layers]
    kept = {id(layer) for layer in chosen}
    for layer in _layers(model):
        inside = layer._flatten_layers(include_self=True)
        if not any(id(each) in kept for each in inside):
            layer.trainable = False
    for layer in chosen:
        layer.enable_lora(rank, lora_alpha=alpha)


def _layers(model):
    """Returns every layer of the model, and of its layers."""
    return list(model._flatten_layers(include_self=False))


def _input_layers(model):
    return [
        layer
        for layer in _layers(model)
        if isinstance(layer, _INPUT_LAYERS) or layer.name == "embedding_norm"
    ]


def _stacks(model):
    """Returns {"encoder": its blocks in order, ...}."""
    stacks = {}
    for layer in _layers(model):
        named = _BLOCK.fullmatch(layer.name)
        if named:
            stacks.setdefault(named[1], {})[int(named[2])] = layer
    if not stacks:
        raise ValueError(
            f"`model` must hold blocks of this library, named as in 'encoder_block_0'; got "
            f"{model.name!r} without any. Pass the model that was loaded or trained."
        )
    return {name: [blocks[index] for index in sorted(blocks)] for name, blocks in stacks.items()}
