"""Decoder-only language models: GPT-2, Llama and what lies between."""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import check_positive
from keras_transformer.decoding.greedy_search import GreedySearch
from keras_transformer.decoding.state import DecodingState
from keras_transformer.layers.decoder_block import DecoderBlock
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.models.families import CAUSAL_PRESETS, arguments_of
from keras_transformer.models.resumable import paths_under
from keras_transformer.models.sequence_model import SequenceModel
from keras_transformer.models.stacks import (
    EmbeddedInput,
    Stack,
    check_block_options,
    check_special_ids,
    deserialized,
    serialized,
    started,
    step_positions,
)
from keras_transformer.ops.positions import positions_from_mask


@keras.saving.register_keras_serializable(package="keras_transformer")
class CausalLanguageModel(SequenceModel):
    """The decoder without an encoder: each token is predicted from those before it.

        logits = DecoderBlock^L(dropout(embed(tokens) + positions)) E^T

    GPT-2 and Llama are two settings of its arguments: see `from_preset`. It decodes as any model
    does (`search(model, source, prompt)`), and `generate` is the short way to it.

    Args:
        vocabulary_size: int, V.
        num_layers: int, blocks.
        model_dim: int, D.
        num_heads: int, N, divides D (or `key_dim` is given).
        intermediate_dim: int, inner width of the feed-forward networks.
        dropout: float, on sublayer outputs and on the embedded input.
        position: "sinusoidal", a layer that adds positions to embeddings
            (`LearnedPositionEncoding(...)`: GPT-2), a `PositionScheme` (`RotaryPosition(...)`:
            Llama), or None.
        tie_weights: whether the head is the embedding's matrix.
        scale_embedding: whether embedded ids are multiplied by sqrt(D).
        normalize_first: whether blocks are pre-norm, as in all models of this family after GPT.
        activation: name or function, of the feed-forward networks.
        pad_id, start_id, end_id: int, the vocabulary's special ids. Where `pad_id` is one of the
            other two, nothing is taken for padding on the left; padding on the right is never seen
            anyway.
        other_end_ids: ids that end an output as `end_id` does: chat models have several.
        seed: int, for the dropout.
        **block_options: what `DecoderBlock` takes beyond these: gated, normalization, epsilon,
            use_bias, feed_forward_bias, attention_dropout, feed_forward_dropout, key_dim,
            value_dim, num_key_value_heads, attention_scale, logit_soft_cap, query_key_norm,
            mechanism.

    Call arguments:
        inputs: int32 (B, T). Padding may be right or left.

    Returns:
        Logits (B, T, V) of the token after each token.

    Raises:
        ValueError: if an argument is outside its rule.

    >>> model = CausalLanguageModel(vocabulary_size=101, num_layers=2, model_dim=16, num_heads=2,
    ...                             intermediate_dim=32)
    >>> model(keras.ops.ones((3, 5), "int32")).shape
    (3, 5, 101)

    Reference: Radford et al. 2018, 2019; Touvron et al. 2023.
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
        tie_weights=True,
        scale_embedding=True,
        normalize_first=True,
        activation="gelu",
        pad_id=0,
        start_id=2,
        end_id=3,
        other_end_ids=(),
        seed=None,
        name=None,
        dtype=None,
        **block_options,
    ):
        check_positive(vocabulary_size=vocabulary_size, num_layers=num_layers)
        check_positive(model_dim=model_dim, num_heads=num_heads)
        check_special_ids(vocabulary_size, pad_id=pad_id, start_id=start_id, end_id=end_id)
        for other in other_end_ids:
            check_special_ids(vocabulary_size, other_end_ids=other)
        check_block_options(block_options)
        position = deserialized(position)
        block_options = {name: serialized(value) for name, value in block_options.items()}
        left_padding = pad_id if pad_id not in (start_id, end_id) else None
        common = {"seed": seed, "dtype": dtype}
        embedding = TokenEmbedding(
            vocabulary_size,
            model_dim,
            scale=scale_embedding,
            tie_weights=tie_weights,
            pad_id=None,  # a padding id in mid-text is a token like any other
            dtype=dtype,
            name="embedding",
        )
        decoder = Stack(
            DecoderBlock,
            num_layers,
            position,
            "decoder",
            num_heads=num_heads,
            intermediate_dim=intermediate_dim,
            dropout=dropout,
            normalize_first=normalize_first,
            activation=activation,
            **common,
            **block_options,
        )
        token_input = EmbeddedInput(embedding, position, dropout, "token", **common)
        self._parts = _Parts(embedding, token_input, decoder)
        self._left_padding = left_padding
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.model_dim = model_dim
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.position = serialized(position)
        self.tie_weights = tie_weights
        self.scale_embedding = scale_embedding
        self.normalize_first = normalize_first
        self.activation = keras.activations.serialize(decoder.blocks[0].activation)
        self.pad_id = pad_id
        self.start_id = start_id
        self.end_id = end_id
        self.other_end_ids = list(other_end_ids)
        self.seed = seed
        self.block_options = block_options
        tokens = keras.Input((None,), dtype="int32", name="tokens")
        with paths_under(self, name) as name:
            logits = self._logits(tokens)
        super().__init__(inputs=tokens, outputs=logits, name=name)
        if dtype is not None:
            self.dtype_policy = dtype

    @classmethod
    def from_preset(cls, preset, /, **arguments):
        """Returns the untrained model of that name, such as "gpt2" or "llama-7b".

        Args:
            preset: see `models.families.CAUSAL_PRESETS`.
            **arguments: take the place of the preset's.
        """
        return cls(**arguments_of(CAUSAL_PRESETS, preset, arguments))

    def _logits(self, tokens):
        mask = None
        if self._left_padding is not None:
            mask = started(tokens, self._left_padding)
        positions = positions_from_mask(ops.ones_like(tokens) if mask is None else mask)
        hidden = self._parts.token_input(tokens, positions)
        hidden = self._parts.decoder(hidden, positions, mask=mask)
        return self._parts.embedding(hidden, reverse=True)

    @property
    def max_target_length(self):
        """The most target tokens that the model has positions for; None for any number."""
        return self._parts.token_input.max_length

    def check_lengths(self, source_length=None, target_length=None):
        """Raises where the model has no positions for what is to be read.

        Args:
            source_length: int, the most real tokens of a source; this model reads none, or None.
            target_length: int, the most tokens of a target, prompt and generated ones but the last,
                or None.

        Raises:
            ValueError: if a length is above that of a table of learned positions.
        """
        self._parts.token_input.check_target_length(target_length)

    def start(self, source, max_length):
        """Begins to decode: see `decoding.DecodingState`.

        Args:
            source: nested tensors (B, ...); there is nothing to read in them but B, the number of
                rows: what the model continues is the search's `prompt`.
            max_length: int, the most tokens, the prompt counted.

        Raises:
            ValueError: if `max_length` is above that of the learned positions.
        """
        self.check_lengths(target_length=max_length)
        rows = ops.shape(keras.tree.flatten(source)[0])[0]
        cache = {
            "blocks": self._parts.decoder.empty_caches(rows, max_length),
            "seen": ops.zeros((rows,), "int32"),
        }
        return DecodingState(source=(), cache=cache, index=ops.zeros((), "int32"))

    def step(self, tokens, state):
        """Reads T more tokens of each row.

        Args:
            tokens: int32 (R, T), padded on the left if at all. state: `DecodingState` of R rows.

        Returns:
            (logits float32 (R, V) of the token after the last, state).
        """
        positions, seen = step_positions(tokens, state.cache["seen"], self._left_padding)
        hidden = self._parts.token_input(tokens, positions)
        hidden, blocks = self._parts.decoder.step(
            hidden, state.cache["blocks"], state.index, positions
        )
        logits = self._parts.embedding(hidden[:, -1:], reverse=True)[:, 0]
        state = state._replace(
            cache={"blocks": blocks, "seen": seen}, index=state.index + ops.shape(tokens)[1]
        )
        return ops.cast(logits, "float32"), state

    def generate(self, prompts, search=None):
        """Continues prompts of any lengths; those of one length are searched together.

        Args:
            prompts: list of lists of ids, each of at least one id (`start_id`, if no other).
            search: a `decoding.Search`; None is `GreedySearch(max_length=50)`.

        Returns:
            List of lists of ids: each prompt's best continuation, with the end token if it came.

        Raises:
            ValueError: if a prompt is empty or an id is not in the vocabulary.
        """
        prompts = [np.asarray(prompt, "int32").reshape(-1) for prompt in prompts]
        lengths = np.array([len(prompt) for prompt in prompts], dtype=int)
        if len(prompts) and lengths.min() == 0:
            raise ValueError(
                f"`prompts` must hold at least one id each; prompt {int(lengths.argmin())} is "
                f"empty. Begin it with `start_id`, {self.start_id}."
            )
        search = search or GreedySearch(max_length=50)
        continuations = [None] * len(prompts)
        for length in sorted(set(lengths.tolist())):
            numbers = np.flatnonzero(lengths == length)
            rows = np.stack([prompts[number] for number in numbers])
            found = search(self, rows, prompt=rows)
            for row, number in enumerate(numbers):
                best = found.tokens[row, 0, : found.lengths[row, 0]]
                continuations[number] = best.tolist()
        return continuations

    def get_config(self):
        return {
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "model_dim": self.model_dim,
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "position": self.position,
            "tie_weights": self.tie_weights,
            "scale_embedding": self.scale_embedding,
            "normalize_first": self.normalize_first,
            "activation": self.activation,
            "pad_id": self.pad_id,
            "start_id": self.start_id,
            "end_id": self.end_id,
            "other_end_ids": list(self.other_end_ids),
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
    decoder: Stack
