import dataclasses
import gzip
import io
import json

import keras
import pytest
from tiny_translators import SENTENCES, random_translator

from keras_transformer import Translator, cli
from keras_transformer.text import CaptionGrammar
from keras_transformer.translation_recipe import TranslationRecipe

TINY = (
    "--vocabulary-size 90 --num-layers 1 --model-dim 16 --num-heads 2 --intermediate-dim 24 "
    "--epochs 1 --averaged 1 --tokens-per-batch 512 --beam-width 2 --warmup-steps 5"
).split()


def run(*arguments):
    return cli.main(list(map(str, arguments)))


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A file of tab-separated captions."""
    path = tmp_path_factory.mktemp("pairs") / "captions.tsv"
    return write(path, map("\t".join, zip(*CaptionGrammar(3).pairs(30), strict=True)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory, pairs):
    """A run of one epoch."""
    output = tmp_path_factory.mktemp("runs") / "captions"
    assert run("train", "--pairs", pairs, "--held-out", 1, "--output", output, *TINY) == 0
    return output


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A saved translator with random weights."""
    path = tmp_path_factory.mktemp("translators") / "random"
    random_translator().save(path)
    return path


def fails(capsys, *arguments):
    """Runs a wrong command and returns what it said."""
    try:
        code = run(*arguments)
    except SystemExit as exit:
        code = exit.code
    output, error = capsys.readouterr()
    assert code == 2 and output == ""
    assert error.startswith("keras-transformer: error: ") and error.count("\n") == 1, error
    return error


def test_train_leaves_a_translator(trained, capsys, pairs):
    assert Translator.load(trained / "translator").search.beam_width == 2
    assert json.loads((trained / "recipe.json").read_text())["model_dim"] == 16
    again = ("train", "--pairs", pairs, "--held-out", 1, "--output", trained)
    assert "holds something already" in fails(capsys, *again, *TINY)
    assert "begun with model_dim 16" in fails(capsys, *again, "--resume", "--model-dim", 32)
    assert "--preset must not" in fails(capsys, *again, "--resume", "--preset", "base")


def test_resume_takes_the_recipe_of_the_run(trained, capsys, pairs):
    common = ("--pairs", pairs, "--held-out", 1, "--output", trained)
    assert run("train", *common, "--resume", "--epochs", 2) == 0
    assert "epoch 2/2" in capsys.readouterr().out
    assert len((trained / "history.jsonl").read_text().splitlines()) == 2


def test_what_a_run_cannot_do_is_said_by_its_options(trained, tmp_path, capsys, pairs):
    wrong = ("train", "--pairs", pairs, "--held-out", 1, "--output", tmp_path / "run", *TINY)
    for option, value in (
        ("--peak-rate", "nan"),
        ("--averaged", 0),
        ("--score-every", 0),
        ("--beam-width", 91),
        ("--max-length", 513),
        ("--num-heads", 3),
        ("--vocabulary-size", 100_000_000),
    ):
        assert f"{option} must" in fails(capsys, *wrong, option, value)
    assert not (tmp_path / "run").exists()
    other = ("train", "--pairs", pairs, "--held-out", 2, "--output", trained, "--resume")
    assert "on its own pairs" in fails(capsys, *other)
    (tmp_path / "run").mkdir()
    settings = tmp_path / "run" / "recipe.json"
    for content in ("[]", "{", '{"foo": 1, "pairs_sha256": ""}'):
        settings.write_text(content)
        (tmp_path / "run" / "tokenizer.model").write_bytes(b"")
        assert "recipe.json is damaged" in fails(capsys, *wrong, "--resume")
    assert "is not finished" in fails(capsys, "translate", tmp_path / "run", pairs)


def test_translates_line_by_line(translator, tmp_path, capsys, monkeypatch):
    lines = ["a dog", "", "🙂", "Bank"]
    expected = random_translator().translate(lines)
    assert run("translate", translator, write(tmp_path / "lines", lines)) == 0
    assert capsys.readouterr().out.split("\n") == [*expected, ""]
    content = "a dog\r\n\n🙂\nBank".encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + content)))
    assert run("translate", translator) == 0
    assert capsys.readouterr().out.split("\n") == [*expected, ""]
    (tmp_path / "lines.gz").write_bytes(gzip.compress(content))
    # The file may come after an option.
    assert run("translate", translator, "--scores", tmp_path / "lines.gz") == 0
    output = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [text for _, text in output] == expected
    assert output[1][0] == "0.0000" and float(output[0][0]) < 0


def test_scores_files_and_translators(translator, tmp_path, capsys):
    hypotheses = write(tmp_path / "hypotheses", SENTENCES)
    other = write(tmp_path / "other", reversed(SENTENCES))
    assert run("score", hypotheses, hypotheses) == 0
    bleu, chrf = capsys.readouterr().out.splitlines()
    assert bleu.startswith("BLEU = 100.00 [nrefs:1|") and chrf.startswith("chrF2 = 100.00 [")
    assert run("score", hypotheses, other, hypotheses) == 0
    assert capsys.readouterr().out.startswith("BLEU = 100.00 [nrefs:2|")
    sources = write(tmp_path / "sources", ["a dog", "Bank"])
    expected = write(tmp_path / "expected", random_translator().translate(["a dog", "Bank"]))
    assert run("score", "--run", translator, sources, expected) == 0
    assert "chrF2 = 100.00" in capsys.readouterr().out


