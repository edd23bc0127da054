"""Draws the attention between the pieces of a sentence and of its translation.

    python examples/picture_of_attention.py runs/translate/translator attention.png --block 2

made the README's picture, from a translator that `examples/translate.py` trained.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from keras_transformer import Translator
from keras_transformer.visualization import plot_attention


def main():
    arguments = parse_arguments()
    translator = Translator.load(arguments.translator)
    (translation,) = translator.translate([arguments.sentence])
    plot_attention(
        translator,
        arguments.sentence,
        translation,
        arguments.block,
        arguments.head,
        arguments.picture,
    )
    print(f"{arguments.sentence}\n{translation}\n{arguments.picture}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("translator", help="folder that Translator.save wrote")
    parser.add_argument("picture", help="file to write: .png, .svg or .pdf")
    parser.add_argument(
        "--block", type=int, default=-1, help="decoder block, from 0; -1 is the last"
    )
    parser.add_argument("--head", type=head, default="mean", help='number, "mean" or "all"')
    parser.add_argument(
        "--sentence", default="A man in a blue shirt is playing the guitar on a street."
    )
    return parser.parse_args()


def head(text):
    return int(text) if text.isdecimal() else text


if __name__ == "__main__":
    main()
