"""The whole way from pairs to a translator: law 10, and what is refused before any work."""

import dataclasses
import json
import random

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import Translator
from keras_transformer.text import CaptionGrammar, ParallelCorpus, TranslationData
from keras_transformer.training import LastCheckpoints
from keras_transformer.translation_recipe import TranslationRecipe, build_model, train_translator

RECIPE = TranslationRecipe(
    vocabulary_size=90,
    num_layers=1,
    model_dim=8,
    num_heads=2,
    intermediate_dim=12,
    dropout=0.3,
    warmup_steps=7,
    tokens_per_batch=512,
    epochs=3,
    averaged=2,
    score_every=5,
    beam_width=1,
)


def captions():
    corpora = [
        ParallelCorpus(*map(list, CaptionGrammar(seed).pairs(count)))
        for seed, count in ((3, 24), (4, 2), (5, 2))
    ]
    return TranslationData("captions", "en", "de", *corpora)


def quietly(line):
    pass


class Killed(Exception):
    """As if the process had been killed."""


def kill_at(monkeypatch, method, epoch):
    """The run ends at a place of an epoch, after everything up to there was written."""
    whole = getattr(LastCheckpoints, method)

    def until_killed(self, at, logs=None):
        if at == epoch:
            raise Killed
        return whole(self, at, logs)

    monkeypatch.setattr(LastCheckpoints, method, until_killed)


@pytest.mark.parametrize(
    "method, epoch", [("on_epoch_end", 0), ("on_epoch_begin", 1), ("on_epoch_end", 2)]
)
def test_a_killed_run_that_is_resumed_ends_in_the_same_weights(
    method, epoch, tmp_path, monkeypatch, whole_run
):
    # Law 10; dropout, the optimizer and the order of batches go on where they were.
    data, right, history = whole_run
    with monkeypatch.context() as context:
        kill_at(context, method, epoch)
        with pytest.raises(Killed):
            train_translator(data, tmp_path / "run", RECIPE, report=quietly)
    assert not (tmp_path / "run" / "translator").exists()
    found = train_translator(data, tmp_path / "run", RECIPE, resume=True, report=quietly)
    for each, other in zip(found.model.weights, right.model.weights, strict=True):
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (each, other)), atol=1e-6)
    lines = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").open()]
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert lines[2]["loss"] == pytest.approx(history[2]["loss"], rel=1e-5)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    keras.config.set_dtype_policy("float32")
    data, output = captions(), tmp_path_factory.mktemp("whole") / "run"
    translator = train_translator(data, output, RECIPE, report=quietly)
    loaded = Translator.load(output / "translator")
    for each, other in zip(loaded.model.weights, translator.model.weights, strict=True):
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (each, other)))
    assert len(list((output / "checkpoints").iterdir())) == RECIPE.averaged
    history = [json.loads(line) for line in (output / "history.jsonl").open()]
    assert history[2]["loss"] < history[0]["loss"]
    assert {"loss", "token_accuracy", "perplexity", "tokens_per_second"} <= history[0].keys()
    return data, translator, history


def test_dropout_layers_do_not_drop_the_same():
    from keras_transformer.models import Transformer

    model = Transformer(11, 2, 8, 2, 12, attention_dropout=0.1, seed=1)
    states = [tuple(ops.convert_to_numpy(each)) for each in model.variables if "seed" in each.path]
    assert len(states) == len(set(states)) > 8
    again = Transformer(11, 2, 8, 2, 12, attention_dropout=0.1, seed=1)
    assert states == [
        tuple(ops.convert_to_numpy(each)) for each in again.variables if "seed" in each.path
    ]


def test_wrong_folders_are_refused_and_nothing_is_lost(tmp_path):
    data, run = captions(), tmp_path / "run"

    def refused(message, recipe=RECIPE, **options):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with pytest.raises(ValueError, match=message):
            train_translator(data, run, recipe, report=quietly, **options)
        after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert {path: after[path] for path in before} == before

    refused("`output` must hold a run to resume", resume=True)
    run.mkdir()
    (run / "notes.txt").write_text("kept")
    refused("`output` must be a new or empty folder.* holds something already")
    refused("`output` must hold a run to resume", resume=True)
    (run / "notes.txt").unlink()
    # Wrong recipes, the last a vocabulary that the pairs cannot fill; the folder stays empty.
    for message, wrong in (
        ("`num_heads` must divide", {"num_heads": 3}),
        ("`epochs` must be", {"epochs": 0}),
        ("`averaged` must be", {"averaged": 0}),
        ("`beam_width` must be", {"beam_width": 0}),
        ("`beam_width` must be at most `vocabulary_size`", {"beam_width": 91}),
        ("`max_length` must be at most `tokens_per_batch`", {"max_length": 513}),
        ("`score_every` must be", {"score_every": 0}),
        ("`tokens_per_batch` must be", {"tokens_per_batch": 0}),
        ("vocabulary", {"vocabulary_size": 5000}),
    ):
        refused(message, dataclasses.replace(RECIPE, **wrong))
        assert not list(run.iterdir())
    short = dataclasses.replace(RECIPE, epochs=1, averaged=1)
    train_translator(data, run, short, report=quietly)
    refused("holds something already")
    other = dataclasses.replace(RECIPE, model_dim=16, dropout=0.1)
    refused("resumed with its own recipe.*begun with model_dim 8, dropout 0.3", other, resume=True)
    run.rename(tmp_path / "elsewhere")
    run.write_text("a file")
    refused("`output` must be a new or empty folder")


def test_the_seed_gives_the_weights_and_leaves_the_caller_s_generator():
    random.seed(5)
    after = random.Random(5).random()
    models = [build_model(RECIPE), build_model(RECIPE)]
    other = build_model(dataclasses.replace(RECIPE, seed=RECIPE.seed + 1))
    assert random.random() == after
    first, same, another = (model.get_weights()[0] for model in (*models, other))
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - another).max() > 0.01


def test_what_a_resumed_run_cannot_end_in_is_refused(whole_run, tmp_path):
    data, _, _ = whole_run
    run = tmp_path / "run"
    train_translator(data, run, RECIPE, report=quietly)
    before = (run / "recipe.json").read_text()
    for changes, message in (
        ({"epochs": 2}, "`epochs` must be at least 3"),
        ({"epochs": 4, "averaged": 4}, "`averaged` must be at most 3"),
    ):
        recipe = dataclasses.replace(RECIPE, **changes)
        with pytest.raises(ValueError, match=message):
            train_translator(data, run, recipe, resume=True, report=quietly)
    assert (run / "recipe.json").read_text() == before
