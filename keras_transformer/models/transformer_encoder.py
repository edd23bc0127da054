"""Encoder-only models: BERT and its kin."""

from typing import NamedTuple

import keras
from keras import ops

from keras_transformer.arguments import check_positive, check_positive_or_none
from keras_transformer.layers.encoder_block import EncoderBlock
from keras_transformer.layers.quantization_record import QuantizationRecord
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.layers.transformer_block import make_normalization
from keras_transformer.models.families import ENCODER_PRESETS, arguments_of
from keras_transformer.models.resumable import Resumable, paths_under
from keras_transformer.models.stacks import (
    EmbeddedInput,
    Stack,
    check_block_options,
    check_input_names,
    check_special_ids,
    deserialized,
    serialized,
)
from keras_transformer.ops.pooling import weighted_mean
from keras_transformer.ops.positions import positions_from_mask

POOLINGS = (None, "mean", "first", "dense")


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerEncoder(Resumable, QuantizationRecord, keras.Model):
    """The encoder alone: a vector for each token, or one for the whole text.

        hidden = EncoderBlock^L(dropout(norm(embed(tokens) + embed(token_types) + positions)))

    Args:
        vocabulary_size: int, V.
        num_layers: int, blocks.
        model_dim: int, D.
        num_heads: int, N, divides D (or `key_dim` is given).
        intermediate_dim: int, inner width of the feed-forward networks.
        dropout: float, on sublayer outputs and on the embedded input.
        position: "sinusoidal", a layer that adds positions to embeddings
            (`LearnedPositionEncoding(...)`: BERT), a `PositionScheme`, or None.
        num_token_types: int, kinds of tokens (BERT's two sentences), or None. With one kind only,
            as in Longformer, its vector is added to all and there is no such input.
        normalize_embedding: whether the embedded input is normalized, as in BERT.
        scale_embedding: whether embedded ids are multiplied by sqrt(D).
        pooling: None: a vector for each token; "mean": the mean over real tokens; "first": that of
            the first real token; "dense": tanh(W h + b) of it, as BERT's pooler.
        tie_weights, head_bias: of the embedding where `MaskedLanguageModel` takes it as its head.
        pad_id: int, the id of padding, which no token attends to.
        seed: int, for the dropout.
        **block_options: what `EncoderBlock` takes beyond these: activation, gated, normalize_first,
            normalization, epsilon, use_bias, feed_forward_bias, attention_dropout,
            feed_forward_dropout, key_dim, value_dim, num_key_value_heads, attention_scale,
            logit_soft_cap, query_key_norm, mechanism (one, or a list of one for each block).

    Call arguments:
        inputs: {"tokens": int32 (B, T)}, with `num_token_types` of 2 or more also
            "token_types": int32 (B, T).

    Returns:
        (B, T, D), or with `pooling` (B, D).

    Raises:
        ValueError: if an argument is outside its rule.

    >>> encoder = TransformerEncoder(vocabulary_size=101, num_layers=2, model_dim=16, num_heads=2,
    ...                              intermediate_dim=32, pooling="mean")
    >>> encoder({"tokens": keras.ops.ones((3, 5), "int32")}).shape
    (3, 16)

    Reference: Devlin et al. 2019, section 3.
    """

    def __init__(
        self,
        vocabulary_size,
        num_layers=12,
        model_dim=768,
        num_heads=12,
        intermediate_dim=3072,
        dropout=0.1,
        *,
        position="sinusoidal",
        num_token_types=None,
        normalize_embedding=False,
        scale_embedding=True,
        pooling=None,
        tie_weights=True,
        head_bias=False,
        pad_id=0,
        seed=None,
        name=None,
        dtype=None,
        **block_options,
    ):
        check_positive(vocabulary_size=vocabulary_size, num_layers=num_layers)
        check_positive(model_dim=model_dim, num_heads=num_heads)
        check_positive_or_none(num_token_types=num_token_types)
        check_special_ids(vocabulary_size, pad_id=pad_id)
        check_block_options(block_options)
        if pooling not in POOLINGS:
            raise ValueError(
                f"`pooling` must be one of {POOLINGS}; got {pooling!r}. None gives one a token."
            )
        position = deserialized(position)
        block_options = {name: serialized(value) for name, value in block_options.items()}
        encoder = Stack(
            EncoderBlock,
            num_layers,
            position,
            "encoder",
            num_heads=num_heads,
            intermediate_dim=intermediate_dim,
            dropout=dropout,
            seed=seed,
            dtype=dtype,
            **block_options,
        )
        embedding = TokenEmbedding(
            vocabulary_size,
            model_dim,
            scale=scale_embedding,
            tie_weights=tie_weights,
            head_bias=head_bias,
            pad_id=pad_id,
            dtype=dtype,
            name="embedding",
        )
        token_input = EmbeddedInput(
            embedding,
            position,
            dropout,
            "token",
            seed=seed,
            dtype=dtype,
            type_embedding=_type_embedding(num_token_types, model_dim, dtype),
            norm=_like_the_blocks(encoder.blocks[0], dtype) if normalize_embedding else None,
        )
        pooler = None
        if pooling == "dense":
            pooler = keras.layers.Dense(model_dim, activation="tanh", dtype=dtype, name="pooler")
        self._parts = _Parts(embedding, token_input, encoder, pooler)
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.model_dim = model_dim
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.position = serialized(position)
        self.num_token_types = num_token_types
        self.normalize_embedding = normalize_embedding
        self.scale_embedding = scale_embedding
        self.pooling = pooling
        self.tie_weights = tie_weights
        self.head_bias = head_bias
        self.pad_id = pad_id
        self.seed = seed
        self.block_options = block_options
        inputs = self.new_inputs()
        with paths_under(self, name) as name:
            output = self._output(**inputs)
        super().__init__(inputs=inputs, outputs=output, name=name)
        if dtype is not None:
            self.dtype_policy = dtype

    @classmethod
    def from_preset(cls, preset, /, **arguments):
        """Returns the untrained encoder of that name, such as "bert-base".

        Args:
            preset: see `models.families.ENCODER_PRESETS`.
            **arguments: take the place of the preset's.
        """
        return cls(**arguments_of(ENCODER_PRESETS, preset, arguments))

    @property
    def embedding(self):
        """The `TokenEmbedding` of the tokens."""
        return self._parts.embedding

    def new_inputs(self):
        """Returns symbolic inputs of the form that a call takes."""
        names = ["tokens"] + (["token_types"] if (self.num_token_types or 1) > 1 else [])
        return {name: keras.Input((None,), dtype="int32", name=name) for name in names}

    def call(self, inputs, training=None, mask=None):
        check_input_names(self, inputs)
        return super().call(inputs, training=training, mask=mask)

    def _output(self, tokens, token_types=None):
        mask = ops.not_equal(tokens, self.pad_id)
        positions = positions_from_mask(mask)
        if self.num_token_types == 1:
            token_types = ops.zeros_like(tokens)
        hidden = self._parts.token_input(tokens, positions, token_types=token_types)
        hidden = self._parts.encoder(hidden, positions, mask=mask)
        if self.pooling is None:
            return hidden
        if self.pooling == "mean":
            return weighted_mean(hidden, mask)
        first = weighted_mean(hidden, ops.equal(positions, 0))
        return first if self.pooling == "first" else self._parts.pooler(first)

    def get_config(self):
        return {
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "model_dim": self.model_dim,
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "position": self.position,
            "num_token_types": self.num_token_types,
            "normalize_embedding": self.normalize_embedding,
            "scale_embedding": self.scale_embedding,
            "pooling": self.pooling,
            "tie_weights": self.tie_weights,
            "head_bias": self.head_bias,
            "pad_id": self.pad_id,
            "seed": self.seed,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            **self.block_options,
            **self.trainable_config(),
        }


class _Parts(NamedTuple):
    """What the model is put together from."""

    embedding: TokenEmbedding
    token_input: EmbeddedInput
    encoder: Stack
    pooler: keras.layers.Layer | None


def _type_embedding(num_token_types, model_dim, dtype):
    if num_token_types is None:
        return None
    return TokenEmbedding(
        num_token_types, model_dim, scale=False, pad_id=None, dtype=dtype, name="type_embedding"
    )


def _like_the_blocks(block, dtype):
    return make_normalization(
        block.normalization, block.epsilon, dtype=dtype, name="embedding_norm"
    )
