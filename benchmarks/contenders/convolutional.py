"""The Transformer's second opponent: gated convolutions with attention, in Keras's own layers."""

import keras
from keras import ops

from keras_transformer.decoding.state import DecodingState
from keras_transformer.layers import Dropout, SinusoidalPositionEncoding, TokenEmbedding
from keras_transformer.models import SequenceModel


class ConvolutionalTranslator(SequenceModel):
    """Convolutions read, causal convolutions write, and each of those attends to the source.

        encoder block: x + glu(conv(norm(x)))
        decoder block: x + h + attend(h W + embed(target); encoded, encoded + embed(source)) U,
            with h = glu(conv(norm(x)))

    Differs from Gehring et al. in sinusoids for learned positions, and in layer normalization for
    normalized weights and scales of sqrt(1/2).

    Args:
        tokenizer: gives the vocabulary's size and special ids.
        model_dim: int, D, of all vectors.
        num_layers: int, of the encoder and of the decoder.
        width: int, tokens that a convolution spans.
        dropout: float, on embeddings and on what enters a convolution.
        seed: int, for the dropout.

    Reference: Gehring et al. 2017, section 3.
    """

    def __init__(self, tokenizer, model_dim=128, num_layers=6, width=3, dropout=0.2, seed=1):
        self.vocabulary_size = tokenizer.vocabulary_size
        self.pad_id = tokenizer.pad_id
        self.start_id = tokenizer.start_id
        self.end_id = tokenizer.end_id
        self.model_dim = model_dim
        self.past = width - 1  # tokens before its own that a causal convolution sees
        self._parts = {
            "embedding": TokenEmbedding(self.vocabulary_size, model_dim, pad_id=None),
            "positions": SinusoidalPositionEncoding(),
            "dropout": Dropout(dropout, seed=seed),
            "output_norm": keras.layers.LayerNormalization(),
            "encoded_norm": keras.layers.LayerNormalization(),
        }
        self._encoder = [_block(model_dim, width, "same") for _ in range(num_layers)]
        self._decoder = [_block(model_dim, width, "valid") for _ in range(num_layers)]
        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        past = [self._nothing(target)] * num_layers
        hidden, _ = self._decode(target, self._encode(source), past, 0)
        super().__init__(
            inputs={"source": source, "target": target},
            outputs=self._parts["embedding"](hidden, reverse=True),
        )

    def start(self, source, max_length):
        """Begins to decode one hypothesis a sentence; see `decoding.DecodingState`."""
        past = [self._nothing(source)] * len(self._decoder)
        return DecodingState(self._encode(source), past, ops.zeros((), "int32"))

    def step(self, tokens, state):
        """Reads tokens (B, T); returns the logits (B, V) of the next one, and the state."""
        hidden, cache = self._decode(tokens, state.source, state.cache, state.index)
        logits = self._parts["embedding"](hidden[:, -1], reverse=True)
        return logits, state._replace(cache=cache, index=state.index + ops.shape(tokens)[1])

    def _nothing(self, tokens):
        """Returns zeros (B, past, D): what stands before the first token."""
        zeros = ops.zeros_like(tokens[:, :1], dtype="float32")
        return ops.tile(zeros[:, :, None], (1, self.past, self.model_dim))

    def _embed(self, tokens, start_index=0):
        embedded = self._parts["embedding"](tokens)
        return self._parts["dropout"](self._parts["positions"](embedded, start_index=start_index))

    def _encode(self, source):
        """Returns what the decoder attends to: keys, values and which of them are real."""
        mask = ops.not_equal(source, self.pad_id)
        real = ops.cast(mask, "float32")[:, :, None]
        embedded = hidden = self._embed(source)
        for block in self._encoder:
            inside = self._parts["dropout"](block["norm"](hidden)) * real
            hidden = hidden + ops.glu(block["convolution"](inside))
        keys = self._parts["encoded_norm"](hidden)
        return {"keys": keys, "values": keys + embedded, "mask": mask}

    def _decode(self, target, memory, past, start_index):
        """Returns the vectors (B, T, D) that become logits, and each block's last inputs."""
        embedded = hidden = self._embed(target, start_index)
        after = []
        for block, before in zip(self._decoder, past, strict=True):
            inside = self._parts["dropout"](block["norm"](hidden))
            inside = ops.concatenate([before, inside], axis=1)  # (B, past + T, D)
            after.append(inside[:, -self.past :])
            convolved = ops.glu(block["convolution"](inside))
            query = block["query"](convolved) + embedded
            context = block["attention"](
                [query, memory["values"], memory["keys"]], mask=[None, memory["mask"]]
            )
            hidden = hidden + convolved + block["context"](context)
        return self._parts["output_norm"](hidden), after


def _block(model_dim, width, padding):
    """Returns the layers of a block; those of a decoder attend."""
    block = {
        "norm": keras.layers.LayerNormalization(),
        "convolution": keras.layers.Conv1D(2 * model_dim, width, padding=padding),
    }
    if padding == "valid":
        block["query"] = keras.layers.Dense(model_dim)
        block["context"] = keras.layers.Dense(model_dim)
        block["attention"] = keras.layers.Attention(use_scale=True)
    return block
