"""`python -m keras_transformer.serving TRANSLATOR SAVEDMODEL`: exports a saved translator.

How a translator on JAX or PyTorch is exported: in a process of its own, whose Keras runs on
TensorFlow (`KERAS_BACKEND=tensorflow`).
"""

import argparse

from keras_transformer.translator import Translator


def main():
    parser = argparse.ArgumentParser(prog="python -m keras_transformer.serving")
    parser.add_argument("translator", help="folder that Translator.save wrote")
    parser.add_argument("saved_model", help="folder to be written")
    parser.add_argument("--jit-compile", action="store_true", help="let XLA compile the search")
    arguments = parser.parse_args()
    translator = Translator.load(arguments.translator)
    translator.export(arguments.saved_model, jit_compile=arguments.jit_compile)


if __name__ == "__main__":
    main()
