"""The Transformer beside what it took the place of, trained for the same time on the same text.

    python benchmarks/before_transformers.py --minutes 5 --data FOLDER

An LSTM encoder-decoder with Bahdanau's attention, a convolutional one and ours, of about as many
parameters, get the same batches, loss, schedule and wall clock, and translate the test set by the
same greedy search. FOLDER as for examples/translate.py; without it Multi30k, or where there is no
network the captions of the embedded grammar. The second table is the argument of the paper's
section 4: between two words n apart lie n steps of a recurrence, n / width of a convolution's
layers, and one of attention; so quality should fall with the length of a sentence where paths are
long. KERAS_BACKEND chooses the backend; on TensorFlow none of the three is compiled by XLA.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The package of this checkout is measured, installed or not.
sys.path.insert(0, str(Path(__file__).parent.parent))

import keras
import numpy as np
import report
from contenders.convolutional import ConvolutionalTranslator
from contenders.recurrent import RecurrentTranslator
from deadline import Deadline

from keras_transformer import Translator, evaluation, text
from keras_transformer.decoding import GreedySearch
from keras_transformer.training import Adam, NoamSchedule, SequenceCrossentropy
from keras_transformer.translation_recipe import TranslationRecipe, build_model
from keras_transformer.visualization.figure import HUES, INK, PALE, finish, new_figure

WIDTH = 128  # of all models' embeddings


def transformer(tokenizer):
    """Returns the model of `examples/translate.py`."""
    return build_model(TranslationRecipe(vocabulary_size=tokenizer.vocabulary_size))


# What each is made by, and the rate at its schedule's peak: that of `TranslationRecipe`; `--peak`
# tries another.
CONTENDERS = {
    "transformer": (transformer, 4e-3),
    "convolutional": (ConvolutionalTranslator, 4e-3),
    "recurrent": (RecurrentTranslator, 4e-3),
}


class Result(NamedTuple):
    """What a contender came to.

    Attributes:
        parameters: int. epochs: float. tokens_per_second: float, real target tokens in training.
        sentences_per_second: float, in translating. translations: list of str.
    """

    parameters: int
    epochs: float
    tokens_per_second: float
    sentences_per_second: float
    translations: list


def main():
    arguments = parse_arguments()
    data = text.translation_data(arguments.data, "en", "de")
    tokenizer = text.SubwordTokenizer.train(
        [*data.train.sources, *data.train.targets], arguments.vocabulary_size
    )
    batches = text.TokenBatches(data.train, tokenizer, tokens_per_batch=2560, max_length=100)
    print(f"{data.name}\n{batches.summary()}")
    results = {}
    for name in arguments.names:
        results[name] = train_and_translate(name, tokenizer, batches, data.test, arguments)
    sources, references = data.test.sources, data.test.targets
    buckets = buckets_of(sources, arguments.buckets)
    scores = {
        name: [bleu(result.translations, references, numbers) for numbers in buckets.values()]
        for name, result in results.items()
    }
    print("\n" + table_of_contenders(results, references))
    print("\n" + table_of_lengths(scores, buckets))
    if arguments.plot:
        plot(scores, buckets, arguments.plot)


def train_and_translate(name, tokenizer, batches, test, arguments):
    """Returns the `Result` of one contender."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    make, peak = CONTENDERS[name]
    model = make(tokenizer)
    schedule = NoamSchedule.with_peak(arguments.peak or peak, WIDTH, arguments.warmup)
    model.compile(
        Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9, global_clipnorm=1.0),
        SequenceCrossentropy(label_smoothing=0.1),
        jit_compile=False if keras.config.backend() == "tensorflow" else "auto",
    )
    batches.epoch = 0
    deadline = Deadline(name, 60 * arguments.minutes)
    model.fit(batches, epochs=10_000, shuffle=False, verbose=0, callbacks=[deadline])
    translator = Translator(model, tokenizer, GreedySearch())
    translator.translate(test.sources)  # compiles
    started = time.perf_counter()
    translations = translator.translate(test.sources)
    seconds = time.perf_counter() - started
    epochs = deadline.steps / len(batches)
    speed = epochs * batches.num_tokens / deadline.spent
    return Result(model.count_params(), epochs, speed, len(translations) / seconds, translations)


def buckets_of(sources, count):
    """Returns {label: numbers of sentences}: equal shares by length, the longest 5 % apart."""
    words = np.array([len(source.split()) for source in sources])
    shares = [*np.linspace(0, 1, count + 1)[:-1], 0.95]
    lowest = sorted(set(np.quantile(words, shares, method="nearest").tolist()))
    bounds = zip(lowest, [*(each - 1 for each in lowest[1:]), int(words.max())], strict=True)
    return {
        f"{first}-{last}": np.flatnonzero((words >= first) & (words <= last))
        for first, last in bounds
    }


def bleu(translations, references, numbers):
    """Returns the BLEU of the sentences of these numbers."""
    chosen = [[sentences[number] for number in numbers] for sentences in (translations, references)]
    return evaluation.bleu(*chosen).value


def table_of_contenders(results, references):
    headers = ["", "parameters", "epochs", "tokens/s", "sentences/s", "BLEU"]
    rows = [
        [
            name,
            f"{result.parameters:,}",
            f"{result.epochs:.1f}",
            report.number(result.tokens_per_second),
            report.number(result.sentences_per_second),
            f"{evaluation.bleu(result.translations, references).value:.2f}",
        ]
        for name, result in results.items()
    ]
    return report.table(headers, rows)


def table_of_lengths(scores, buckets):
    headers = ["BLEU, source words", *buckets]
    rows = [["sentences", *(len(numbers) for numbers in buckets.values())]]
    rows += [[name, *(f"{score:.1f}" for score in row)] for name, row in scores.items()]
    return report.table(headers, rows)


def plot(scores, buckets, path):
    """Draws BLEU against length, a line a contender."""
    figure = new_figure(6.4, 3.6)
    axes = figure.subplots()
    for (name, row), hue in zip(scores.items(), HUES, strict=False):
        axes.plot(list(buckets), row, color=hue, marker="o", markersize=4, label=name)
    axes.set_title("BLEU by length of the source", color=INK, fontsize=10, loc="left")
    axes.set_xlabel("words", color=PALE, fontsize=9)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=9, colors=PALE)
    axes.grid(axis="y", color="#e8e9ef")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    finish(figure, path)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ", ".join(CONTENDERS)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(CONTENDERS), help=names)
    parser.add_argument("--data", help="folder with train, val and test files")
    parser.add_argument("--minutes", type=float, default=5.0, help="of training, each")
    parser.add_argument("--vocabulary-size", type=int, default=8000)
    parser.add_argument("--peak", type=float, help="learning rate, in place of each one's own")
    parser.add_argument("--warmup", type=int, default=200, help="steps until the peak")
    parser.add_argument("--buckets", type=int, default=4, help="groups of sentences by length")
    parser.add_argument("--plot", help="picture to write: .png, .svg or .pdf")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in CONTENDERS]
    if unknown:
        parser.error(f"NAME must be one of {names}; got {', '.join(unknown)}")
    for name in ("minutes", "warmup", "buckets", "vocabulary_size"):
        if getattr(arguments, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be above 0")
    return arguments


if __name__ == "__main__":
    main()
