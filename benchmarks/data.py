"""How fast sentence pairs become batches, and in how much memory.

    python benchmarks/data.py --pairs 1000000 --data FOLDER

From two text files to an epoch of batches: read, train the tokenizer, tokenize and bucket
(`TokenBatches`), and go through the batches as `fit` does. FOLDER as for examples/translate.py; its
training pairs are repeated until there are enough. No step remembers sentences, but the tokenizer's
training counts words, and has fewer distinct ones to count than a real corpus of that size. Without
FOLDER: captions from the grammar.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The package of this checkout is measured, installed or not.
sys.path.insert(0, str(Path(__file__).parent.parent))

import report
from worker import forget_peak, peak_bytes

from keras_transformer.text import (
    CaptionGrammar,
    ParallelCorpus,
    SubwordTokenizer,
    TokenBatches,
    load_folder,
)

_DISTINCT_CAPTIONS = 20_000


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        files = write_pairs(folder, arguments.data, arguments.pairs)
        stages = run(files, arguments)
    rows = [
        [name, f"{seconds:.1f}", report.number(arguments.pairs / seconds), report.gigabytes(peak)]
        for name, seconds, peak in stages
    ]
    total = sum(seconds for _, seconds, _ in stages)
    greatest = max(peak for *_, peak in stages)
    rows.append(
        ["all", f"{total:.1f}", report.number(arguments.pairs / total), report.gigabytes(greatest)]
    )
    print(f"\n{arguments.pairs:,} pairs, {arguments.tokens:,} tokens a batch\n")
    print(report.table(["", "seconds", "pairs/s", "peak GB"], rows))
    report.append_lines(
        arguments.output,
        [
            {"benchmark": "data", "pairs": arguments.pairs, "stage": name, "seconds": seconds}
            | {"peak_bytes": peak}
            for name, seconds, peak in stages
        ],
    )


def run(files, arguments):
    """Returns (name, seconds, peak resident bytes) of each stage."""
    stages = []

    def stage(name, work):
        forget_peak()
        started = time.perf_counter()
        result = work()
        stages.append((name, time.perf_counter() - started, peak_bytes()))
        print(f"{name}: {stages[-1][1]:.1f} s", flush=True)
        return result

    corpus = stage("read the files", lambda: ParallelCorpus.from_files(*files))
    tokenizer = stage(
        "train the tokenizer",
        lambda: SubwordTokenizer.train(corpus.sources + corpus.targets, arguments.vocabulary_size),
    )
    batches = stage(
        "tokenize and bucket", lambda: TokenBatches(corpus, tokenizer, arguments.tokens)
    )

    def go_through():
        for index in range(len(batches)):
            batches[index]

    stage("an epoch of batches", go_through)
    print(batches.summary())
    return stages


def write_pairs(folder, data, count):
    """Writes `count` pairs to two files, not in memory at once; returns their paths."""
    if data:
        corpus = load_folder(data).train
        sources, targets = corpus.sources, corpus.targets
    else:
        sources, targets = CaptionGrammar().pairs(min(count, _DISTINCT_CAPTIONS))
    paths = []
    for name, sentences in (("pairs.source", sources), ("pairs.target", targets)):
        paths.append(Path(folder, name))
        with open(paths[-1], "w", encoding="utf-8") as file:
            for number in range(count):
                file.write(sentences[number % len(sentences)] + "\n")
    return paths


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--data", help="folder with the training files")
    parser.add_argument("--vocabulary-size", type=int, default=8000)
    parser.add_argument("--tokens", type=int, default=25_000, help="of a batch")
    parser.add_argument("--output", help="file of JSON lines to add to")
    return parser.parse_args()


if __name__ == "__main__":
    main()
