"""Pictures of training runs."""

import json

import numpy as np
import pytest

from keras_transformer.visualization import plot_history

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.any_backend


def write_history(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_the_four_curves_of_a_run(tmp_path):
    records = [
        {"epoch": 1, "loss": 6.0, "perplexity": 90.0, "tokens_per_second": 700.0},
        {"epoch": 2, "loss": 4.0, "perplexity": 30.0, "tokens_per_second": 800, "val_bleu": 12.5},
        {"epoch": 3, "loss": 3.5, "perplexity": 20.0, "tokens_per_second": 790.0},
        {"epoch": 4, "loss": 3.2, "perplexity": 16.0, "tokens_per_second": 810, "val_bleu": 31.0},
    ]
    picture = tmp_path / "history.png"
    figure = plot_history(write_history(tmp_path / "history.jsonl", records), picture)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["loss (nats a token)", "perplexity", "BLEU", "target tokens a second"]
    loss, _, bleu, _ = figure.axes
    np.testing.assert_array_equal(loss.lines[0].get_xydata(), [[1, 6], [2, 4], [3, 3.5], [4, 3.2]])
    np.testing.assert_array_equal(bleu.lines[0].get_xydata(), [[2, 12.5], [4, 31]])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_training_and_validation_side_by_side():
    figure = plot_history({"loss": [5.0, 4.0], "val_loss": [4.5, 4.2], "accuracy": [0.1, 0.2]})
    (axes,) = [axes for axes in figure.axes if axes.lines]
    assert [text.get_text() for text in axes.get_legend().texts] == ["training", "validation"]


def test_wrong_histories(tmp_path):
    with pytest.raises(ValueError, match="one number an epoch for every name"):
        plot_history({"loss": [5.0, 4.0], "val_bleu": [31.0]})
    with pytest.raises(ValueError, match="must hold one of"):
        plot_history({"accuracy": [0.5]})
    with pytest.raises(ValueError, match="there is no file"):
        plot_history(tmp_path / "none.jsonl")
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"epoch": 1, "loss": 2.0}\n{"epoch": 2, "lo')
    with pytest.raises(ValueError, match='"epoch" on each line; line 2'):
        plot_history(broken)
