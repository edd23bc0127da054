"""No language: the hidden structure of protein-like strings, by the same encoder.

    python examples/sequences.py

A string of residues is written by a hidden Markov model with three states: helix, strand and coil.
Each stays for a while, and prefers residues that real helices, strands and turns are rich in
(Chou and Fasman 1978). The encoder sees the residues and tells the state at each: a token is a
residue, and nothing else changes. Because the rule is known, so is the best that anyone can do: the
posterior of each state given the whole string, by the forward-backward algorithm with the true
probabilities.

Expected, in some 3 processor minutes on TensorFlow: 0.5862 of the states told right from each
residue by itself, 0.7211 by the encoder, 0.7236 the best possible.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

from keras_transformer.layers import RotaryPosition
from keras_transformer.models import TransformerEncoder
from keras_transformer.training import Adam

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
STATES = ("helix", "strand", "coil")
PREFERRED = ("AELMQKRH", "VIYCWFT", "GNPSD")  # by helix, by strand, by coil
PREFERENCE = 3.0  # how much likelier a preferred residue is than another
# From each state to each; a helix stays 10 residues on average, a strand 5, a coil 6.
TRANSITIONS = np.array([[0.90, 0.02, 0.08], [0.04, 0.80, 0.16], [0.08, 0.09, 0.83]])
FIRST = np.array([0.0, 0.0, 1.0])  # every string begins in a coil
PAD_ID = 0  # residues are 1 to 20


def main():
    arguments = parse_arguments()
    keras.utils.set_random_seed(arguments.seed)
    random = np.random.default_rng(arguments.seed)
    test_residues, test_states = write_strings(random, arguments.tested, arguments.length)
    show(test_residues[0], test_states[0])
    model = build_model(arguments)
    print(f"{model.count_params():,} parameters")
    train(model, random, arguments)

    real = test_residues != PAD_ID
    by_residue = EMISSIONS[:, test_residues - 1].argmax(axis=0)
    by_model = model.predict({"tokens": test_residues}, verbose=0).argmax(axis=-1)
    for name, guess in (
        ("each residue by itself", by_residue),
        ("the encoder", by_model),
        ("the best possible", best_guess(test_residues)),
    ):
        print(f"states told right, {name}: {(guess == test_states)[real].mean():.4f}")


def emissions():
    """Returns (3, 20): the probability of each residue in each state."""
    weights = [
        [PREFERENCE if residue in preferred else 1.0 for residue in RESIDUES]
        for preferred in PREFERRED
    ]
    return np.array(weights) / np.sum(weights, axis=1, keepdims=True)


EMISSIONS = emissions()


def write_strings(random, count, length):
    """Returns residues, padded with 0, and states, both int32 (count, length).

    A string has from half of `length` to all of it.
    """
    states = np.zeros((count, length), "int32")
    states[:, 0] = random.choice(3, count, p=FIRST)
    for place in range(1, length):
        states[:, place] = draw(random, TRANSITIONS[states[:, place - 1]])
    residues = draw(random, EMISSIONS[states]) + 1
    lengths = random.integers(-(-length // 2), length + 1, size=(count, 1))
    return np.where(np.arange(length) < lengths, residues, PAD_ID).astype("int32"), states


def draw(random, probabilities):
    """Returns a place drawn from each distribution on the last axis."""
    uniform = random.random((*probabilities.shape[:-1], 1))
    last = probabilities.shape[-1] - 1
    return (uniform > probabilities.cumsum(axis=-1)).sum(axis=-1).clip(max=last)


def best_guess(residues):
    """Returns the likeliest state at each residue, given the whole string and the true rule.

        forward_t = (forward_{t-1} A) * B(residue_t)
        backward_t = A (B(residue_{t+1}) * backward_{t+1})

    Padding says nothing about the states: its B is 1.
    """
    seen = np.where((residues == PAD_ID)[..., None], 1.0, EMISSIONS.T[residues - 1])  # (n, T, 3)
    forward, backward = np.zeros_like(seen), np.ones_like(seen)
    forward[:, 0] = FIRST * seen[:, 0]
    for place in range(1, residues.shape[1]):
        forward[:, place] = forward[:, place - 1] @ TRANSITIONS * seen[:, place]
        forward[:, place] /= forward[:, place].sum(axis=-1, keepdims=True)
    for place in reversed(range(residues.shape[1] - 1)):
        backward[:, place] = (seen[:, place + 1] * backward[:, place + 1]) @ TRANSITIONS.T
        backward[:, place] /= backward[:, place].sum(axis=-1, keepdims=True)
    return (forward * backward).argmax(axis=-1)


def build_model(arguments):
    """Returns the encoder under a layer that tells each residue's state."""
    encoder = TransformerEncoder(
        len(RESIDUES) + 1,
        num_layers=arguments.layers,
        model_dim=arguments.width,
        num_heads=4,
        intermediate_dim=2 * arguments.width,
        dropout=0.0,
        position=RotaryPosition(),
        normalize_first=True,
        pad_id=PAD_ID,
        seed=arguments.seed,
    )
    return keras.Model(encoder.input, keras.layers.Dense(len(STATES))(encoder.output))


def train(model, random, arguments):
    """Trains on strings of which none comes twice."""
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, arguments.steps, warmup_target=3e-3, warmup_steps=max(1, arguments.steps // 20)
    )
    model.compile(
        Adam(schedule, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
        # XLA would compile longer than this model trains; JAX knows no other way.
        jit_compile=False if keras.config.backend() == "tensorflow" else "auto",
    )
    done = 0
    while done < arguments.steps:
        steps = min(100, arguments.steps - done)
        residues, states = write_strings(random, steps * arguments.batch_size, arguments.length)
        history = model.fit(
            {"tokens": residues},
            states,
            arguments.batch_size,
            sample_weight=(residues != PAD_ID).astype("float32"),
            verbose=0,
        ).history
        done += steps
        print(f"step {done}/{arguments.steps}: accuracy {history['accuracy'][-1]:.4f}", flush=True)


def show(residues, states):
    """Prints a string and, below it, the first letter of each state."""
    count = min(72, (residues != PAD_ID).sum())
    print("".join(RESIDUES[residue - 1] for residue in residues[:count]))
    print("".join(STATES[state][0] for state in states[:count]))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=positive, default=1200, help="batches of training")
    parser.add_argument("--batch-size", type=positive, default=32, help="strings")
    parser.add_argument("--length", type=positive, default=128, help="residues of the longest")
    parser.add_argument("--tested", type=positive, default=1000, help="strings to score")
    parser.add_argument("--layers", type=positive, default=3)
    parser.add_argument("--width", type=positive, default=64, help="of the model; 4 heads share it")
    parser.add_argument("--seed", type=positive, default=1)
    arguments = parser.parse_args()
    if arguments.width % 8:
        parser.error(f"--width must be a multiple of 8, two a head; got {arguments.width}")
    return arguments


def positive(text):
    """Reads an argument that must be an integer above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be an integer above 0; got {text!r}")
    return int(text)


if __name__ == "__main__":
    main()
