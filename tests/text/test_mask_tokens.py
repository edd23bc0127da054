"""Masking for a masked language model: counts, shares, whole words, determinism."""

import numpy as np
import pytest

from keras_transformer.text import mask_tokens

pytestmark = pytest.mark.any_backend
OPTIONS = {"mask_id": 4, "vocabulary_size": 97, "special_ids": [0, 1, 2, 3]}


def rows(count, length, seed=0):
    tokens = np.random.default_rng(seed).integers(5, 97, (count, length))
    tokens[:, 0], tokens[:, -1] = 2, 0
    return tokens


def test_fifteen_percent_of_the_real_tokens_are_chosen_in_every_row():
    tokens = rows(7, 102)
    masked = mask_tokens(tokens, seed=1, **OPTIONS)
    assert masked.weights.sum(axis=1).tolist() == [15.0] * 7
    np.testing.assert_array_equal(masked.labels, tokens)
    assert masked.weights[:, [0, -1]].sum() == 0


def test_a_short_row_is_asked_for_one_token_and_an_empty_one_for_none():
    masked = mask_tokens([[2, 7, 3], [2, 3, 0]], seed=1, **OPTIONS)
    assert masked.weights.tolist() == [[0, 1, 0], [0, 0, 0]]


def test_chosen_tokens_are_masked_swapped_or_kept_80_10_10():
    tokens = rows(113, 202)
    masked = mask_tokens(tokens, seed=3, **OPTIONS)
    chosen = masked.weights > 0
    np.testing.assert_array_equal(masked.tokens[~chosen], tokens[~chosen])
    hidden, original = masked.tokens[chosen], tokens[chosen]
    assert abs((hidden == 4).mean() - 0.8) < 0.03
    kept = (hidden == original).mean()
    assert abs(kept - 0.1) < 0.03  # one in 92 of the random tokens is the old one
    assert hidden[(hidden != 4) & (hidden != original)].min() >= 5


def test_words_are_chosen_whole():
    tokens = rows(11, 62)
    starts = np.zeros(tokens.shape, "bool")
    starts[:, 1::3] = True  # words of three pieces, 1-3, 4-6, ...
    masked = mask_tokens(tokens, seed=5, word_starts=starts, **OPTIONS)
    by_word = masked.weights[:, 1:-1].reshape(11, 20, 3)
    np.testing.assert_array_equal(by_word.min(axis=-1), by_word.max(axis=-1))
    assert (masked.weights.sum(axis=1) == 9).all()  # round(0.15 60), a whole number of words


def test_the_seed_decides():
    tokens = rows(3, 41)
    first, again, other = (mask_tokens(tokens, seed=seed, **OPTIONS) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert (first.weights != other.weights).any()


@pytest.mark.parametrize(
    "changes, name",
    [
        ({"probability": 1.5}, "`probability`"),
        ({"mask_share": 0.8, "random_share": 0.3}, "`random_share`"),
        ({"mask_id": 97}, "`mask_id`"),
        ({"vocabulary_size": 50}, "`tokens`"),
        ({"vocabulary_size": 97.0}, "`vocabulary_size`"),
        ({"word_starts": [[True]]}, "`word_starts`"),
        ({"special_ids": [-1]}, "`special_ids`.*got -1"),
        ({"special_ids": [97]}, "`special_ids`.*got 97"),
        ({"special_ids": range(97)}, "`special_ids`.*all of them"),
        ({"special_ids": range(96), "mask_id": 96}, "`special_ids`.*all of them"),
        ({"special_ids": 5}, "`special_ids`.*got 5"),
        ({"special_ids": np.array(5)}, "`special_ids`.*got array"),
        ({"seed": None}, "`seed`.*None"),
        ({"tokens": [[1, 2], [3]]}, "`tokens`.*one length"),
        ({"tokens": [[0.5]]}, "`tokens` must be integers"),
        ({"probability": None}, "`probability` must be in .0, 1.; got None"),
        ({"probability": "0.1"}, "`probability`"),
        ({"mask_share": [0.1]}, "`mask_share`"),
        ({"word_starts": [[1] * 9] * 2}, "`word_starts` must be booleans"),
        ({"word_starts": [[True], [True, False]]}, "`word_starts`.*one length"),
    ],
)
def test_wrong_arguments_are_named(changes, name):
    with pytest.raises(ValueError, match=name):
        mask_tokens(**{"tokens": rows(2, 9), "seed": 0, **OPTIONS, **changes})


def test_no_rows_and_empty_rows_have_nothing_to_guess():
    for shape in ((0, 7), (3, 0)):
        masked = mask_tokens(np.zeros(shape, "int32"), seed=0, **OPTIONS)
        assert masked.tokens.shape == masked.labels.shape == masked.weights.shape == shape
