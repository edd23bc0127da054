"""What importing costs: seconds and memory of `import keras` and of `import keras_transformer`.

    python benchmarks/imports.py --rounds 5

Each import has a fresh process. The two follow each other, in random order, and the difference is
the median of the differences within such a pair. Files are in the page cache after the first round,
which does not count.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

import report
from contenders import keras_environment, positive
from progress import Progress

BACKENDS = ("tensorflow", "jax", "torch")
PACKAGES = ("keras", "keras_transformer")
_FOLDER = Path(__file__).parent
_MEASURE = """
import importlib, json, sys, time
from worker import peak_bytes
started = time.perf_counter()
importlib.import_module(sys.argv[1])
seconds = time.perf_counter() - started
loaded = [name for name in ("tensorflow", "jax", "torch", "tensorflow_text") if name in sys.modules]
print(json.dumps({"seconds": seconds, "bytes": peak_bytes(), "loaded": loaded}))
"""


def main():
    arguments = parse_arguments()
    found = measure(arguments.backends or BACKENDS, arguments.rounds)
    rows = [row(backend, package, found) for backend, package in found]
    headers = ["", "seconds", "above keras s", "peak MB", "above keras MB", "loads"]
    print(report.table(headers, rows))
    report.append_lines(
        arguments.output,
        [
            {"benchmark": "imports", "backend": backend, "package": package, "rounds": rounds}
            for (backend, package), rounds in found.items()
        ],
    )


def measure(backends, rounds):
    """Returns {(backend, package): what each round found}, the first round left out."""
    found = {(backend, package): [] for backend in backends for package in PACKAGES}
    shuffle = random.Random(0).shuffle
    progress = Progress("imports", rounds + 1)
    for number in range(rounds + 1):
        for backend in backends:
            pair = list(PACKAGES)
            shuffle(pair)
            for package in pair:
                found[backend, package].append(import_cost(backend, package))
            progress.turn_done(number, backend, len(backends))
    progress.close()
    return {key: values[1:] for key, values in found.items()}


def import_cost(backend, package):
    """Returns {"seconds", "bytes", "loaded"} of one import in a process of its own."""
    path = [str(_FOLDER), str(_FOLDER.parent), os.environ.get("PYTHONPATH", "")]
    process = subprocess.run(
        [sys.executable, "-c", _MEASURE, package],
        env={
            **os.environ,
            **keras_environment(backend),
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


def row(backend, package, found):
    """Returns the table's row of one import."""
    rounds, keras_rounds = found[backend, package], found[backend, "keras"]

    def median(key):
        return statistics.median(each[key] for each in rounds)

    def above(key):
        pairs = zip(rounds, keras_rounds, strict=True)
        return statistics.median(ours[key] - theirs[key] for ours, theirs in pairs)

    return [
        f"{package} on {backend}",
        f"{median('seconds'):.2f}",
        f"{above('seconds'):.2f}",
        f"{median('bytes') / 1e6:.0f}",
        f"{above('bytes') / 1e6:.0f}",
        ", ".join(rounds[-1]["loaded"]),
    ]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="*", choices=BACKENDS)
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--output", help="file of JSON lines to add to")
    return parser.parse_args()


if __name__ == "__main__":
    main()
