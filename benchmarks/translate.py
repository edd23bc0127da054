"""Text to text: sentences a second, and BLEU, of a saved translator.

    python benchmarks/translate.py --translator runs/translate/translator --data FOLDER

The first 1,000 sentences of Multi30k's test set (FOLDER as for examples/translate.py), all in one
call and one sentence a call, by `Translator.translate` on three backends, by the exported
SavedModel in a process without Keras, and by CTranslate2 and Hugging Face with the same weights
(`contenders/bart_weights.py`). On the CPU.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import report
from contenders import add_names, check_names, keras_environment, positive
from rounds import Contender, Contest, label, ratios

# The exported SavedModel, and what `serving` is told to write it.
_SAVED_MODELS = {"ours-saved-model": [], "ours-saved-model-xla": ["--jit-compile"]}
_PEERS = {"ctranslate2-float32": "ctranslate2", "huggingface": "hugging_face"}
CONTENDERS = ("ours-tensorflow", "ours-jax", "ours-torch", *_SAVED_MODELS, *_PEERS)
_ROOT = Path(__file__).parent.parent
_READ_TEST_SET = """
import json, sys
from keras_transformer.text import translation_data
data = translation_data(sys.argv[1] or None, sys.argv[2], sys.argv[3])
print(json.dumps([data.test.sources, data.test.targets]))
"""


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus.json")
        languages = (arguments.source_language, arguments.target_language)
        corpus.write_text(_python("-c", _READ_TEST_SET, arguments.data or "", *languages))
        contenders = make_contenders(arguments, Path(folder), corpus)
        sentences = min(arguments.sentences, len(json.loads(corpus.read_text())[0]))
        with Contest(contenders) as contest:
            for case in cases(sentences):
                results = contest.measure(case, arguments.rounds, arguments.seconds)
                if results:
                    show(case, results)
                    report.append_lines(arguments.output, records(results))
                    plot(arguments.plot, case, results)
    print(report.notes(results.values(), contest.failures))


def cases(sentences):
    """Returns the cases: all sentences in one call, and a tenth of them one by one."""
    return [
        {"at_once": sentences, "sentences": sentences},
        {"at_once": 1, "sentences": -(-sentences // 10)},
    ]


def make_contenders(arguments, folder, corpus):
    """Returns `Contender`s for the names asked for, with what they read written to a folder."""
    translator = Path(arguments.translator).resolve()
    search = json.loads((translator / "translator.json").read_text())["search"]["config"]
    contenders = []
    for name in arguments.contenders:
        module, source, options = "ours", translator, {}
        if name in _SAVED_MODELS:
            module, source = "saved_model", folder / name
            export = ["-m", "keras_transformer.serving", str(translator), str(source)]
            _python(*export, *_SAVED_MODELS[name])
        elif name in _PEERS:
            module, source = _PEERS[name], folder / "weights"
            options = {"beam": search.get("beam_width", 1)}
            if not source.exists():
                _python("-m", "contenders.bart_weights", str(translator), str(source))
        contenders.append(
            Contender(
                name,
                f"contenders.{module}:Translation",
                {"folder": str(source), "corpus": str(corpus), **options},
                keras_environment("tensorflow" if name in _SAVED_MODELS else name),
            )
        )
    return contenders


def show(case, results):
    """Prints the table of one case."""
    reference = "ours-tensorflow" if "ours-tensorflow" in results else next(iter(results))
    speeds = ratios(results, reference)
    print(f"\nTranslation, {label(case)}\n")
    rows = [
        [
            result.name,
            report.number(case["sentences"] / result.median_seconds),
            f"{speeds[result.name]:.2f}",
            report.number(result.median_seconds),
            report.gigabytes(result.peak_bytes),
            f"{result.first_call_seconds:.1f}",
            f"{result.facts['bleu']:.2f}",
        ]
        for result in sorted(results.values(), key=lambda result: result.median_seconds)
    ]
    headers = [
        "",
        "sentences/s",
        f"times {reference}",
        "seconds",
        "peak GB",
        "first call s",
        "BLEU",
    ]
    print(report.table(headers, rows))
    print(f"\nBLEU's signature: {next(iter(results.values())).facts['signature']}")


def records(results):
    """Returns what is kept of a case, one record a contender."""
    return [{"benchmark": "translate", **dataclasses.asdict(result)} for result in results.values()]


def plot(path, case, results):
    """Draws one case; the sentences in a call go into the picture's name: FILE-1.svg."""
    if path is None:
        return
    path = Path(path)
    report.rate_chart(
        path.with_stem(f"{path.stem}-{case['at_once']}"),
        f"Translation, {label(case)}",
        "sentences",
        case["sentences"],
        results,
    )


def _python(*command):
    """Returns what a Python process with this checkout's package prints, on TensorFlow."""
    here = [str(_ROOT), str(_ROOT / "benchmarks"), os.environ.get("PYTHONPATH")]
    path = os.pathsep.join(filter(None, here))
    process = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **keras_environment("tensorflow"), "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return process.stdout


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_names(parser, CONTENDERS)
    parser.add_argument("--translator", required=True, help="folder that Translator.save wrote")
    parser.add_argument("--data", help="folder with the test set; by default Multi30k")
    parser.add_argument("--source-language", default="en")
    parser.add_argument("--target-language", default="de")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=positive(int), default=3)
    parser.add_argument(
        "--seconds", type=positive(float), default=1.0, help="of a turn, one call at least"
    )
    parser.add_argument("--output", help="file of JSON lines to add to")
    parser.add_argument("--plot", help="pictures to draw, .svg or .png; one a case")
    arguments = parser.parse_args()
    check_names(parser, arguments.contenders, CONTENDERS)
    return arguments


if __name__ == "__main__":
    main()
