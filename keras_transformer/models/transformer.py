"""The Transformer, encoder and decoder (section 3)."""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import check_positive, check_rates
from keras_transformer.decoding.state import DecodingState
from keras_transformer.layers.decoder_block import DecoderBlock
from keras_transformer.layers.encoder_block import EncoderBlock
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.models.attention_weights import AttentionWeights
from keras_transformer.models.families import SEQUENCE_PRESETS, arguments_of
from keras_transformer.models.presets import TRANSFORMER_PRESETS
from keras_transformer.models.resumable import paths_under
from keras_transformer.models.sequence_model import SequenceModel
from keras_transformer.models.stacks import (
    EmbeddedInput,
    Stack,
    check_block_options,
    check_special_ids,
    serialized,
    started,
    step_positions,
)
from keras_transformer.ops.positions import positions_from_mask


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(SequenceModel):
    """The encoder-decoder model of the paper, as a functional Keras model.

        encoded = EncoderBlock^L(dropout(embed(source) + positions))
        logits  = DecoderBlock^L(dropout(embed(target) + positions), encoded) E^T

    One matrix E embeds source and target and makes the logits (section 3.4).

    Args:
        vocabulary_size: int, V, shared by source and target.
        num_layers: int, blocks in the encoder, and in the decoder unless `num_decoder_layers` is
            set.
        model_dim: int, D.
        num_heads: int, N, divides D (or `key_dim` is given).
        intermediate_dim: int, inner width of the feed-forward networks.
        dropout: float, on sublayer outputs and on the embedded input (section 5.4).
        num_decoder_layers: int, blocks in the decoder.
        position: "sinusoidal" (the paper), `LearnedPositionEncoding(...)` (Table 3, row E), a
            `PositionScheme`, or None. Encoder and decoder each get their own copy.
        decoder_position: likewise, for the decoder; `position` by default.
        tie_weights: whether the head is the embedding's matrix.
        scale_embedding: whether embedded ids are multiplied by sqrt(D) (section 3.4).
        head_scale, head_bias: of the head, as in `TokenEmbedding`.
        suppressed_ids: ids that no search picks (Marian's padding, which its searches start from).
        pad_id, start_id, end_id: int, the vocabulary's special ids. Where `start_id` is `pad_id`,
            the target's padding is on the right and is not masked: what follows cannot be seen
            anyway.
        seed: int, for the dropout.
        **block_options: what `EncoderBlock` takes beyond these: activation, gated, normalize_first,
            normalization, epsilon, use_bias, feed_forward_bias, attention_dropout,
            feed_forward_dropout, key_dim, value_dim, num_key_value_heads, attention_scale,
            logit_soft_cap, query_key_norm, mechanism.

    Call arguments:
        inputs: {"source": int32 (B, S), "target": int32 (B, T)}; the target begins with `start_id`.
            Padding may be right or left.

    Returns:
        Logits (B, T, V) of the token after each target token.

    Raises:
        ValueError: if an argument is outside its rule.

    >>> model = Transformer(vocabulary_size=101, num_layers=2, model_dim=16, num_heads=2,
    ...                     intermediate_dim=32)
    >>> model({"source": keras.ops.ones((3, 7), "int32"),
    ...        "target": keras.ops.ones((3, 5), "int32")}).shape
    (3, 5, 101)

    Reference: Vaswani et al. 2017, section 3 and Table 3.
    """

    def __init__(
        self,
        vocabulary_size,
        num_layers=6,
        model_dim=512,
        num_heads=8,
        intermediate_dim=2048,
        dropout=0.1,
        *,
        num_decoder_layers=None,
        position="sinusoidal",
        decoder_position=None,
        tie_weights=True,
        scale_embedding=True,
        head_scale=None,
        head_bias=False,
        suppressed_ids=(),
        pad_id=0,
        start_id=2,
        end_id=3,
        seed=None,
        name=None,
        dtype=None,
        **block_options,
    ):
        if num_decoder_layers is None:
            num_decoder_layers = num_layers
        check_positive(vocabulary_size=vocabulary_size, num_layers=num_layers)
        check_positive(num_decoder_layers=num_decoder_layers, model_dim=model_dim)
        check_positive(num_heads=num_heads, intermediate_dim=intermediate_dim)
        check_rates(dropout=dropout)
        check_special_ids(vocabulary_size, pad_id=pad_id, start_id=start_id, end_id=end_id)
        for suppressed_id in suppressed_ids:
            check_special_ids(vocabulary_size, suppressed_ids=suppressed_id)
        check_block_options(block_options)
        if isinstance(position, dict):
            position = keras.saving.deserialize_keras_object(position)
        if isinstance(decoder_position, dict):
            decoder_position = keras.saving.deserialize_keras_object(decoder_position)
        of_decoder = position if decoder_position is None else decoder_position
        # A mechanism object goes to the blocks as its config, so that each makes its own.
        block_options = {name: serialized(value) for name, value in block_options.items()}
        common = {"seed": seed, "dtype": dtype}
        options = {
            "num_heads": num_heads,
            "intermediate_dim": intermediate_dim,
            "dropout": dropout,
            **common,
            **block_options,
        }
        embedding = TokenEmbedding(
            vocabulary_size,
            model_dim,
            scale=scale_embedding,
            tie_weights=tie_weights,
            head_scale=head_scale,
            head_bias=head_bias,
            # Masks are explicit here: a padding id inside a target, or at its start, is a token.
            pad_id=None,
            dtype=dtype,
            name="embedding",
        )
        self._parts = _Parts(
            embedding=embedding,
            source_input=EmbeddedInput(embedding, position, dropout, "source", **common),
            target_input=EmbeddedInput(embedding, of_decoder, dropout, "target", **common),
            encoder=Stack(EncoderBlock, num_layers, position, "encoder", **options),
            decoder=Stack(DecoderBlock, num_decoder_layers, of_decoder, "decoder", **options),
        )
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.model_dim = model_dim
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.num_decoder_layers = num_decoder_layers
        self.position = serialized(position)
        self.decoder_position = serialized(decoder_position)
        self.tie_weights = tie_weights
        self.scale_embedding = scale_embedding
        self.head_scale = head_scale
        self.head_bias = head_bias
        self.suppressed_ids = list(suppressed_ids)
        self.pad_id = pad_id
        self.start_id = start_id
        self.end_id = end_id
        self.seed = seed
        self.block_options = block_options
        inputs = {
            "source": keras.Input((None,), dtype="int32", name="source"),
            "target": keras.Input((None,), dtype="int32", name="target"),
        }
        with paths_under(self, name) as name:
            logits = self._logits(**inputs)
        super().__init__(inputs=inputs, outputs=logits, name=name)
        if dtype is not None:
            self.dtype_policy = dtype

    @classmethod
    def from_preset(cls, preset, /, vocabulary_size=None, **arguments):
        """Returns the untrained model of one row of the paper's Table 3, or of a later family.

        Args:
            preset: "base", "big", or a variation such as "a-16-heads": see `TRANSFORMER_PRESETS`;
                or "t5-small", "opus-mt" and the like: see `models.families.SEQUENCE_PRESETS`.
            vocabulary_size: int, 37000 in the paper's English-German runs; families have their own.
            **arguments: take the place of the preset's.

        Raises:
            ValueError: if there is no such preset, or a row of Table 3 gets no `vocabulary_size`.
        """
        chosen = arguments_of({**TRANSFORMER_PRESETS, **SEQUENCE_PRESETS}, preset, arguments)
        vocabulary_size = vocabulary_size or chosen.get("vocabulary_size")
        if vocabulary_size is None:
            raise ValueError(
                f"`vocabulary_size` must be given with preset {preset!r}: Table 3 has none. Pass "
                "the tokenizer's."
            )
        return cls(**{**chosen, "vocabulary_size": vocabulary_size})

    def _logits(self, source, target):
        encoded, source_mask = self.encode(source)
        hidden, positions, target_mask = self._embed_target(target)
        hidden = self._parts.decoder(
            hidden, positions, context=encoded, mask=target_mask, context_mask=source_mask
        )
        return self._parts.embedding(hidden, reverse=True)

    def _embed_target(self, target):
        """Returns (vectors (B, T, D), positions int32 (B, T), mask bool (B, T) or None)."""
        mask = None
        if self._left_padding is not None:
            mask = started(target, self.pad_id)
        positions = positions_from_mask(ops.ones_like(target) if mask is None else mask)
        return self._parts.target_input(target, positions), positions, mask

    @property
    def _left_padding(self):
        """The id that may pad a target on the left, or None."""
        return self.pad_id if self.start_id != self.pad_id else None

    def encode(self, source):
        """Returns (encoded source (B, S, D), mask bool (B, S)) of source ids int32 (B, S)."""
        mask = ops.not_equal(source, self.pad_id)
        positions = positions_from_mask(mask)
        hidden = self._parts.source_input(source, positions)
        return self._parts.encoder(hidden, positions, mask=mask), mask

    def attention_weights(self, source, target):
        """Reads a source and a target and returns what every head looks at.

        Args:
            source: int32 (B, S). target: int32 (B, T), begins with `start_id`.

        Returns:
            `AttentionWeights` of tensors, one a block.

        Raises:
            ValueError: if the blocks' mechanism holds no weights, as the fused one.
        """
        source = ops.convert_to_tensor(source, dtype="int32")
        target = ops.convert_to_tensor(target, dtype="int32")
        mask = ops.not_equal(source, self.pad_id)
        positions = positions_from_mask(mask)
        encoded, of_encoder = self._parts.encoder.attention_weights(
            self._parts.source_input(source, positions), positions, mask=mask
        )
        hidden, positions, target_mask = self._embed_target(target)
        _, of_decoder = self._parts.decoder.attention_weights(
            hidden, positions, context=encoded, mask=target_mask, context_mask=mask
        )
        return AttentionWeights(
            [weights for (weights,) in of_encoder],
            [weights for weights, _ in of_decoder],
            [weights for _, weights in of_decoder],
        )

    @property
    def max_target_length(self):
        """The most target tokens that the model has positions for; None for any number."""
        return self._parts.target_input.max_length

    def check_lengths(self, source_length=None, target_length=None):
        """Raises where the model has no positions for what is to be read.

        Args:
            source_length: int, the most real tokens of a source, or None.
            target_length: int, the most tokens of a target, prompt and generated ones but the last,
                or None.

        Raises:
            ValueError: if a length is above that of a table of learned positions.
        """
        self._parts.source_input.check_length(
            "source",
            source_length,
            "Shorten it; a `Translator` cuts sentences at its `max_source_length`.",
        )
        self._parts.target_input.check_target_length(target_length)

    def start(self, source, max_length):
        """Begins to decode: see `decoding.DecodingState`.

        Args:
            source: int32 (B, S). max_length: int, the most target tokens, `start_id` counted.

        Raises:
            ValueError: if `max_length` is above that of the learned positions.
        """
        self.check_lengths(target_length=max_length)
        source = ops.convert_to_tensor(source, dtype="int32")
        encoded, mask = self.encode(source)
        decoder = self._parts.decoder
        rows = ops.shape(source)[0]
        return DecodingState(
            source={
                "memories": [block.remember(encoded) for block in decoder.blocks],
                "mask": mask,
            },
            cache={
                "blocks": decoder.empty_caches(rows, max_length),
                "seen": ops.zeros((rows,), "int32"),
            },
            index=ops.zeros((), "int32"),
        )

    def step(self, tokens, state):
        """Reads T more target tokens of each row.

        Args:
            tokens: int32 (R, T), R = B K, hypotheses of one sentence adjacent.
            state: `DecodingState` of R rows.

        Returns:
            (logits float32 (R, V) of the token after the last, state).
        """
        positions, seen = step_positions(tokens, state.cache["seen"], self._left_padding)
        hidden, blocks = self._parts.decoder.step(
            self._parts.target_input(tokens, positions),
            state.cache["blocks"],
            state.index,
            positions,
            state.source["memories"],
            state.source["mask"],
        )
        logits = self._parts.embedding(hidden[:, -1:], reverse=True)[:, 0]
        state = state._replace(
            cache={"blocks": blocks, "seen": seen}, index=state.index + ops.shape(tokens)[1]
        )
        return self._without_suppressed(ops.cast(logits, "float32")), state

    def _without_suppressed(self, logits):
        if not self.suppressed_ids:
            return logits
        suppressed = np.isin(np.arange(self.vocabulary_size), self.suppressed_ids)
        return ops.where(suppressed, -float("inf"), logits)

    def get_config(self):
        return {
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "model_dim": self.model_dim,
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "num_decoder_layers": self.num_decoder_layers,
            "position": self.position,
            "decoder_position": self.decoder_position,
            "tie_weights": self.tie_weights,
            "scale_embedding": self.scale_embedding,
            "head_scale": self.head_scale,
            "head_bias": self.head_bias,
            "suppressed_ids": self.suppressed_ids,
            "pad_id": self.pad_id,
            "start_id": self.start_id,
            "end_id": self.end_id,
            "seed": self.seed,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            **self.block_options,
            **self.trainable_config(),
        }


class _Parts(NamedTuple):
    """What the model is put together from."""

    embedding: TokenEmbedding
    source_input: EmbeddedInput
    target_input: EmbeddedInput
    encoder: Stack
    decoder: Stack
