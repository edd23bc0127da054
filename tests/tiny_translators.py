"""Small translators for the tests: one that copies, and one with random weights."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding import BeamSearch, DecodingState
from keras_transformer.models import Transformer
from keras_transformer.text import MarianTokenizer, SubwordTokenizer
from keras_transformer.translator import Translator

SENTENCES = [
    "a dog runs over the green grass",
    "two men sit on a bench",
    "a woman reads",
    "children play football in the park near the river today",
    "ein Hund rennt über das grüne Gras",
    "zwei Männer sitzen auf einer Bank",
    "eine Frau liest",
    "Kinder spielen heute Fußball im Park am Fluss",
]
AWKWARD = ["", "a dog", "  \t ", "🙂 dog 🙂", "こんにちは", "\u2028", "</s> <pad>", "a\x00b", "x"]


@functools.cache
def subword_tokenizer():
    return SubwordTokenizer.train(SENTENCES, vocabulary_size=97)


@functools.cache
def marian_tokenizer():
    """Two SentencePiece models, one a language, whose pieces share a vocabulary."""
    protos = [
        SubwordTokenizer.train(sentences, vocabulary_size=57).model_proto
        for sentences in (SENTENCES[:4], SENTENCES[4:])
    ]
    pieces = []
    for proto in protos:
        tokenizer = SubwordTokenizer(proto)
        pieces += [tokenizer.id_to_piece(token) for token in range(4, tokenizer.vocabulary_size)]
    pieces = ["</s>", "<unk>", ">>deu<<", *dict.fromkeys(pieces), "<pad>"]
    return MarianTokenizer(*protos, {piece: number for number, piece in enumerate(pieces)})


class CopyModel:
    """Answers with its source, the end included, whatever the search."""

    def __init__(self, tokenizer):
        for name in ("vocabulary_size", "pad_id", "start_id", "end_id"):
            setattr(self, name, getattr(tokenizer, name))
        self.calls = 0

    def start(self, source, max_length):
        self.calls += 1
        place = ops.zeros((ops.shape(source)[0],), "int32")
        return DecodingState(source, {"place": place}, ops.zeros((), "int32"))

    def step(self, tokens, state):
        index = ops.minimum(state.index, ops.shape(state.source)[1] - 1)
        wanted = ops.take(state.source, ops.reshape(index, (1,)), axis=1)[:, 0]
        logits = 9.0 * ops.one_hot(wanted, self.vocabulary_size)
        times = ops.shape(tokens)[0] // ops.shape(logits)[0]
        logits = ops.repeat(logits, times, axis=0)
        return logits, state._replace(index=state.index + 1)


def random_transformer(tokenizer, seed=0, **options):
    """A Transformer whose outputs differ from sentence to sentence, the same on every backend."""
    model = Transformer(
        tokenizer.vocabulary_size,
        num_layers=1,
        model_dim=16,
        num_heads=2,
        intermediate_dim=24,
        pad_id=tokenizer.pad_id,
        start_id=tokenizer.start_id,
        end_id=tokenizer.end_id,
        **options,
    )
    random = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        values = random.normal(scale=0.5, size=variable.shape)
        variable.assign(values + ("gamma" in variable.path))
    return model


@functools.cache
def random_translator():
    keras.utils.set_random_seed(1706)
    tokenizer = subword_tokenizer()
    return Translator(random_transformer(tokenizer), tokenizer, BeamSearch(3, max_length=11), 40)


def run_python(code, *arguments, **environment):
    """Runs code in a Python process of its own and returns what it printed."""
    root = Path(__file__).parent.parent
    process = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout
