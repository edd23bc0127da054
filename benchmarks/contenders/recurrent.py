"""The Transformer's first opponent: LSTMs with Bahdanau attention, in Keras's own layers."""

import keras
from keras import ops

from keras_transformer.decoding.state import DecodingState
from keras_transformer.layers import Dropout, TokenEmbedding
from keras_transformer.models import SequenceModel


class RecurrentTranslator(SequenceModel):
    """A bidirectional LSTM reads; two LSTMs write, with attention between them.

        encoded = BiLSTM(embed(source))
        asking = LSTM(embed(target))
        context_t = sum_s softmax_s(v tanh(W asking_t + U encoded_s)) encoded_s
        hidden = LSTM([asking; context]),   logits = ([hidden; context] M) E^T

    The first decoder LSTM starts from tanh(W encoded_1), as Bahdanau et al. have it. Unlike theirs,
    the context goes to a second LSTM, not back to the one that asked (as in Wu et al. 2016, section
    3), so that each LSTM of a training step is one call of `keras.layers.LSTM`.

    Args:
        tokenizer: gives the vocabulary's size and special ids.
        model_dim: int, of embeddings, attention and the output.
        units: int, of each decoder LSTM; the encoder's have half.
        dropout: float, on embeddings and on the output of each LSTM.
        seed: int, for the dropout.

    Reference: Bahdanau et al. 2015, section 3.
    """

    def __init__(self, tokenizer, model_dim=128, units=224, dropout=0.2, seed=1):
        self.vocabulary_size = tokenizer.vocabulary_size
        self.pad_id = tokenizer.pad_id
        self.start_id = tokenizer.start_id
        self.end_id = tokenizer.end_id
        self._parts = {
            "embedding": TokenEmbedding(self.vocabulary_size, model_dim, pad_id=None),
            "encoder": keras.layers.Bidirectional(_lstm(units // 2)),
            "keys": keras.layers.Dense(model_dim, use_bias=False),
            "first": keras.layers.Dense(units, activation="tanh"),
            "asking": _lstm(units, return_state=True),
            "queries": keras.layers.Dense(model_dim),
            "attention": keras.layers.AdditiveAttention(),
            "reading": _lstm(units, return_state=True),
            "output": keras.layers.Dense(model_dim),
            "dropout": Dropout(dropout, seed=seed),
        }
        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        memory, states = self._encode(source)
        hidden, _ = self._decode(target, memory, states)
        super().__init__(
            inputs={"source": source, "target": target},
            outputs=self._parts["embedding"](hidden, reverse=True),
        )

    def start(self, source, max_length):
        """Begins to decode one hypothesis a sentence; see `decoding.DecodingState`."""
        memory, states = self._encode(source)
        return DecodingState(source=memory, cache=states, index=ops.zeros((), "int32"))

    def step(self, tokens, state):
        """Reads tokens (B, T); returns the logits (B, V) of the next one, and the state."""
        hidden, cache = self._decode(tokens, state.source, state.cache)
        logits = self._parts["embedding"](hidden[:, -1], reverse=True)
        return logits, state._replace(cache=cache, index=state.index + ops.shape(tokens)[1])

    def _encode(self, source):
        """Returns what the decoder attends to, and the states that its LSTMs start from."""
        parts = self._parts
        mask = ops.not_equal(source, self.pad_id)
        embedded = parts["dropout"](parts["embedding"](source))
        encoded = parts["dropout"](parts["encoder"](embedded, mask=mask))  # (B, S, units)
        first = parts["first"](encoded[:, 0])  # where the backward LSTM has read all
        nothing = ops.zeros_like(first)
        memory = {"encoded": encoded, "keys": parts["keys"](encoded), "mask": mask}
        return memory, {"asking": [first, nothing], "reading": [nothing, nothing]}

    def _decode(self, target, memory, states):
        """Returns the vectors (B, T, D) that become logits, and the LSTMs' states after them."""
        parts = self._parts
        embedded = parts["dropout"](parts["embedding"](target))
        asking, *after_asking = parts["asking"](embedded, initial_state=states["asking"])
        context = parts["attention"](
            [parts["queries"](asking), memory["encoded"], memory["keys"]],
            mask=[None, memory["mask"]],
        )
        asked = ops.concatenate([parts["dropout"](asking), context], axis=-1)
        reading, *after_reading = parts["reading"](asked, initial_state=states["reading"])
        hidden = parts["output"](ops.concatenate([parts["dropout"](reading), context], axis=-1))
        return hidden, {"asking": after_asking, "reading": after_reading}


def _lstm(units, return_state=False):
    return keras.layers.LSTM(units, return_sequences=True, return_state=return_state)
