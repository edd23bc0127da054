"""The examples run from the command line, small, and print the figures that they promise."""

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.text import SubwordTokenizer, captions

FOLDER = Path(__file__).parent.parent / "examples"
SMALL_MODEL = ["--layers", "1", "--width", "8"]


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs an example with those arguments and returns what it printed."""
    if keras.config.backend() == "tensorflow":
        # XLA takes longer to compile these small models than they to train.
        monkeypatch.setattr(keras.src.trainers.trainer, "model_supports_jit", lambda model: False)

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
        load(name).main()
        return capsys.readouterr().out

    return run


def load(name):
    """Returns the module of an example, or of the benchmark, by its file."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def few_modules(monkeypatch, tmp_path):
    """Lets the examples find a standard library of a few docstrings."""
    for package in ("email", "http", "xml"):
        (tmp_path / package).mkdir()
        for number in range(34):
            text = f"Return the {package} of number {number}, or None if there is none."
            (tmp_path / package / f"part_{number}.py").write_text(f'"""{text}"""\n')
    (tmp_path / "broken.py").write_text("def :")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "part.py").write_text('"""A text that must not be read."""\n')
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"stdlib": str(tmp_path)})


@pytest.mark.any_backend
def test_translate_without_network(monkeypatch, tmp_path, capsys):
    example = load("translate")
    small = {"vocabulary_size": 211, "num_layers": 1, "model_dim": 8}
    monkeypatch.setattr(
        example, "CAPTIONS_RECIPE", dataclasses.replace(example.CAPTIONS_RECIPE, **small)
    )
    few = captions(train=101, validation=7, test=11)
    monkeypatch.setattr(example.text, "translation_data", lambda *arguments: few)
    output = ["--output", str(tmp_path / "run"), "--epochs", "2"]
    monkeypatch.setattr(sys, "argv", ["translate.py", *output])
    example.main()
    shown = capsys.readouterr().out
    assert "epoch 2/2" in shown and "test BLEU: BLEU = " in shown
    assert "a fresh process with TensorFlow alone gives the same translations" in shown


@pytest.mark.any_backend
def test_the_captions_have_the_pieces_of_their_recipe():
    pairs = captions().train
    size = load("translate").CAPTIONS_RECIPE.vocabulary_size
    tokenizer = SubwordTokenizer.train([*pairs.sources, *pairs.targets], size)
    assert tokenizer.vocabulary_size == size


@pytest.mark.any_backend
def test_language_model(run, monkeypatch, tmp_path):
    few_modules(monkeypatch, tmp_path)
    monkeypatch.setattr("pydoc_data.topics.topics", {"a topic": "The first of two.\n\nThe second."})
    shown = run(
        "language_model",
        *(
            "--vocabulary-size",
            "101",
            "--length",
            "13",
            "--epochs",
            "2",
            "--written",
            "5",
            *SMALL_MODEL,
        ),
    )
    perplexities = re.findall(r"perplexity of the (\w+): ([\d.]+)", shown)
    assert [name for name, _ in perplexities] == ["unigram", "bigram", "Transformer"]
    assert float(perplexities[1][1]) < float(perplexities[0][1])
    assert shown.count("\n  ") == 4  # a continuation of each prompt


@pytest.mark.any_backend
def test_the_models_that_count_are_probabilities():
    """Of a corpus of one text, "a b a c": worked out by hand."""
    found = load("language_model").baselines(
        np.array([0, 1, 0, 2]), np.array([0, 1]), vocabulary_size=3, discount=0.75
    )
    unigram = (1 + 1) / (4 + 3)
    assert found["unigram"] == pytest.approx(1 / unigram)
    # After 0 come 1 and 2, once each.
    assert found["bigram"] == pytest.approx(2 / (1 - 0.75 + 0.75 * 2 * unigram))


@pytest.mark.any_backend
def test_documentation_of_a_module_is_on_one_side_only(monkeypatch, tmp_path):
    few_modules(monkeypatch, tmp_path)
    example = load("language_model")
    documents = example.documentation()
    assert "A text that must not be read." not in [text for _, text in documents]
    train, test = example.split_by_module(documents)
    assert len(train) + len(test) == len(documents)
    modules = dict((text, module) for module, text in documents)
    assert not {modules[text] for text in train} & {modules[text] for text in test}


