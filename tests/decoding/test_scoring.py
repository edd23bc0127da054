"""Scores and the search for the best tokens."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.scoring import (
    best_first,
    best_tokens,
    length_penalty,
    log_probabilities,
    take_hypotheses,
)


@pytest.mark.parametrize("vocabulary_size", [3, 131, 640, 1009])
@pytest.mark.parametrize("count", [1, 4, 7])
def test_best_tokens_of_any_vocabulary(vocabulary_size, count):
    logits = np.random.default_rng(0).normal(size=(11, vocabulary_size)).astype("float32")
    values, tokens = map(ops.convert_to_numpy, best_tokens(ops.array(logits), count))
    expected = np.argsort(-logits, axis=1)[:, :count]
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(logits, expected, axis=1))


@pytest.mark.parametrize("vocabulary_size", [5, 1009])
def test_the_best_of_equal_logits_is_the_first(vocabulary_size):
    logits = np.zeros((2, vocabulary_size), "float32")
    logits[1, 3:] = 1.0
    _, tokens = best_tokens(ops.array(logits), 1)
    np.testing.assert_array_equal(ops.convert_to_numpy(tokens), [[0], [3]])


@pytest.mark.parametrize("bad", [float("nan"), -float("inf")])
def test_tokens_stay_in_the_vocabulary(bad):
    logits = np.full((3, 1009), bad, "float32")
    logits[1, 1001] = 1.0
    _, tokens = best_tokens(ops.array(logits), 4)
    tokens = ops.convert_to_numpy(tokens)
    assert tokens.min() >= 0 and tokens.max() < 1009
    if bad < 0:
        assert tokens[1, 0] == 1001


def test_length_penalty():
    # ((5 + 1) / 6) ** 0.6 = 1; ((5 + 7) / 6) ** 1 = 2; any length to the 0th is 1.
    assert float(length_penalty(1, 0.6)) == 1.0
    assert float(length_penalty(7, 1.0)) == 2.0
    assert float(length_penalty(19, 0.0)) == 1.0
    np.testing.assert_allclose(float(length_penalty(7, 0.6)), 2**0.6, rtol=1e-6)


def test_log_probabilities_of_rows_that_define_none():
    infinity = float("inf")
    logits = ops.array([[0.0, 0.0], [float("nan"), 0.0], [infinity, 0.0], [-infinity, -infinity]])
    found = ops.convert_to_numpy(log_probabilities(logits, logits))
    np.testing.assert_allclose(found[0], np.log([0.5, 0.5]), rtol=1e-6)
    assert (found[1:] == -infinity).all()


def test_best_first_keeps_the_order_of_equal_scores():
    scores = ops.array([[1.0, 3.0, 1.0, 3.0, -float("inf")], [2.0, 2.0, 2.0, 2.0, 2.0]])
    places = ops.convert_to_numpy(best_first(scores, 4))
    np.testing.assert_array_equal(places, [[1, 3, 0, 2], [0, 1, 2, 3]])


def test_take_hypotheses():
    hypotheses = ops.reshape(ops.arange(2 * 3 * 5), (2, 3, 5))
    taken = ops.convert_to_numpy(take_hypotheses(hypotheses, ops.array([[2, 0], [1, 1]])))
    np.testing.assert_array_equal(taken[:, :, 0], [[10, 0], [20, 20]])
