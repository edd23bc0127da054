"""Pictures of attention, looked at through their axes."""

import sys

import numpy as np
import pytest
from tiny_translators import CopyModel, random_translator, subword_tokenizer

from keras_transformer import Translator
from keras_transformer.visualization import plot_attention

pytest.importorskip("matplotlib")
# The weights are tested on every backend; what is drawn of them is the same on all.
pytestmark = pytest.mark.any_backend


def labels(ticks):
    return [label.get_text() for label in ticks]


def test_translated_pieces_against_those_of_the_sentence(tmp_path):
    path = tmp_path / "attention.png"
    figure = plot_attention(random_translator(), "a dog runs", "ein Hund", path=path)
    (axes,) = figure.axes
    columns, rows = labels(axes.get_xticklabels()), labels(axes.get_yticklabels())
    assert columns[0] == "a" and columns[-1] == "[end]"
    assert rows[0] == "ein" and rows[-1] == "[end]"
    assert "".join(columns[:-1]).replace("-", "") == "adogruns"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_rows_are_what_the_step_picks_and_weights_sum_to_one():
    (axes,) = plot_attention(random_translator(), "a dog", "ein Hund").axes
    cells = (
        axes.collections[0]
        .get_array()
        .reshape(len(axes.get_yticklabels()), len(axes.get_xticklabels()))
    )
    np.testing.assert_allclose(cells.sum(axis=1), 1, atol=1e-5)


def test_the_decoder_sees_what_it_has_read():
    (axes,) = plot_attention(random_translator(), "a dog", "ein Hund", kind="decoder").axes
    columns, rows = labels(axes.get_xticklabels()), labels(axes.get_yticklabels())
    assert columns[0] == "[start]" and rows[-1] == "[end]"
    assert columns[1:] == rows[:-1]


def test_a_panel_for_each_head():
    figure = plot_attention(random_translator(), "a dog", head="all", kind="encoder")
    assert [axes.get_xlabel() for axes in figure.axes] == ["head 0", "head 1"]
    (axes,) = plot_attention(random_translator(), "a dog", "ein Hund", head=1).axes
    assert axes.get_xlabel() == "head 1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "self"}, "`kind` must be one of"),
        ({"block": 1}, r"`block` must be in \[-1, 1\); got 1"),
        ({"head": 2}, r"`head` must be .*\[0, 2\); got 2"),
        ({"head": "max"}, '`head` must be "mean", "all" or'),
        ({"translation": ""}, "`translation` must have a piece"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        plot_attention(random_translator(), "a dog", **{"translation": "ein Hund", **options})


def test_a_blank_sentence_and_a_model_without_attention():
    with pytest.raises(ValueError, match="`sentence` must have a piece to look at; got ' '"):
        plot_attention(random_translator(), " ", "ein Hund")
    tokenizer = subword_tokenizer()
    with pytest.raises(ValueError, match="`model` must have the method `attention_weights`"):
        plot_attention(Translator(CopyModel(tokenizer), tokenizer), "a dog", "ein Hund")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install keras-transformer-layers\[pictures\]"):
        plot_attention(random_translator(), "a dog", "ein Hund")
