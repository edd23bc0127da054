"""keras_transformer, as its users call it: `fit`, a search, `Translator.translate`."""

import keras
import numpy as np
from keras import ops
from workloads import END, PAD, START, Size, random_batches

from contenders.fit_clock import FitClock
from contenders.text_to_text import TextToText
from keras_transformer.decoding import BeamSearch, GreedySearch
from keras_transformer.decoding.compilation import count_traces
from keras_transformer.models import Transformer
from keras_transformer.training import Adam, SequenceCrossentropy
from keras_transformer.translator import Translator


def transformer(size, **options):
    """Returns the `Transformer` of a size."""
    return Transformer(
        size.vocabulary_size,
        size.num_layers,
        size.model_dim,
        size.num_heads,
        size.intermediate_dim,
        pad_id=PAD,
        start_id=START,
        end_id=END,
        **options,
    )


class Training:
    """`model.fit` with `SequenceCrossentropy` and Adam."""

    def __init__(self, size, dtype, dropout, jit_compile="auto", batch_parts=1, batches=32):
        size = Size(**size)
        if dtype == "bfloat16":
            keras.config.set_dtype_policy("mixed_bfloat16")
        rate = 0.1 if dropout == "everywhere" else 0.0
        self.model = transformer(
            size, dropout=0.1, attention_dropout=rate, feed_forward_dropout=rate
        )
        self.model.compile(
            Adam(1e-4, beta_2=0.98),
            SequenceCrossentropy(label_smoothing=0.1),
            jit_compile=jit_compile,
            batch_parts=batch_parts,
        )
        self.batch_size = size.batch_size
        self.batches = random_batches(size, batches)

    def run(self, repeats):
        source, target, labels = self.batches.first(repeats)
        clock = FitClock()
        history = self.model.fit(
            {"source": source, "target": target},
            labels,
            batch_size=self.batch_size,
            shuffle=False,
            verbose=0,
            callbacks=[clock],
        )
        self.loss = history.history["loss"][-1]
        return clock.seconds

    def facts(self):
        return {
            "parameters": self.model.count_params(),
            "loss": self.loss,
            **_device_peak(),
        }


class NeverEnding:
    """A model that never picks its end, so that a search runs to its greatest length.

    It is the model that it wraps with a bias on the logits: minus infinity at the end token.
    """

    def __init__(self, model):
        self.model = model
        self.vocabulary_size = model.vocabulary_size
        self.pad_id, self.start_id, self.end_id = model.pad_id, model.start_id, model.end_id
        bias = np.zeros(model.vocabulary_size, "float32")
        bias[model.end_id] = -np.inf
        self.bias = bias

    @property
    def variables(self):
        return self.model.variables

    def start(self, source, max_length):
        return self.model.start(source, max_length)

    def step(self, tokens, state):
        logits, state = self.model.step(tokens, state)
        return logits + ops.convert_to_tensor(self.bias), state


class Decoding:
    """`GreedySearch` and `BeamSearch` of a model with random weights."""

    def __init__(self, size, source_tokens, target_tokens):
        size = Size(**size)
        self.model = NeverEnding(transformer(size))
        self.target_tokens = target_tokens
        self.source = np.random.default_rng(0).integers(
            END + 1, size.vocabulary_size, (64, source_tokens), dtype=np.int32
        )

    def run(self, repeats, sentences, beam, source_tokens=None):
        search = BeamSearch(beam) if beam > 1 else GreedySearch()
        search.max_length = self.target_tokens
        source = self.source[:sentences, :source_tokens]
        for _ in range(repeats):
            found = search(self.model, source)
        wanted = (sentences, beam, self.target_tokens)
        if found.tokens.shape != wanted or not np.all(found.lengths == self.target_tokens):
            raise ValueError(f"expected tokens {wanted}; got lengths {found.lengths.tolist()}.")

    def facts(self):
        return {"traces": count_traces(self.model)}


class Translation(TextToText):
    """`Translator.load(folder).translate`."""

    def __init__(self, folder, corpus):
        super().__init__(corpus)
        self.translate = Translator.load(folder).translate


def _device_peak():
    """Returns the greatest memory on the accelerator, where there is one."""
    if keras.config.backend() == "jax":
        import jax

        statistics = jax.devices()[0].memory_stats() or {}
        return {key: statistics[key] for key in ("peak_bytes_in_use",) if key in statistics}
    if keras.config.backend() == "torch":
        import torch

        if torch.cuda.is_available():
            return {"peak_bytes_in_use": torch.cuda.max_memory_allocated()}
    return {}
