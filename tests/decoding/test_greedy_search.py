"""Greedy search."""

import functools

import keras
import numpy as np
import pytest
from scripted_models import RandomModel, TableModel, rescore

from keras_transformer.decoding import GreedySearch


def test_follows_the_most_probable_tokens():
    table = np.full((5, 5), -1.0)
    table[1, 4] = table[4, 3] = table[3, 2] = 1.0
    result = GreedySearch(max_length=7, length_penalty=1.0)(TableModel(table), [[3, 3], [4, 0]])
    np.testing.assert_array_equal(result.tokens, [[[4, 3, 2, 0, 0, 0, 0]]] * 2)
    np.testing.assert_array_equal(result.lengths, [[3], [3]])
    each = 1.0 - np.log(np.exp(1.0) + 4 * np.exp(-1.0))
    np.testing.assert_allclose(result.scores, [[3 * each / (8 / 6)]] * 2, rtol=1e-5)


@functools.cache
def random_model():
    return RandomModel(13, seed=3)


@pytest.mark.parametrize("prompt_length", [1, 3])
def test_equals_argmax_in_numpy(prompt_length):
    model = random_model()
    random = np.random.default_rng(0)
    source, prompt = random.integers(1, 13, (5, 4)), random.integers(3, 13, (5, prompt_length))
    result = GreedySearch(max_length=9)(model, source, prompt)
    for b in range(5):
        prefix = list(prompt[b])
        while len(prefix) < prompt_length + 9 and (prefix[-1] != 2 or len(prefix) == prompt_length):
            prefix.append(int(np.argmax(model.read_back(source[b], prefix))))
        tokens = prefix[prompt_length:]
        np.testing.assert_array_equal(result.tokens[b, 0, : result.lengths[b, 0]], tokens)
        score = rescore(lambda p, b=b: model.read_back(source[b], p), tokens, prompt[b], 0.6)
        assert result.scores[b, 0] == pytest.approx(score, abs=1e-4)


def test_config_round_trip():
    search = GreedySearch(max_length=5, length_penalty=0.0)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(search))
    assert again.get_config() == search.get_config() == {"max_length": 5, "length_penalty": 0.0}
