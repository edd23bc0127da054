"""Whether training in bfloat16 goes as training in float32 does.

    python benchmarks/half_precision.py --data FOLDER --plot docs/images/half_precision.svg

One model is trained three times on the same batches of real sentences: in float32, in float32 with
other random numbers (weights and dropout), and in bfloat16 with the first one's. The curves are the
mean loss of every `--window` steps. Bfloat16 is within the noise where it is no further from
float32 than the two runs of float32 are from each other. FOLDER as for examples/translate.py.
KERAS_BACKEND chooses the backend.
"""

import argparse
import itertools
import os
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The package of this checkout is measured, installed or not.
sys.path.insert(0, str(Path(__file__).parent.parent))

import keras
import numpy as np
import report
from workloads import SIZES

from keras_transformer import models, text, training

# What is trained: {name: (dtype policy, seed)}.
RUNS = {
    "float32": ("float32", 1),
    "float32, other random numbers": ("float32", 2),
    "bfloat16": ("mixed_bfloat16", 1),
}


def main():
    arguments = parse_arguments()
    try:
        data = text.translation_data(arguments.data, "en", "de")
    except ValueError as error:
        sys.exit(f"half_precision.py: {error}")
    tokenizer = text.SubwordTokenizer.train(
        [*data.train.sources, *data.train.targets], arguments.vocabulary_size
    )
    batches = text.TokenBatches(
        data.train, tokenizer, tokens_per_batch=arguments.tokens, max_length=100
    )
    print(f"{data.name}\n{batches.summary()}")
    curves = {name: curve(name, batches, tokenizer, arguments) for name in RUNS}
    show(curves, arguments)


def curve(name, batches, tokenizer, arguments):
    """Returns the mean loss of every window of steps, in nats a token."""
    dtype, seed = RUNS[name]
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    model = build(tokenizer, dtype, seed, arguments)
    stream = (batches[number % len(batches)] for number in itertools.count())
    history = model.fit(
        stream,
        steps_per_epoch=arguments.window,
        epochs=arguments.steps // arguments.window,
        shuffle=False,
        verbose=0,
        callbacks=[training.ProgressLine(batches.num_tokens / len(batches) * arguments.window)],
    )
    return history.history["loss"]


def build(tokenizer, dtype, seed, arguments):
    """Returns the compiled model of that size and dtype policy."""
    size = SIZES[arguments.size]
    model = models.Transformer(
        tokenizer.vocabulary_size,
        num_layers=size.num_layers,
        model_dim=size.model_dim,
        num_heads=size.num_heads,
        intermediate_dim=size.intermediate_dim,
        dropout=0.1,
        normalize_first=True,
        seed=seed,
        dtype=dtype,
    )
    schedule = training.NoamSchedule.with_peak(
        arguments.peak_rate, size.model_dim, arguments.steps // 2
    )
    model.compile(
        training.Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9),
        training.SequenceCrossentropy(label_smoothing=0.1),
        jit_compile=False if keras.config.backend() == "tensorflow" else "auto",
    )
    return model


def distance(curve, other):
    """Returns the root of the mean squared difference of two curves."""
    return float(np.sqrt(np.mean((np.array(curve) - np.array(other)) ** 2)))


def show(curves, arguments):
    ends = [arguments.window * (number + 1) for number in range(len(curves["float32"]))]
    rows = [[name, *(f"{loss:.3f}" for loss in of)] for name, of in curves.items()]
    print("\nLoss, nats a token, mean of the steps up to\n")
    print(report.table(["", *map(str, ends)], rows))
    single, other, half = curves.values()
    noise, off = distance(single, other), distance(single, half)
    print(f"\nfloat32 from float32: {noise:.4f}; bfloat16 from float32: {off:.4f}")
    report.append_lines(
        arguments.output,
        [
            {"benchmark": "half_precision", "size": arguments.size, "run": name, "losses": of}
            for name, of in curves.items()
        ],
    )
    report.line_chart(
        arguments.plot,
        f"Training at size {arguments.size}",
        ("steps", "loss, nats a token"),
        {name: dict(zip(ends, of, strict=True)) for name, of in curves.items()},
        doubling=False,
    )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--data", help="folder with train, val and test files")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--window", type=int, default=25, help="steps of a point of the curve")
    parser.add_argument("--tokens", type=int, default=512, help="of a batch, padding counted")
    parser.add_argument("--vocabulary-size", type=int, default=8000)
    parser.add_argument("--peak-rate", type=float, default=1e-3)
    parser.add_argument("--output", help="file of JSON lines to add to")
    parser.add_argument("--plot", help="picture to draw, .svg or .png")
    arguments = parser.parse_args()
    if not 0 < arguments.window <= arguments.steps:
        parser.error("--window must be from 1 to --steps")
    return arguments


if __name__ == "__main__":
    main()
