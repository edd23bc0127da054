"""The rows of the paper's Table 3, by name."""

from typing import NamedTuple


class Preset(NamedTuple):
    """One row of Table 3.

    Attributes:
        arguments: of `Transformer`, beside the vocabulary's size.
        label_smoothing: of `SequenceCrossentropy`.
        train_steps: as in the paper.
        parameters: the paper's count, in millions, or None where it gives none.
    """

    arguments: dict
    label_smoothing: float = 0.1
    train_steps: int = 100_000
    parameters: int | None = None


BASE = {
    "num_layers": 6,
    "model_dim": 512,
    "num_heads": 8,
    "intermediate_dim": 2048,
    "dropout": 0.1,
}
BIG = {
    "num_layers": 6,
    "model_dim": 1024,
    "num_heads": 16,
    "intermediate_dim": 4096,
    "dropout": 0.3,
}
# Row E learns its positions; the paper does not say how many, its sentences stay far below this.
LEARNED_POSITIONS = {
    "class_name": "keras_transformer>LearnedPositionEncoding",
    "config": {"max_length": 1024},
}


def _row(parameters=None, label_smoothing=0.1, **changes):
    return Preset({**BASE, **changes}, label_smoothing, parameters=parameters)


# Rows (A) keep the cost: h heads of width 512 / h. Rows (B) narrow the keys and keep the values.
TRANSFORMER_PRESETS = {
    "base": _row(65),
    "big": Preset(BIG, train_steps=300_000, parameters=213),
    "a-1-head": _row(num_heads=1),
    "a-4-heads": _row(num_heads=4),
    "a-16-heads": _row(num_heads=16),
    "a-32-heads": _row(num_heads=32),
    "b-key-16": _row(58, key_dim=16, value_dim=64),
    "b-key-32": _row(60, key_dim=32, value_dim=64),
    "c-2-layers": _row(36, num_layers=2),
    "c-4-layers": _row(50, num_layers=4),
    "c-8-layers": _row(80, num_layers=8),
    "c-width-256": _row(28, model_dim=256, key_dim=32, value_dim=32),
    "c-width-1024": _row(168, model_dim=1024, key_dim=128, value_dim=128),
    "c-feed-forward-1024": _row(53, intermediate_dim=1024),
    "c-feed-forward-4096": _row(90, intermediate_dim=4096),
    "d-dropout-0.0": _row(dropout=0.0),
    "d-dropout-0.2": _row(dropout=0.2),
    "d-smoothing-0.0": _row(label_smoothing=0.0),
    "d-smoothing-0.2": _row(label_smoothing=0.2),
    "e-learned-positions": _row(position=LEARNED_POSITIONS),
}
