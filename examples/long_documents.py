"""A question about a long document: a sliding window and global tokens, beside dense attention.

    python examples/long_documents.py

A document is two thousand characters of the standard library's own source code with eight notes
somewhere in it, one for each of eight subjects, such as "subject 3: answer 5". The first token asks
for one subject; the answer is in a note that may be the whole document away. The encoder's
attention reaches 31 tokens to either side (Longformer; Beltagy et al. 2020); with the first token
global, which sees and is seen by all, it answers; with the window alone it can but guess. Then the
time and memory of one training step against the length, each measurement in a process of its own.

Expected, in some 4 processor minutes on TensorFlow: 0.978 of the answers right with the window and
the global token, 0.123 with the window alone, where a guess has 0.125.
"""

import argparse
import os
import resource
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

from keras_transformer.layers import SlidingWindowAttention
from keras_transformer.models import TransformerEncoder
from keras_transformer.training import Adam

SUBJECTS = ANSWERS = 8
# Ids: padding, the 256 values of a character, the questions, the notes.
PAD_ID = 0
FIRST_QUESTION = 1 + 256
FIRST_NOTE = FIRST_QUESTION + SUBJECTS
VOCABULARY_SIZE = FIRST_NOTE + SUBJECTS * ANSWERS
WINDOW = 32
# Documents grow as the model learns to find its note: (length, documents a step, share of steps).
STAGES = ((64, 64, 0.6), (512, 16, 0.25), (None, 4, 0.15))


def main():
    arguments = parse_arguments()
    if arguments.measure:
        print(*measure(arguments.measure, arguments.length))
        return
    code = source_code()
    for title, mechanism in (
        ("window and a global token", SlidingWindowAttention(WINDOW, global_tokens=1)),
        ("window alone", SlidingWindowAttention(WINDOW)),
    ):
        accuracy = train_and_test(title, mechanism, code, arguments)
        print(f"answers right, {title}: {accuracy:.3f} (a guess: {1 / ANSWERS:.3f})\n", flush=True)
    show_costs(arguments.measured_lengths)


def source_code():
    """Returns the characters of the standard library's top-level modules as ids."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    code = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return 1 + np.frombuffer(code, "uint8").astype("int32")


def write_documents(random, code, count, length):
    """Returns tokens int32 (count, length), and the right answers (count,)."""
    starts = random.integers(len(code) - length, size=(count, 1))
    tokens = code[starts + np.arange(length)]
    places = random.random((count, length - 1)).argsort(axis=1)[:, :SUBJECTS] + 1
    answers = random.integers(ANSWERS, size=(count, SUBJECTS))
    notes = FIRST_NOTE + np.arange(SUBJECTS) * ANSWERS + answers
    np.put_along_axis(tokens, places, notes.astype("int32"), axis=1)
    asked = random.integers(SUBJECTS, size=count)
    tokens[:, 0] = FIRST_QUESTION + asked
    return tokens, answers[np.arange(count), asked]


def build_model(mechanism, arguments):
    """Returns an encoder whose first vector becomes the answer."""
    encoder = TransformerEncoder(
        VOCABULARY_SIZE,
        num_layers=arguments.layers,
        model_dim=arguments.width,
        num_heads=2,
        intermediate_dim=2 * arguments.width,
        dropout=0.0,
        normalize_first=True,
        pooling="first",
        mechanism=mechanism,
        pad_id=PAD_ID,
        seed=arguments.seed,
    )
    model = keras.Model(encoder.input, keras.layers.Dense(ANSWERS)(encoder.output))
    model.compile(
        Adam(arguments.rate, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        # XLA would compile longer than this model trains; JAX knows no other way.
        jit_compile=False if keras.config.backend() == "tensorflow" else "auto",
    )
    return model


def train_and_test(title, mechanism, code, arguments):
    """Returns the share of right answers in new documents of the full length."""
    keras.utils.set_random_seed(arguments.seed)
    random = np.random.default_rng(arguments.seed)
    model = build_model(mechanism, arguments)
    for length, batch_size, share in STAGES:
        length = min(length or arguments.length, arguments.length)
        for steps in chunks(round(share * arguments.steps), 100):
            tokens, answers = write_documents(random, code, steps * batch_size, length)
            history = model.fit({"tokens": tokens}, answers, batch_size, verbose=0).history
            print(f"{title}: length {length}, right {history['accuracy'][-1]:.3f}", flush=True)
    tokens, answers = write_documents(random, code, arguments.tested, arguments.length)
    return model.evaluate({"tokens": tokens}, answers, 4, verbose=0, return_dict=True)["accuracy"]


def chunks(total, most):
    """Yields numbers of at most `most` that add up to `total`."""
    for start in range(0, total, most):
        yield min(most, total - start)


def show_costs(lengths):
    """Prints what a training step on one document costs, by length and mechanism."""
    print("  length   window: s  peak GB   dense: s  peak GB")
    for length in lengths:
        row = [measure_in_a_process(mechanism, length) for mechanism in ("window", "dense")]
        print(f"{length:8,}" + "".join(f"  {seconds:10.3f}  {peak:7.2f}" for seconds, peak in row))


def measure_in_a_process(mechanism, length):
    command = [sys.executable, __file__, "--measure", mechanism, "--length", str(length)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return tuple(float(number) for number in result.stdout.split()[-2:])


def measure(name, length):
    """Returns seconds of a training step on one document, and the process's peak in GB."""
    defaults = parse_arguments([])
    window = SlidingWindowAttention(WINDOW, global_tokens=1)
    model = build_model({"window": window, "dense": "dense"}[name], defaults)
    documents = np.random.default_rng(0).integers(1, 257, size=(1, length))
    inputs, answers = {"tokens": documents}, np.zeros(1, "int32")
    model.train_on_batch(inputs, answers)  # compiles
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        model.train_on_batch(inputs, answers)
        seconds.append(time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return float(np.median(seconds)), peak


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=positive, default=800, help="of training")
    parser.add_argument("--length", type=positive, default=2048, help="tokens of a document")
    parser.add_argument("--tested", type=positive, default=400, help="documents to score")
    parser.add_argument("--layers", type=positive, default=2)
    parser.add_argument("--width", type=positive, default=32, help="of the model")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate")
    parser.add_argument("--seed", type=positive, default=1)
    parser.add_argument(
        "--measured-lengths",
        type=positive,
        nargs="*",
        default=[1024, 2048, 4096, 8192],
        help="of the documents whose cost is measured",
    )
    parser.add_argument(
        "--measure", choices=("window", "dense"), help="only this: a step of --length tokens"
    )
    arguments = parser.parse_args(words)
    if arguments.length <= SUBJECTS:
        parser.error(f"--length must be above {SUBJECTS}, the notes; got {arguments.length}")
    if arguments.width % 2:
        parser.error(f"--width must be a multiple of the 2 heads; got {arguments.width}")
    if not arguments.rate > 0:
        parser.error(f"--rate must be above 0; got {arguments.rate}")
    return arguments


def positive(text):
    """Reads an argument that must be an integer above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be an integer above 0; got {text!r}")
    return int(text)


if __name__ == "__main__":
    main()
