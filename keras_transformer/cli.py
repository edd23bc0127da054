"""The command line: `keras-transformer train | translate | score | export`."""

import argparse
import dataclasses
import gzip
import os
import sys
import zlib
from pathlib import Path

from keras_transformer import evaluation
from keras_transformer.models import TRANSFORMER_PRESETS
from keras_transformer.text import ParallelCorpus, TranslationData, translation_data
from keras_transformer.translation_recipe import (
    SETTINGS_FILE,
    TRANSLATOR,
    TranslationRecipe,
    load_recipe,
    train_translator,
)
from keras_transformer.translator import BATCH_SIZE, CONFIG_FILE, Translator

RECIPE_HELP = {
    "vocabulary_size": "pieces, shared by both languages",
    "num_layers": "blocks of the encoder, and of the decoder",
    "model_dim": "width of the model",
    "num_heads": "attention heads",
    "intermediate_dim": "inner width of the feed-forward networks",
    "dropout": "share of activations dropped in training",
    "normalize_first": "pre-norm; post-norm is the paper's",
    "label_smoothing": "share of the target spread over the vocabulary",
    "peak_rate": "learning rate at its peak",
    "warmup_steps": "steps up to the peak",
    "tokens_per_batch": "budget of a batch, padding counted",
    "max_length": "pieces; longer pairs are left out, and counted",
    "epochs": "passes over the pairs",
    "averaged": "last epochs whose weights are averaged",
    "score_every": "epochs between two BLEU scores",
    "beam_width": "hypotheses of the translator's beam search",
    "length_penalty": "exponent of its length penalty",
    "seed": "of weights, dropout and the order of batches",
}
# Options beside a recipe's whose names in Python are in errors too; "directory" is --data.
_OTHER_OPTIONS = ("output", "held_out", "batch_size", "source_language", "target_language")
_HELD_OUT = 500
_CHUNK = 4096  # lines translated at a time, so that output begins before a long input ends


def main(arguments=None):
    """Runs the command line.

    Args:
        arguments: list of str; None takes the process's.

    Returns:
        int, the exit code: 0; 2 after one line on the error stream that says what is wrong; 130
        where it was interrupted.
    """
    arguments = parse(arguments)
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        arguments.run(arguments)
    except KeyboardInterrupt:
        begun = arguments.run is train and (Path(arguments.output) / SETTINGS_FILE).is_file()
        goes_on = "; `train --resume` goes on" if begun else ""
        print(f"keras-transformer: interrupted{goes_on}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader, such as `head`, has enough; nothing is left for the exit to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, ImportError, OSError, RuntimeError) as error:
        if arguments.traceback:
            raise
        print(f"keras-transformer: error: {by_options(str(error))}", file=sys.stderr)
        return 2
    return 0


def parse(arguments):
    """Returns the parsed arguments; the optional FILE may follow an option.

    Python's parser gives an optional argument nothing where it stands before the option.
    """
    parser = make_parser()
    parsed, rest = parser.parse_known_args(arguments)
    if rest and not rest[0].startswith("-") and getattr(parsed, "file", "") is None:
        parsed.file = rest.pop(0)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return parsed


def by_options(message):
    """Returns an error's message in one line, with options in the place of Python's names."""
    message = message.replace("`directory`", "--data")
    for name in (*RECIPE_HELP, *_OTHER_OPTIONS):
        message = message.replace(f"`{name}`", f"--{name.replace('_', '-')}")
    return " ".join(message.replace("overwrite=True", "--overwrite").split())


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message):
        self.exit(2, f"keras-transformer: error: {message}\n")


def make_parser():
    """Returns the parser of all commands; what a command does is its `run`."""
    parser = _Parser(prog="keras-transformer", description="Train and use translators.")
    parser.add_argument("--traceback", action="store_true", help="show where an error comes from")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (_add_train, _add_translate, _add_score, _add_export):
        add(commands)
    return parser


