"""Sampling: the distribution, the filters, the seed."""

import functools

import keras
import numpy as np
import pytest
from keras import ops
from scripted_models import RandomModel, TableModel, log_softmax, rescore

from keras_transformer.decoding import GreedySearch, Sampling
from keras_transformer.decoding.sampling import draw

PROBABILITIES = np.array([0.05, 0.1, 0.05, 0.5, 0.3])


@functools.cache
def steady_model():
    return TableModel(np.log(np.tile(PROBABILITIES, (5, 1))))


@functools.cache
def random_model():
    return RandomModel(13, seed=7)


def one_token(search, source=((3,),)):
    """The first token of each sample of a model that always says PROBABILITIES."""
    return search(steady_model(), np.asarray(source)).tokens[:, :, 0]


def test_frequencies_are_the_probabilities():
    tokens = one_token(Sampling(seed=3, max_length=1, num_samples=4001))
    frequencies = np.bincount(tokens[0], minlength=5) / 4001
    np.testing.assert_allclose(frequencies, PROBABILITIES, atol=0.03)


def test_temperature_sharpens():
    tokens = one_token(Sampling(temperature=0.5, seed=3, max_length=1, num_samples=4001))
    frequencies = np.bincount(tokens[0], minlength=5) / 4001
    sharp = PROBABILITIES**2 / (PROBABILITIES**2).sum()
    np.testing.assert_allclose(frequencies, sharp, atol=0.03)


@pytest.mark.parametrize(
    "filters,allowed",
    [
        ({"top_k": 2}, {3, 4}),
        ({"top_p": 0.4}, {3}),
        ({"top_p": 0.85}, {3, 4, 1}),
        ({"top_p": 1.0}, {0, 1, 2, 3, 4}),
        ({"top_k": 3, "top_p": 0.6}, {3, 4}),
        ({"top_k": 3, "top_p": 0.5}, {3}),
    ],
)
def test_filters_allow_the_most_probable(filters, allowed):
    tokens = one_token(Sampling(**filters, seed=5, max_length=1, num_samples=499))
    assert set(tokens.flatten().tolist()) == allowed


def test_steps_and_samples_draw_anew():
    model = TableModel(np.zeros((31, 31)))
    result = Sampling(seed=1, max_length=19, num_samples=7)(model, np.ones((1, 1), "int32"))
    assert len({tuple(tokens) for tokens in result.tokens[0]}) == 7
    longest = result.tokens[0, np.argmax(result.lengths[0])]
    assert len(set(longest.tolist())) > 3
    other = Sampling(seed=2, max_length=19, num_samples=7)(model, np.ones((1, 1), "int32"))
    assert not np.array_equal(result.tokens, other.tokens)


def test_seed_repeats_and_none_does_not():
    model, source = random_model(), np.full((2, 3), 5)
    fixed, free = Sampling(seed=11, max_length=13), Sampling(max_length=13, num_samples=3)
    np.testing.assert_array_equal(fixed(model, source).tokens, fixed(model, source).tokens)
    keras.utils.set_random_seed(7)
    first, second = free(model, source), free(model, source)
    assert not np.array_equal(first.tokens, second.tokens)
    keras.utils.set_random_seed(7)
    np.testing.assert_array_equal(free(model, source).tokens, first.tokens)


def test_batch_does_not_leak():
    # Law 2.
    model = random_model()
    source = np.random.default_rng(3).integers(1, 13, (5, 4))
    search = Sampling(seed=13, top_p=0.9, repetition_penalty=1.3, max_length=7, num_samples=3)
    whole = search(model, source)
    for b in range(5):
        alone = search(model, source[b : b + 1])
        np.testing.assert_array_equal(alone.tokens[0], whole.tokens[b])
        np.testing.assert_allclose(alone.scores[0], whole.scores[b], atol=1e-4)


def test_score_is_that_of_the_model_unfiltered():
    # Law 4.
    model = random_model()
    source = np.random.default_rng(3).integers(1, 13, (3, 4))
    prompt = np.random.default_rng(4).integers(3, 13, (3, 2))
    search = Sampling(0.7, top_k=5, repetition_penalty=1.2, seed=2, max_length=8, num_samples=5)
    result = search(model, source, prompt)
    assert (np.diff(result.scores, axis=1) <= 0).all()
    for b, k in np.ndindex(3, 5):
        tokens = result.tokens[b, k, : result.lengths[b, k]]
        score = rescore(lambda p, b=b: model.read_back(source[b], p), tokens, prompt[b], 0.0)
        assert result.scores[b, k] == pytest.approx(score, abs=1e-4)
        assert (result.tokens[b, k, len(tokens) :] == 0).all()


def test_one_candidate_equals_greedy():
    model, source = random_model(), np.random.default_rng(3).integers(1, 13, (3, 4))
    sampled = Sampling(top_k=1, max_length=9)(model, source)
    greedy = GreedySearch(max_length=9, length_penalty=0.0)(model, source)
    np.testing.assert_array_equal(sampled.tokens, greedy.tokens)
    np.testing.assert_allclose(sampled.scores, greedy.scores, atol=1e-5)


def test_repetition_penalty_counts_prompt_and_sample():
    # With a penalty this strong no token comes twice, the prompt's included.
    table = np.full((11, 11), 5.0)
    table[:, 2] = -50.0
    search = Sampling(repetition_penalty=1e6, seed=0, max_length=7, num_samples=3)
    result = search(TableModel(table), np.ones((1, 1), "int32"), np.array([[7, 9]]))
    for tokens in result.tokens[0]:
        assert len(set(tokens.tolist())) == 7 and not {7, 9} & set(tokens.tolist())


def test_never_draws_what_is_excluded():
    logits = ops.array([[0.0, -float("inf"), 0.0, -float("inf")]] * 301)
    for step in range(3):
        seed = ops.array(5, dtype="int32"), ops.array(step, dtype="int32")
        assert set(ops.convert_to_numpy(draw(logits, 301, *seed)).tolist()) == {0, 2}


def test_logits_that_are_not_finite():
    table = np.full((5, 5), float("nan"))
    result = Sampling(max_length=3, num_samples=2)(TableModel(table), np.ones((1, 1), "int32"))
    assert (result.scores == -float("inf")).all() and (result.lengths == 0).all()
    assert log_softmax([0.0, 0.0])[0] == pytest.approx(np.log(0.5))


def test_config_round_trip():
    search = Sampling(0.7, 5, 0.9, 1.1, seed=4, max_length=3, num_samples=2)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(search))
    assert again.get_config() == search.get_config()
    assert search.get_config() == {
        "temperature": 0.7,
        "top_k": 5,
        "top_p": 0.9,
        "repetition_penalty": 1.1,
        "seed": 4,
        "max_length": 3,
        "num_samples": 2,
    }


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "argument,value",
    [
        ("temperature", 0.0),
        ("temperature", float("inf")),
        ("top_k", 0),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("repetition_penalty", 0),
        ("seed", -1),
        ("seed", 1.5),
        ("num_samples", 0),
        ("max_length", -1),
    ],
)
def test_bad_arguments(argument, value):
    with pytest.raises(ValueError, match=f"`{argument}` must be .*got"):
        Sampling(**{argument: value})