@pytest.mark.any_backend
def test_pretrain_and_finetune(run):
    shown = run(
        "pretrain_and_finetune",
        *("--captions", "101", "--vocabulary-size", "211", "--length", "11", "--epochs", "1"),
        *("--labels", "4", "6", "--repeats", "1", "--finetuning-steps", "2", *SMALL_MODEL),
    )
    rows = re.findall(r"^ +(\d)  +(\d\.\d{3})  +(\d\.\d{3})$", shown, re.M)
    assert [row[0] for row in rows] == ["4", "6"]


@pytest.mark.any_backend
def test_the_kinds_that_are_judged_have_nouns_that_no_label_has():
    told, untold = load("pretrain_and_finetune").captions_by_kind(
        [
            "A man sleeps.",  # the first of the people
            "Two women, in the park, sleep.",  # the second
            "A dog sleeps.",
            "A man sees a dog.",
            "A man sees a woman.",
            "The park is green.",
        ]
    )
    assert told == {"people": ["A man sleeps."], "animals": ["A dog sleeps."]}
    assert untold == {"people": ["Two women, in the park, sleep."], "animals": []}


@pytest.mark.any_backend
def test_more_labels_than_there_are(run):
    with pytest.raises(SystemExit, match="--labels must be at most"):
        run("pretrain_and_finetune", "--captions", "31", "--labels", "1000")


def test_vision_transformer(run, tmp_path):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    picture = tmp_path / "errors.png"
    shown = run(
        "vision_transformer",
        *("--sizes", "23", "29", "--repeats", "1", "--steps", "2", "--layers", "1"),
        *("--plot", str(picture)),
    )
    assert len(re.findall(r"^ +\d\d  +\d\.\d{3}  +\d\.\d{3}$", shown, re.M)) == 2
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.any_backend
def test_more_digits_than_there_are(run):
    pytest.importorskip("sklearn")
    with pytest.raises(SystemExit, match="--sizes must be at most 1297"):
        run("vision_transformer", "--sizes", "1298")


@pytest.mark.any_backend
def test_long_documents(run):
    shown = run(
        "long_documents",
        *("--length", "29", "--steps", "3", "--tested", "5", "--measured-lengths", *SMALL_MODEL),
    )
    assert len(re.findall(r"answers right, .*: [01]\.\d{3} \(a guess: 0\.125\)", shown)) == 2


@pytest.mark.any_backend
def test_the_answer_is_in_the_document():
    example = load("long_documents")
    code = np.arange(1, 257).astype("int32").repeat(3)
    tokens, answers = example.write_documents(np.random.default_rng(1), code, 7, 37)
    for row, answer in zip(tokens, answers, strict=True):
        subject = row[0] - example.FIRST_QUESTION
        notes = sorted(row[row >= example.FIRST_NOTE] - example.FIRST_NOTE)
        assert [note // example.ANSWERS for note in notes] == list(range(example.SUBJECTS))
        assert notes[subject] % example.ANSWERS == answer


def test_sequences(run):
    shown = run(
        "sequences",
        *("--length", "13", "--steps", "3", "--tested", "53", *SMALL_MODEL),
    )
    right = dict(re.findall(r"states told right, (.*): (\d\.\d{4})", shown))
    assert float(right["the best possible"]) >= float(right["each residue by itself"])
    assert "the encoder" in right


@pytest.mark.any_backend
def test_the_best_guess_is_the_posterior_of_all_paths():
    """Against the sum over every path of states, on short strings."""
    example = load("sequences")
    residues = np.array([[3, 7, 19, 5], [11, 2, 0, 0]])
    paths = np.stack(np.meshgrid(*[range(3)] * 4, indexing="ij"), -1).reshape(-1, 4)
    for string, guess in zip(residues, example.best_guess(residues), strict=True):
        posterior = np.zeros((4, 3))
        for path in paths:
            probability = example.FIRST[path[0]]
            probability *= np.prod(example.TRANSITIONS[path[:-1], path[1:]])
            for state, residue in zip(path, string, strict=True):
                probability *= 1 if residue == 0 else example.EMISSIONS[state, residue - 1]
            posterior[range(4), path] += probability
        np.testing.assert_array_equal(guess, posterior.argmax(axis=1))


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "name",
    [
        "language_model",
        "pretrain_and_finetune",
        "vision_transformer",
        "long_documents",
        "sequences",
    ],
)
def test_a_wrong_number_is_named(name, run, capsys):
    with pytest.raises(SystemExit) as ended:
        run(name, "--layers", "-3")
    assert ended.value.code == 2
    assert "--layers" in capsys.readouterr().err