def _add_train(commands):
    parser = commands.add_parser("train", help="train a translator on sentence pairs")
    parser.set_defaults(run=train)
    parser.add_argument("--output", required=True, metavar="RUN", help="new folder for the run")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run in --output, by its own recipe"
    )
    data = parser.add_argument_group(
        "data", "A folder, two line-aligned files, or one file of tab-separated pairs."
    )
    data.add_argument("--data", metavar="FOLDER", help="train.en, train.de, val.en, ... or .gz")
    data.add_argument("--source-language", default="en", help="ending of its source files")
    data.add_argument("--target-language", default="de", help="ending of its target files")
    data.add_argument("--source", metavar="FILE")
    data.add_argument("--target", metavar="FILE")
    data.add_argument("--pairs", metavar="FILE")
    data.add_argument("--validation-source", metavar="FILE")
    data.add_argument("--validation-target", metavar="FILE")
    data.add_argument("--validation-pairs", metavar="FILE")
    data.add_argument(
        "--held-out",
        type=int,
        metavar="N",
        help=f"source sentences kept for validation where no file is given ({_HELD_OUT})",
    )
    recipe = parser.add_argument_group("recipe")
    presets = [name for name in TRANSFORMER_PRESETS if _is_expressible(name)]
    recipe.add_argument(
        "--preset", choices=presets, metavar="NAME", help=f"the paper's: {', '.join(presets)}"
    )
    for field in dataclasses.fields(TranslationRecipe):
        is_flag = isinstance(field.default, bool)
        recipe.add_argument(
            f"--{field.name.replace('_', '-')}",
            help=f"{RECIPE_HELP[field.name]} ({field.default})",
            **{"action": argparse.BooleanOptionalAction} if is_flag else {"type": field.type},
        )


def _add_translate(commands):
    parser = commands.add_parser("translate", help="translate a file line by line")
    parser.set_defaults(run=translate)
    _add_run(parser)
    parser.add_argument("file", nargs="?", help="one sentence a line; standard input if not given")
    _add_batch_size(parser)
    parser.add_argument("--scores", action="store_true", help="write the score and a tab before")


def _add_score(commands):
    parser = commands.add_parser("score", help="BLEU and chrF against reference translations")
    parser.set_defaults(run=score)
    parser.add_argument("hypotheses", help="translations; with --run the sources to translate")
    parser.add_argument("references", nargs="+", help="one or more reference translations")
    parser.add_argument("--run", metavar="RUN", dest="translator", help="translate with this first")
    _add_batch_size(parser)


def _add_export(commands):
    parser = commands.add_parser("export", help="write a SavedModel: text in, text out")
    parser.set_defaults(run=export)
    _add_run(parser)
    parser.add_argument("saved_model", help="new folder")
    parser.add_argument("--overwrite", action="store_true", help="replace a SavedModel there")
    parser.add_argument(
        "--jit-compile",
        action="store_true",
        help="let XLA compile the search: faster, after seconds for each new shape",
    )


def _add_run(parser):
    parser.add_argument("translator", metavar="RUN", help="folder of a run, or of a translator")


def _add_batch_size(parser):
    parser.add_argument(
        "--batch-size", type=int, default=BATCH_SIZE, help=f"sentences at once ({BATCH_SIZE})"
    )


def train(arguments):
    """Trains a translator: `translation_recipe.train_translator`."""
    recipe = read_recipe(arguments)
    train_translator(read_data(arguments), arguments.output, recipe, resume=arguments.resume)
    print(f"translator: {Path(arguments.output) / TRANSLATOR}")


def translate(arguments):
    """Writes the translation of each line, in order."""
    lines = read_lines(arguments.file)
    translator = load_translator(arguments.translator)
    for start in range(0, len(lines), _CHUNK):
        found = translator.translate_with_scores(
            lines[start : start + _CHUNK], arguments.batch_size
        )
        for text, score in zip(found.texts, found.scores, strict=True):
            text = " ".join(text.splitlines())
            print(f"{score:.4f}\t{text}" if arguments.scores else text)
        sys.stdout.flush()


def score(arguments):
    """Prints BLEU and chrF of translations, or of what a translator makes of sources."""
    lines = read_lines(arguments.hypotheses)
    references = [read_lines(file) for file in arguments.references]
    for file, reference in zip(arguments.references, references, strict=True):
        if len(reference) != len(lines):
            raise ValueError(
                f"{arguments.hypotheses} and {file} must have the same number of lines; got "
                f"{len(lines)} and {len(reference)}."
            )
    if arguments.translator:
        lines = load_translator(arguments.translator).translate(lines, arguments.batch_size)
    references = list(map(list, zip(*references, strict=True)))
    print(evaluation.bleu(lines, references))
    print(evaluation.chrf(lines, references))


