"""What each position scheme makes of texts longer than those it was trained on.

    python benchmarks/extrapolation.py --plot docs/images/extrapolation.svg

A small causal language model reads bytes of the Python language reference that every installation
carries (`pydoc_data.topics`), in windows of 128. Then the loss of topics that it has not seen is
taken at 128 to 1,024 bytes at once: a mean over all bytes, so that a scheme that extrapolates gains
from the longer context and one that does not loses. A rotary model is also read with its positions
stretched, without training. A learned table has no vector for a later position, and ends.

About ten minutes on two CPU cores with the default options.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from pydoc_data.topics import topics

import keras
import numpy as np
import report

from keras_transformer import layers, models, training

TRAINED_LENGTH = 128
LENGTHS = (128, 256, 512, 1024)
FIRST_BYTE = 4  # ids 0 to 3 are padding, unknown, start and end


def main():
    arguments = parse_arguments()
    train, held_out = read_bytes()
    print(f"{len(train):,} bytes to train on, {len(held_out):,} held out")
    losses = {}
    for name, make_position in trained_schemes().items():
        model = build(make_position(), arguments)
        fit(model, windows(train, arguments), arguments)
        for variant, reads in read_as(name, model).items():
            losses[variant] = {
                length: loss(reads(length), held_out, length, arguments.bytes)
                for length in LENGTHS
                if name != "learned" or length <= TRAINED_LENGTH
            }
            print(line(variant, losses[variant]), flush=True)
    show(arguments, losses)


def read_bytes():
    """Returns the ids of training and of held-out topics, each as one array."""
    names = sorted(topics)
    held_out = names[::10]
    return tuple(
        np.frombuffer("\n\n".join(topics[name] for name in chosen).encode(), np.uint8).astype(
            np.int32
        )
        + FIRST_BYTE
        for chosen in ([name for name in names if name not in held_out], held_out)
    )


def trained_schemes():
    """Returns {name: function that makes the `position` of a model}."""
    return {
        "sinusoidal": lambda: "sinusoidal",
        "learned": lambda: layers.LearnedPositionEncoding(TRAINED_LENGTH),
        "rotary": layers.RotaryPosition,
        "ALiBi": layers.AlibiBias,
        "T5 relative": layers.RelativePositionBias,
        "none": lambda: None,
    }


def read_as(name, model):
    """Returns {variant: function from a length to the model that reads it}."""
    variants = {name: lambda length: model}
    if name == "rotary":
        for scaling in ("linear", "ntk", "yarn"):
            variants[f"rotary, {scaling}"] = lambda length, scaling=scaling: stretched(
                model, scaling, length / TRAINED_LENGTH
            )
    return variants


def stretched(model, scaling, factor):
    """Returns the model with its rotary positions stretched; its weights are the same."""
    if factor == 1:
        return model
    original = {"original_length": TRAINED_LENGTH} if scaling == "yarn" else {}
    position = layers.RotaryPosition(scaling=scaling, factor=factor, **original)
    config = model.get_config()
    config["position"] = keras.saving.serialize_keras_object(position)
    other = models.CausalLanguageModel.from_config(config)
    other.set_weights(model.get_weights())
    compile_model(other, peak_rate=1e-3)
    return other


def build(position, arguments):
    model = models.CausalLanguageModel(
        FIRST_BYTE + 256,
        num_layers=arguments.layers,
        model_dim=arguments.width,
        num_heads=4,
        intermediate_dim=4 * arguments.width,
        dropout=0.0,
        position=position,
        seed=1,
    )
    compile_model(model, arguments.peak_rate)
    return model


def compile_model(model, peak_rate):
    schedule = training.NoamSchedule.with_peak(peak_rate, model.model_dim, warmup_steps=200)
    model.compile(
        training.Adam(schedule, beta_2=0.98, epsilon=1e-9),
        training.SequenceCrossentropy(label_smoothing=0.0),
        jit_compile=keras.config.backend() == "jax",
    )


def windows(ids, arguments):
    """Returns windows of the text from random places, one byte longer than what is read of them."""
    starts = np.random.default_rng(1).integers(
        0, len(ids) - TRAINED_LENGTH - 1, arguments.steps * arguments.rows
    )
    return ids[starts[:, None] + np.arange(TRAINED_LENGTH + 1)]


def fit(model, rows, arguments):
    progress = training.ProgressLine(rows[:, 1:].size)
    model.fit(
        rows[:, :-1],
        rows[:, 1:],
        batch_size=arguments.rows,
        shuffle=False,
        verbose=0,
        callbacks=[progress],
    )


def loss(model, ids, length, count):
    """Returns nats a byte over the first `count` bytes, read `length` at a time."""
    rows = ids[: count // length * length + 1]
    inputs, labels = rows[:-1].reshape(-1, length), rows[1:].reshape(-1, length)
    batch_size = max(1, 4096 // length)
    return float(model.evaluate(inputs, labels, batch_size=batch_size, verbose=0))


def line(name, losses):
    return f"{name:16}" + "".join(f"  {length}: {value:.3f}" for length, value in losses.items())


def show(arguments, losses):
    rows = [
        [name, *(f"{of[length]:.3f}" if length in of else "error" for length in LENGTHS)]
        for name, of in losses.items()
    ]
    print("\nNats a byte of held-out text\n")
    print(report.table(["positions", *map(str, LENGTHS)], rows))
    report.append_lines(
        arguments.output,
        [
            {
                "benchmark": "extrapolation",
                "positions": name,
                "losses": of,
                "steps": arguments.steps,
            }
            for name, of in losses.items()
        ],
    )
    report.line_chart(
        arguments.plot,
        f"Loss of models trained at length {TRAINED_LENGTH}",
        ("bytes read at once", "nats a byte, held-out text"),
        losses,
    )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=32, help="windows in a batch")
    parser.add_argument("--peak-rate", type=float, default=2e-3)
    parser.add_argument("--bytes", type=int, default=32_768, help="held-out bytes that are read")
    parser.add_argument("--output", help="file of JSON lines to add to")
    parser.add_argument("--plot", help="picture to draw, .svg or .png")
    return parser.parse_args()


if __name__ == "__main__":
    main()
