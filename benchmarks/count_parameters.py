"""Counts the parameters of every row of the paper's Table 3, ours beside the paper's.

    python benchmarks/count_parameters.py

prints the table in docs/presets.md. Models are built without values, so that the largest takes no
more memory than its names and shapes.
"""

import keras

from keras_transformer.models import TRANSFORMER_PRESETS, Transformer

VOCABULARY_SIZE = 37000  # the paper's shared pieces, English-German (section 5.1)


def main():
    print("| preset | differs from base in | paper, millions | ours, millions | ours |")
    print("|---|---|---:|---:|---:|")
    base = TRANSFORMER_PRESETS["base"].arguments
    for name, preset in TRANSFORMER_PRESETS.items():
        count = count_parameters(name)
        paper = "" if preset.parameters is None else preset.parameters
        print(f"| `{name}` | {changes(preset, base)} | {paper} | {count / 1e6:.1f} | {count:,} |")


def count_parameters(name):
    """Returns how many numbers the preset's model is trained in."""
    with keras.StatelessScope(initialize_variables=False):
        model = Transformer.from_preset(name, vocabulary_size=VOCABULARY_SIZE)
    return model.count_params()


def changes(preset, base):
    """Returns in words what a preset does otherwise than the base model."""
    words = [
        f"{argument} {value if not isinstance(value, dict) else 'learned'}"
        for argument, value in preset.arguments.items()
        if base.get(argument) != value
    ]
    if preset.label_smoothing != 0.1:
        words.append(f"label smoothing {preset.label_smoothing}")
    return ", ".join(words).replace("_", " ")


if __name__ == "__main__":
    main()