def export(arguments):
    """Writes a SavedModel: `Translator.export`."""
    translator = load_translator(arguments.translator)
    translator.export(arguments.saved_model, arguments.overwrite, arguments.jit_compile)


def load_translator(path):
    """Returns the translator in a run's folder, or in its own."""
    path = Path(path)
    inside = path / TRANSLATOR
    if (path / SETTINGS_FILE).is_file() and not inside.exists():
        raise ValueError(f"the run in {path} is not finished: `train --resume` goes on with it.")
    return Translator.load(inside if (inside / CONFIG_FILE).is_file() else path)


def read_recipe(arguments):
    """Returns the preset's, the resumed run's or the default recipe, with the options given."""
    names = [field.name for field in dataclasses.fields(TranslationRecipe)]
    given = {name: getattr(arguments, name) for name in names}
    given = {name: value for name, value in given.items() if value is not None}
    recipe = TranslationRecipe()
    if arguments.preset:
        recipe = preset_recipe(arguments.preset)
    if arguments.resume and (Path(arguments.output) / SETTINGS_FILE).is_file():
        if arguments.preset:
            raise ValueError("--preset must not be given with --resume: the run has its recipe.")
        recipe, _ = load_recipe(arguments.output)
    return dataclasses.replace(recipe, **given)


def preset_recipe(name):
    """Returns the paper's recipe (sections 5 and 6.1) for a row of Table 3."""
    preset = TRANSFORMER_PRESETS[name]
    warmup_steps = 4000
    return TranslationRecipe(
        **preset.arguments,
        vocabulary_size=37000,
        normalize_first=False,
        label_smoothing=preset.label_smoothing,
        peak_rate=(preset.arguments["model_dim"] * warmup_steps) ** -0.5,
        warmup_steps=warmup_steps,
        tokens_per_batch=25000,
        beam_width=4,
    )


def _is_expressible(name):
    names = {field.name for field in dataclasses.fields(TranslationRecipe)}
    return names.issuperset(TRANSFORMER_PRESETS[name].arguments)


def read_data(arguments):
    """Returns the `TranslationData` that the options of `train` name."""
    train = _read_pairs(arguments, "")
    validation = _read_pairs(arguments, "validation_")
    if (arguments.data is None) == (train is None):
        raise ValueError("Give one of --data, --pairs, or --source with --target.")
    if (train is None or validation is not None) and arguments.held_out is not None:
        raise ValueError("--held-out must not be given where there is validation data.")
    languages = arguments.source_language, arguments.target_language
    if train is None:
        if validation is not None:
            raise ValueError("--validation-... must not be given with --data, which holds its own.")
        return translation_data(arguments.data, *languages)
    if validation is None:
        held_out = _HELD_OUT if arguments.held_out is None else arguments.held_out
        train, validation = train.split(held_out)
    name = arguments.pairs or arguments.source
    return TranslationData(name, *languages, train, validation, validation)


def _read_pairs(arguments, part):
    """Returns the `ParallelCorpus` of --pairs, or of --source and --target; None without them."""
    pairs, source, target = (
        getattr(arguments, part + name) for name in ("pairs", "source", "target")
    )
    option = "--" + part.replace("_", "-")
    if (source is None) != (target is None) or (pairs and source):
        raise ValueError(f"Give {option}source with {option}target, or {option}pairs alone.")
    if pairs:
        return ParallelCorpus.from_pairs(pairs)
    return ParallelCorpus.from_files(source, target) if source else None


def read_lines(path):
    """Returns the lines of a UTF-8 file, plain or .gz, or of standard input where `path` is None.

    A line ends at a line feed; a carriage return before it is dropped, as is a byte order mark.
    """
    if path is None:
        content = sys.stdin.buffer.read()
    else:
        content = _read_file(path)
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [_decoded(line, number, path) for number, line in enumerate(lines, start=1)]


def _read_file(path):
    if not Path(path).is_file():
        raise ValueError(f"there is no file {path}.")
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            return file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is no whole gzip file: {error}.") from error


def _decoded(line, number, path):
    try:
        return line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path or 'standard input'} must be UTF-8; line {number} is not: {error.reason}."
        ) from error


if __name__ == "__main__":
    sys.exit(main())
