"""BLEU and chrF against hand-worked values, and case 65: no layout of references scores wrongly."""

import math

import pytest

from keras_transformer.evaluation import Score, bleu, chrf

pytestmark = pytest.mark.any_backend

HYPOTHESES = ["the cat is on a mat", "dogs run in the park", "two men talk"]
REFERENCES = ["the cat sat on the mat", "dogs run in a green park", "two women talk"]


def test_bleu_by_hand():
    # 6 words of 7 are right, 4 pairs of 6, 2 triples of 5, 1 quadruple of 4; no brevity penalty.
    score = bleu(["a b c d x f g"], ["a b c d e f g"])
    assert float(score) == pytest.approx(100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25)
    short = bleu(["a b c d"], ["a b c d e"])
    assert short.value == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_score_carries_name_and_signature():
    score = bleu(HYPOTHESES, REFERENCES)
    assert score.name == "BLEU"
    assert "case:mixed" in score.signature and "tok:13a" in score.signature
    assert str(score) == f"BLEU = {score.value:.2f} [{score.signature}]"
    other = bleu(["A B C D"], ["a b c d"], lowercase=True, tokenize="none")
    assert other.name == "BLEU (lowercased, tokenize=none)"
    assert other.value == pytest.approx(100)
    assert bleu(["A B C D"], ["a b c d"]).value == 0
    assert chrf(HYPOTHESES, REFERENCES).name == "chrF2"
    assert chrf(HYPOTHESES, REFERENCES, lowercase=True, word_order=2).name == "chrF2++ (lowercased)"
    with pytest.raises(AttributeError):
        score.value = 100.0
    assert score == Score(score.value, score.signature, "BLEU")


def test_chrf_by_hand():
    # Characters a, b, c against a, b, d: 2 of 3; pairs 1 of 2; triples 0 of 1; no longer ones.
    assert float(chrf(["abc"], ["abd"])) == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3, rel=1e-6)


@pytest.mark.parametrize("metric", [bleu, chrf])
def test_case_65_layouts_give_the_same_score_or_an_error(metric):
    flat = metric(HYPOTHESES, REFERENCES)
    assert 0 < flat.value < 100
    assert metric(HYPOTHESES, [[reference] for reference in REFERENCES]) == flat
    assert metric(tuple(HYPOTHESES), tuple((reference,) for reference in REFERENCES)) == flat
    with pytest.raises(ValueError, match="1 entries for 3 hypotheses.*zip"):
        metric(HYPOTHESES, [REFERENCES])
    with pytest.raises(ValueError, match="2 entries for 3 hypotheses"):
        metric(HYPOTHESES, REFERENCES[:2])


def test_several_references_each_and_unequal_numbers():
    several = [["no match here"], [REFERENCES[1], HYPOTHESES[1]], [HYPOTHESES[2], "three men"]]
    assert bleu(HYPOTHESES[1:], several[1:]).value == pytest.approx(100)
    first = bleu(HYPOTHESES, [[HYPOTHESES[0]], *several[1:]])
    assert first.value == pytest.approx(100)
    assert "nrefs:var" in first.signature


@pytest.mark.parametrize(
    "hypotheses, references, message",
    [
        ([], [], "`hypotheses` must not be empty"),
        ("a cat", ["a cat"], "`hypotheses` must be a list of strings"),
        (["a cat"], "a cat", "`references` must be a list"),
        (["a cat"], None, "`references` must be a list"),
        (["a cat", 7], ["a cat", "b"], "`hypotheses` must hold strings; got 7 at index 1"),
        (["a", "b"], ["a", None], r"`references\[1\]` must be a list of strings; got None"),
        (["a", "b"], [["a"], []], r"`references\[1\]` must not be empty"),
        (["a", "b"], [["a"], [7]], r"`references\[1\]` must hold strings; got 7 at index 0"),
    ],
)
def test_errors(hypotheses, references, message):
    for metric in (bleu, chrf):
        with pytest.raises(ValueError, match=message):
            metric(hypotheses, references)


def test_choice_errors():
    with pytest.raises(ValueError, match=r"`tokenize` must be one of \['13a'"):
        bleu(["a"], ["a"], tokenize="moses")
    with pytest.raises(ValueError, match="`word_order`"):
        chrf(["a"], ["a"], word_order=-1)