@pytest.mark.skipif(
    keras.config.backend() != "tensorflow",
    reason="exports from other backends, which take a second process, are in tests/serving",
)
def test_exports(trained, tmp_path, capsys):
    assert run("export", trained, tmp_path / "served") == 0
    assert (tmp_path / "served" / "saved_model.pb").is_file()
    assert "pass --overwrite" in fails(capsys, "export", trained, tmp_path / "served")
    assert run("export", trained, tmp_path / "served", "--overwrite") == 0


@pytest.mark.any_backend
def test_wrong_data(tmp_path, capsys, pairs):
    output = tmp_path / "run"
    one, two = write(tmp_path / "one", ["a"]), write(tmp_path / "two", ["a", "b"])
    train = ("train", "--output", output)
    assert "Give one of --data, --pairs, or" in fails(capsys, *train)
    assert "Give one of" in fails(capsys, *train, "--data", tmp_path, "--pairs", pairs)
    assert "Give --source with --target" in fails(capsys, *train, "--source", one)
    assert "got 1 in" in fails(capsys, *train, "--source", one, "--target", two)
    assert "there is no file" in fails(capsys, *train, "--pairs", tmp_path / "none")
    assert "there is no folder" in fails(capsys, *train, "--data", tmp_path / "none")
    assert "--held-out must be" in fails(capsys, *train, "--pairs", pairs)
    both = ("--pairs", pairs, "--validation-pairs", pairs)
    assert "--held-out must not" in fails(capsys, *train, *both, "--held-out", 3)
    with_folder = ("--data", tmp_path, "--validation-pairs", pairs)
    assert "--validation-... must not" in fails(capsys, *train, *with_folder)
    alone = ("--pairs", pairs, "--validation-source", one)
    assert "Give --validation-source with" in fails(capsys, *train, *alone)
    assert not output.exists()


@pytest.mark.any_backend
def test_wrong_files(tmp_path, capsys):
    one, two = write(tmp_path / "one", ["a"]), write(tmp_path / "two", ["a", "b"])
    (tmp_path / "latin").write_bytes(b"ja\nsch\xf6n\n")
    (tmp_path / "half.gz").write_bytes(gzip.compress(b"a dog\n")[:-9])
    (tmp_path / "plain.gz").write_bytes(b"a dog\n")
    assert "has no translator.json" in fails(capsys, "translate", tmp_path, one)
    assert "there is no file" in fails(capsys, "translate", tmp_path, tmp_path / "none")
    assert "line 2 is not" in fails(capsys, "translate", tmp_path, tmp_path / "latin")
    for name in ("half.gz", "plain.gz"):
        assert f"{name} is no whole gzip" in fails(capsys, "score", tmp_path / name, one)
    assert "got 1 and 2" in fails(capsys, "score", one, two)
    assert "has no translator.json" in fails(capsys, "export", tmp_path, tmp_path / "served")


@pytest.mark.any_backend
def test_wrong_options(tmp_path, capsys):
    assert "required: COMMAND" in fails(capsys)
    assert "invalid choice: 'fly'" in fails(capsys, "fly")
    assert "--output" in fails(capsys, "train")
    wrong = fails(capsys, "train", "--output", tmp_path / "run", "--epochs", "many")
    assert "--epochs: invalid int value: 'many'" in wrong
    wrong = fails(capsys, "train", "--output", tmp_path / "run", "--preset", "huge")
    assert "--preset: invalid choice: 'huge'" in wrong
    assert "unrecognized arguments: more" in fails(capsys, "translate", "run", "file", "more")


@pytest.mark.any_backend
def test_every_part_of_a_recipe_has_an_option():
    names = {field.name for field in dataclasses.fields(TranslationRecipe)}
    assert set(cli.RECIPE_HELP) == names
    recipe = TranslationRecipe()
    options = [
        f"--{'no-' if value is True else ''}{name.replace('_', '-')}"
        + ("" if isinstance(value, bool) else f"={value + 1}")
        for name, value in dataclasses.asdict(recipe).items()
    ]
    parsed = cli.make_parser().parse_args(["train", "--output", "run", *options])
    changed = dataclasses.asdict(cli.read_recipe(parsed))
    assert all(changed[name] != getattr(recipe, name) for name in names)


@pytest.mark.any_backend
def test_presets_are_the_papers():
    # Section 5.3: d^-0.5 * min(step^-0.5, step * 4000^-1.5), greatest at step 4000.
    recipe = cli.preset_recipe("base")
    assert recipe.peak_rate == pytest.approx(512**-0.5 * 4000**-0.5)
    assert (recipe.num_layers, recipe.model_dim, recipe.normalize_first) == (6, 512, False)
    assert cli.preset_recipe("d-smoothing-0.2").label_smoothing == 0.2


@pytest.mark.any_backend
def test_traceback_on_demand(tmp_path):
    with pytest.raises(ValueError, match="has no translator.json"):
        run("--traceback", "export", tmp_path, tmp_path / "served")
