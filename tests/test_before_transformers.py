"""The Transformer's opponents are sound: they decode as they were trained, and ignore padding."""

import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import decoding, models, text

FOLDER = Path(__file__).parent.parent / "benchmarks"
pytestmark = pytest.mark.any_backend
SOURCE = np.array([[5, 7, 11, 3, 0], [6, 13, 17, 19, 3]], "int32")
TARGET = np.array([[2, 8, 5, 9], [2, 7, 7, 12]], "int32")


@pytest.fixture(params=["recurrent", "convolutional"])
def model(request, benchmark):
    class Tokenizer:
        vocabulary_size, pad_id, start_id, end_id = 23, 0, 2, 3

    module = benchmark(f"contenders.{request.param}")
    if request.param == "recurrent":
        return module.RecurrentTranslator(Tokenizer, model_dim=8, units=6)
    return module.ConvolutionalTranslator(Tokenizer, model_dim=8, num_layers=2)


numbers = ops.convert_to_numpy


def test_step_by_step_is_as_all_at_once(model):
    at_once = numbers(model({"source": SOURCE, "target": TARGET}))
    state = model.start(SOURCE, max_length=4)
    for place in range(4):
        logits, state = model.step(TARGET[:, place : place + 1], state)
        np.testing.assert_allclose(numbers(logits), at_once[:, place], atol=1e-5)
    # Several tokens in one step.
    logits, _ = model.step(TARGET, model.start(SOURCE, max_length=4))
    np.testing.assert_allclose(numbers(logits), at_once[:, -1], atol=1e-5)


def test_padding_is_inert_and_the_source_is_read_whole(model):
    def logits(source):
        return ops.convert_to_numpy(model({"source": source, "target": TARGET}))

    found = logits(SOURCE)
    padded = np.pad(SOURCE, ((0, 0), (0, 3)))
    np.testing.assert_allclose(logits(padded), found, atol=1e-5)
    for place in range(4):
        changed = SOURCE.copy()
        changed[0, place] = 21
        difference = np.abs(logits(changed) - found)
        assert difference[0].max() > 1e-6 and difference[1].max() == 0


def test_the_future_cannot_change_the_past(model):
    found = numbers(model({"source": SOURCE, "target": TARGET}))
    changed = TARGET.copy()
    changed[:, 2:] = 21
    again = numbers(model({"source": SOURCE, "target": changed}))
    np.testing.assert_array_equal(again[:, :2], found[:, :2])


def test_all_three_train_and_translate(benchmark, monkeypatch, tmp_path, capsys):
    pytest.importorskip("sacrebleu")
    pytest.importorskip("matplotlib")
    grammar = text.CaptionGrammar()
    for part, count in (("train", 31), ("val", 3), ("test", 7)):
        for language, lines in zip(("en", "de"), grammar.pairs(count, part), strict=True):
            (tmp_path / f"{part}.{language}").write_text("\n".join(lines) + "\n")
    picture = tmp_path / "lengths.png"
    program = benchmark("before_transformers")
    small = {
        "transformer": lambda tokenizer: models.Transformer(101, 1, 8, 2, 8),
        "convolutional": lambda tokenizer: program.ConvolutionalTranslator(tokenizer, 8, 1),
        "recurrent": lambda tokenizer: program.RecurrentTranslator(tokenizer, 8, 8),
    }
    assert set(small) == set(program.CONTENDERS)
    monkeypatch.setattr(program, "CONTENDERS", {name: (small[name], 1e-3) for name in small})
    monkeypatch.setattr(program, "GreedySearch", lambda: decoding.GreedySearch(max_length=3))
    monkeypatch.setattr(keras.src.trainers.trainer, "model_supports_jit", lambda model: False)
    arguments = ["--data", str(tmp_path), "--minutes", "1e-9", "--vocabulary-size", "101"]
    monkeypatch.setattr(sys, "argv", ["program", *arguments, "--plot", str(picture)])
    program.main()
    shown = capsys.readouterr().out
    for name in program.CONTENDERS:
        assert f"{name}: step 1, loss" in shown
        assert f"\n| {name}" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_sentences_are_grouped_by_length(benchmark):
    sources = [" ".join("w" * count) for count in (1, 2, 2, 3, 4, 5, 6, 9)]
    buckets = benchmark("before_transformers").buckets_of(sources, 2)
    assert {label: numbers.tolist() for label, numbers in buckets.items()} == {
        "1-3": [0, 1, 2, 3],
        "4-8": [4, 5, 6],
        "9-9": [7],
    }


def test_an_unknown_name_is_an_error(benchmark, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["program", "elman"])
    with pytest.raises(SystemExit) as ended:
        benchmark("before_transformers").main()
    assert ended.value.code == 2
    assert "NAME must be one of transformer" in capsys.readouterr().err
