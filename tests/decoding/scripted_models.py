"""Models for the tests of decoding: all that they compute can be read back in numpy."""

import itertools

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding.state import DecodingState


class ScriptedModel:
    """Counts its tokens in a cache and asks a script for logits.

    The script is `(prefix (R, L) int32 with -1 where empty, index, source) -> logits (R, V)`.
    """

    def __init__(self, vocabulary_size, script, start_id=1, end_id=2, pad_id=0):
        self.vocabulary_size = vocabulary_size
        self.script = script
        self.start_id, self.end_id, self.pad_id = start_id, end_id, pad_id

    def start(self, source, max_length):
        prefix = ops.full((ops.shape(source)[0], max_length), -1, dtype="int32")
        return DecodingState(source, {"prefix": prefix}, ops.zeros((), dtype="int32"))

    def step(self, tokens, state):
        prefix = ops.slice_update(state.cache["prefix"], (0, state.index), tokens)
        index = state.index + tokens.shape[1]
        logits = self.script(prefix, index, state.source)
        return logits, state._replace(cache={"prefix": prefix}, index=index)


class TableModel(ScriptedModel):
    """Logits (V,) by the token before: row `last` of the weight `table` (V, V)."""

    def __init__(self, table, **ids):
        table = np.asarray(table, "float32")
        super().__init__(table.shape[0], self._look_up, **ids)
        self.table = keras.Variable(table, name="table")
        self.variables = [self.table]

    def _look_up(self, prefix, index, source):
        last = ops.take(prefix, ops.reshape(index - 1, (1,)), axis=1)[:, 0]
        return ops.take(self.table, last, axis=0)


class RandomModel(ScriptedModel):
    """Logits that depend on every token of the prefix, on their order, and on the source as a set.

    `reseed` draws other weights; what was compiled serves them too, which keeps the tests quick.
    """

    width = 11

    def __init__(self, vocabulary_size, seed=0, dtype="float32", **ids):
        super().__init__(vocabulary_size, self._logits, **ids)
        rows, shape = vocabulary_size, (vocabulary_size, self.width)
        shapes = {"target": shape, "context": shape, "head": shape[::-1], "bias": (rows,)}
        for name, shape in shapes.items():
            setattr(self, name, keras.Variable(np.zeros(shape, "float32"), name=name))
        self.variables = [getattr(self, name) for name in shapes]
        self.dtype = dtype
        self.reseed(seed)

    def reseed(self, seed, end_bias=0.0):
        random = np.random.default_rng(seed)
        for variable in self.variables[:3]:
            variable.assign(random.normal(size=variable.shape).astype("float32"))
        self.head.assign(2 * self.head.value)
        self.bias.assign(np.where(np.arange(self.vocabulary_size) == self.end_id, end_bias, 0.0))
        return self

    def start(self, source, max_length):
        state = super().start(source, max_length)
        real = ops.cast(source != self.pad_id, "float32")[..., None]
        vectors = ops.take(self.context, source, axis=0)
        return state._replace(source=ops.sum(vectors * real, axis=1))

    def _logits(self, prefix, index, context):
        places = ops.arange(ops.shape(prefix)[1], dtype="int32")
        # The newest token weighs most; an empty place nothing.
        weight = ops.power(0.7, ops.cast(index - 1 - places, "float32"))
        weight = ops.where(prefix >= 0, weight, 0.0)
        vectors = ops.take(self.target, ops.maximum(prefix, 0), axis=0)
        hidden = ops.sum(vectors * weight[..., None], axis=1)
        # One context a sentence, K rows a sentence: B rows of context serve B * K hypotheses.
        sentences = ops.shape(context)[0]
        hidden = ops.reshape(hidden, (sentences, -1, self.width)) + context[:, None, :]
        hidden = ops.tanh(ops.reshape(hidden, (-1, self.width)))
        return ops.cast(ops.matmul(hidden, self.head) + self.bias, self.dtype)

    def read_back(self, source, prefix):
        """Teacher forcing in numpy: the log-probabilities (V,) of the token after `prefix`."""
        target, context, head, bias = (ops.convert_to_numpy(v.value) for v in self.variables)
        source, prefix = np.asarray(source), np.asarray(prefix)
        weight = 0.7 ** np.arange(len(prefix) - 1, -1, -1.0)
        hidden = target[prefix].T @ weight + context[source[source != self.pad_id]].sum(0)
        return log_softmax(np.tanh(hidden) @ head + bias)


def in_graph(function):
    """Compiles a function of tensors as an exporter would."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False)
    if keras.config.backend() == "jax":
        import jax

        return jax.jit(function)
    return function


def log_softmax(logits):
    """Log softmax in float64."""
    logits = np.asarray(logits, "float64")
    logits = logits - logits.max()
    return logits - np.log(np.exp(logits).sum())


def rescore(read_back, tokens, prompt, alpha):
    """The score that the tokens have when the model reads them back: law 4."""
    total, prefix = 0.0, list(prompt)
    for token in tokens:
        total += read_back(prefix)[token]
        prefix.append(int(token))
    return total / ((5 + len(tokens)) / 6) ** alpha


def every_output(read_back, vocabulary_size, end_id, prompt, max_length, alpha):
    """All outputs that end or are cut at `max_length`, with their scores, best first."""
    outputs = []
    for length in range(1, max_length + 1):
        for tokens in itertools.product(range(vocabulary_size), repeat=length):
            if end_id in tokens[:-1] or (length < max_length and tokens[-1] != end_id):
                continue
            outputs.append((rescore(read_back, tokens, prompt, alpha), tokens))
    return sorted(outputs, reverse=True)
