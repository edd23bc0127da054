"""KerasHub: its layers in a functional model with `fit`, and its BART for decoding."""

import keras
import keras_hub
import numpy as np
from keras import ops
from workloads import END, PAD, START, Size, random_batches

from contenders.fit_clock import FitClock


class Training:
    """`model.fit` of a Transformer of KerasHub's layers; their dropout is not the user's choice."""

    def __init__(self, size, dtype, dropout, jit_compile="auto", batches=32):
        size = Size(**size)
        if dtype == "bfloat16":
            keras.config.set_dtype_policy("mixed_bfloat16")
        self.model = _transformer(size)
        self.model.compile(
            keras.optimizers.Adam(1e-4, beta_2=0.98), loss=_smoothed_loss, jit_compile=jit_compile
        )
        self.batch_size = size.batch_size
        self.batches = random_batches(size, batches)

    def run(self, repeats):
        source, target, labels = self.batches.first(repeats)
        clock = FitClock()
        history = self.model.fit(
            [source, target],
            labels,
            batch_size=self.batch_size,
            shuffle=False,
            verbose=0,
            callbacks=[clock],
        )
        self.loss = history.history["loss"][-1]
        return clock.seconds

    def facts(self):
        return {"parameters": self.model.count_params(), "loss": self.loss}


class Decoding:
    """`BartSeq2SeqLM.generate` with no token that stops it."""

    def __init__(self, size, source_tokens, target_tokens):
        size = Size(**size)
        self.backbone = keras_hub.models.BartBackbone(
            size.vocabulary_size,
            size.num_layers,
            size.num_heads,
            size.model_dim,
            size.intermediate_dim,
            dropout=0.0,
            max_sequence_length=max(source_tokens, target_tokens + 1),
        )
        self.target_tokens = target_tokens
        self.source = np.random.default_rng(0).integers(
            END + 1, size.vocabulary_size, (32, source_tokens), dtype=np.int32
        )
        self.models = {}

    def run(self, repeats, sentences, beam):
        model = self._model(beam)
        target = np.zeros((sentences, self.target_tokens + 1), "int32")
        target[:, 0] = START
        inputs = {
            "encoder_token_ids": self.source[:sentences],
            "encoder_padding_mask": np.ones_like(self.source[:sentences]),
            "decoder_token_ids": target,
            "decoder_padding_mask": (target == START).astype("int32"),
        }
        for _ in range(repeats):
            found = model.generate(inputs, stop_token_ids=None)
        if np.shape(found["decoder_token_ids"]) != target.shape:
            raise ValueError(f"expected {target.shape}; got {found['decoder_token_ids'].shape}.")

    def facts(self):
        return {"parameters": self.backbone.count_params()}

    def _model(self, beam):
        if beam not in self.models:
            model = keras_hub.models.BartSeq2SeqLM(self.backbone, preprocessor=None)
            sampler = keras_hub.samplers.BeamSampler(num_beams=beam) if beam > 1 else "greedy"
            # Its generation compiled by XLA on TensorFlow is slower, and takes minutes to compile.
            on_tensorflow = keras.config.backend() == "tensorflow"
            model.compile(sampler=sampler, jit_compile=False if on_tensorflow else "auto")
            self.models[beam] = model
        return self.models[beam]


def _transformer(size):
    layers = keras_hub.layers
    source = keras.Input((size.length,), dtype="int32")
    target = keras.Input((size.length,), dtype="int32")
    source_mask, target_mask = ops.not_equal(source, PAD), ops.not_equal(target, PAD)
    embedding = layers.ReversibleEmbedding(size.vocabulary_size, size.model_dim, mask_zero=True)
    positions = layers.SinePositionEncoding()

    def embed(tokens):
        vectors = embedding(tokens)
        return keras.layers.Dropout(0.1)(vectors + positions(vectors))

    encoded = embed(source)
    for _ in range(size.num_layers):
        block = layers.TransformerEncoder(size.intermediate_dim, size.num_heads, dropout=0.1)
        encoded = block(encoded, padding_mask=source_mask)
    hidden = embed(target)
    for _ in range(size.num_layers):
        block = layers.TransformerDecoder(size.intermediate_dim, size.num_heads, dropout=0.1)
        hidden = block(
            hidden,
            encoded,
            decoder_padding_mask=target_mask,
            encoder_padding_mask=source_mask,
        )
    return keras.Model([source, target], embedding(hidden, reverse=True))


def _smoothed_loss(labels, logits):
    """Label-smoothed cross-entropy of the real tokens; Keras has none for integer labels."""
    logits = ops.cast(logits, "float32")
    normalizer = ops.logsumexp(logits, axis=-1)
    picked = ops.take_along_axis(logits, ops.cast(labels, "int32")[..., None], axis=-1)[..., 0]
    loss = normalizer - 0.9 * picked - 0.1 * ops.mean(logits, axis=-1)
    weights = ops.cast(ops.not_equal(labels, PAD), "float32")
    return ops.sum(loss * weights) / ops.sum(weights)
