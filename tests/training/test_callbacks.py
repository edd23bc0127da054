"""What is seen while training: the progress line and the BLEU of a validation set."""

import io

import pytest

from keras_transformer.training import ProgressLine, TranslationScore
from keras_transformer.training.progress_line import clock


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run_epoch(progress, epochs=3, steps=4):
    progress.set_params({"epochs": epochs, "steps": steps})
    progress.on_train_begin()
    progress.on_epoch_begin(0)
    progress.shown = -1e9
    progress.on_train_batch_end(1, {"loss": 2.5})
    logs = {"loss": 2.25}
    progress.on_epoch_end(0, logs)
    return logs


def test_a_log_file_gets_lines():
    stream = io.StringIO()
    logs = run_epoch(ProgressLine(1000, stream=stream))
    first, last = stream.getvalue().splitlines()
    assert first.startswith("epoch 1/3  batch 2/4  loss 2.500  ") and first.endswith(" left")
    assert "tokens/s" in first
    assert last.startswith("epoch 1/3  loss 2.250  tokens_per_second ")
    assert logs["tokens_per_second"] > 0


def test_validation_is_in_the_time_of_an_epoch_and_not_in_its_rate(monkeypatch):
    seconds = iter([100.0, 110.0, 130.0])  # the epoch begins, its last batch ends, it is validated
    monkeypatch.setattr("time.perf_counter", lambda: next(seconds))
    stream = io.StringIO()
    logs = run_epoch(ProgressLine(1000, stream=stream))
    assert logs["tokens_per_second"] == 100.0
    assert stream.getvalue().splitlines()[-1].endswith("  0:30, 1:00 left")


def test_a_terminal_gets_one_line_rewritten():
    stream = Terminal()
    run_epoch(ProgressLine(1000, stream=stream))
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().count("\r") == 2


def test_clock():
    assert [clock(0), clock(61), clock(3725)] == ["0:00", "1:01", "1:02:05"]


def test_bleu_of_the_validation_set_is_in_the_logs():
    score = TranslationScore(
        lambda lines: [line.upper() for line in lines],
        ["the cat sat on the mat"],
        ["THE CAT SAT ON THE MAT"],
        every=2,
    )
    score.set_params({"epochs": 3})
    logs = {}
    score.on_epoch_end(0, logs)
    assert logs == {} and score.last is None
    score.on_epoch_end(1, logs)
    assert logs["val_bleu"] == pytest.approx(100.0)
    assert "13a" in score.last.signature
    last = {}
    score.on_epoch_end(2, last)  # the last epoch, whatever `every`
    assert "val_bleu" in last


def test_wrong_arguments():
    with pytest.raises(ValueError, match="`tokens_per_epoch` must be above 0"):
        ProgressLine(0)
    with pytest.raises(ValueError, match="must be as many"):
        TranslationScore(list, ["a"], [])
    with pytest.raises(ValueError, match="`every` must be"):
        TranslationScore(list, ["a"], ["a"], every=0)
