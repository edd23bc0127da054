"""English to German, from sentence pairs to a served translator, on two CPU cores.

    python examples/translate.py --data FOLDER

FOLDER holds `train.en`, `train.de`, `val.en`, ... (plain or .gz). Without `--data` Multi30k is
taken from the user's cache or downloaded: 36 BLEU in 10 minutes. Where there is no network the
example writes captions with a small grammar, which is learned in a few minutes.
"""

import argparse
import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from keras_transformer import evaluation, text
from keras_transformer.translation_recipe import TranslationRecipe, train_translator

RECIPE = TranslationRecipe(epochs=8, averaged=3)
# The grammar has few words and no exceptions: a smaller model learns it, with nothing dropped.
CAPTIONS_RECIPE = TranslationRecipe(
    vocabulary_size=1000,
    num_layers=2,
    dropout=0.0,
    tokens_per_batch=1280,
    warmup_steps=300,
    epochs=3,
    averaged=1,
)

RELOAD = """
import sys
import tensorflow as tf
import tensorflow_text
served = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
for line in served(text=tf.constant(sys.argv[2:]))["translation"].numpy():
    print(line.decode())
"""


def main():
    parser = make_parser()
    try:
        run(parser.parse_args())
    except ValueError as error:  # of the data, or of the folder
        parser.error(str(error))


def run(arguments):
    started = time.perf_counter()
    data = text.translation_data(arguments.data, "en", "de")
    print(f"data: {data.name}, {len(data.train):,} training pairs")
    recipe = CAPTIONS_RECIPE if data.name == text.CAPTIONS_NAME else RECIPE
    asked = {"epochs": arguments.epochs, "averaged": arguments.averaged}
    changes = {name: value for name, value in asked.items() if value is not None}
    recipe = dataclasses.replace(recipe, **changes)
    translator = train_translator(data, arguments.output, recipe, resume=arguments.resume)

    sources, references = data.test.sources, data.test.targets
    translations = translator.translate(sources)
    print(f"test BLEU: {evaluation.bleu(translations, references)}")
    print(f"test chrF: {evaluation.chrf(translations, references)}")
    print(f"minutes: {(time.perf_counter() - started) / 60:.1f}")
    for source, translation in list(zip(sources, translations, strict=True))[:5]:
        print(f"  {source}\n    {translation}")

    served = Path(arguments.output) / "served"
    translator.export(served, overwrite=True)
    reloaded = reload_in_fresh_process(served, sources[:5])
    assert reloaded == translations[:5], (reloaded, translations[:5])
    print(f"{served}: a fresh process with TensorFlow alone gives the same translations")


def reload_in_fresh_process(served, sentences):
    """Translates in a process that knows neither Keras nor this package."""
    command = [sys.executable, "-c", RELOAD, str(served), *sentences]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return result.stdout.splitlines()


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with train, val and test files")
    parser.add_argument("--output", default="runs/translate", help="new folder for the run")
    parser.add_argument("--epochs", type=int, help="8, or 3 of the grammar's captions")
    parser.add_argument("--averaged", type=int, help="last epochs averaged: 3, or 1")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --output")
    return parser


if __name__ == "__main__":
    main()
