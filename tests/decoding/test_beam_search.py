"""Beam search: laws 2, 4, 5 and 7; cases 25, 27, 29, 33 and 39 of the public reports."""

import functools

import keras
import numpy as np
import pytest
from keras import ops
from scripted_models import (
    RandomModel,
    ScriptedModel,
    TableModel,
    every_output,
    in_graph,
    rescore,
)

from keras_transformer.decoding import BeamSearch, GreedySearch
from keras_transformer.decoding.beam_search import Finished, Live, add_finished, drop_beaten

INFINITY = float("inf")


@functools.cache
def random_model(vocabulary_size=13):
    """One model for many tests: a search of the same shape is compiled once."""
    return RandomModel(vocabulary_size)


def sources(lengths, vocabulary_size, pad_id=0, seed=3):
    random = np.random.default_rng(seed)
    rows = np.full((len(lengths), max(lengths)), pad_id, "int32")
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = random.integers(3, vocabulary_size, length)
    return rows


def assert_read_back(model, source, result, alpha, prompts=None, tolerance=1e-4):
    for b, k in np.ndindex(*result.scores.shape):
        tokens = result.tokens[b, k, : result.lengths[b, k]]
        if result.scores[b, k] == -INFINITY:
            assert len(tokens) == 0
            continue
        prompt = [model.start_id] if prompts is None else list(prompts[b])
        score = rescore(lambda p, b=b: model.read_back(source[b], p), tokens, prompt, alpha)
        assert result.scores[b, k] == pytest.approx(score, abs=tolerance)
        assert (result.tokens[b, k, len(tokens) :] == model.pad_id).all()
        assert list(tokens).count(model.end_id) <= 1
        assert tokens[-1] == model.end_id or len(tokens) == result.tokens.shape[2]


def test_finds_the_best_output_where_greedy_does_not():
    # Case 33. From start: A 0.6, B 0.4. After A: end 0.4, A 0.32, B 0.28. After B: the end.
    end, a, b = 2, 3, 4
    probabilities = np.full((5, 5), 1e-9)
    probabilities[1, [a, b]] = 0.6, 0.4
    probabilities[a, [end, a, b]] = 0.4, 0.32, 0.28
    probabilities[b, end] = 1.0
    model = TableModel(np.log(probabilities))
    source = np.array([[3]])
    greedy = GreedySearch(max_length=7, length_penalty=0.0)(model, source)
    assert greedy.tokens[0, 0, 0] == a
    results = [BeamSearch(3, 0.0, max_length=7)(model, source) for _ in range(10)]
    for result in results:
        np.testing.assert_array_equal(result.tokens, results[0].tokens)
        np.testing.assert_array_equal(result.scores, results[0].scores)
    np.testing.assert_array_equal(results[0].tokens[0, 0], [b, end, 0, 0, 0, 0, 0])
    # B end; A end; and of the one beginning left in the beam, A A, the better way on: A A end.
    expected = np.log([0.4, 0.6 * 0.4, 0.6 * 0.32 * 0.4])
    np.testing.assert_allclose(results[0].scores[0], expected, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
def test_wide_beam_equals_exhaustive_search(alpha):
    # Law 5. Three tokens, four places: 31 outputs, fewer than the beam is wide.
    model = random_model(3).reseed(5)
    source = np.array([[2], [1]], "int32")
    result = BeamSearch(37, alpha, max_length=4)(model, source)
    for b in range(2):
        best = every_output(
            lambda p, b=b: model.read_back(source[b], p),
            3,
            model.end_id,
            [model.start_id],
            4,
            alpha,
        )
        assert len(best) == 31
        expected = [score for score, _ in best]
        np.testing.assert_allclose(result.scores[b, :31], expected, atol=1e-4)
        assert (result.scores[b, 31:] == -INFINITY).all()
        assert tuple(result.tokens[b, 0, : result.lengths[b, 0]]) == best[0][1]
    assert_read_back(model, source, result, alpha)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.7])
@pytest.mark.parametrize("end_bias", [-3.0, 0.0, 2.0])
def test_score_is_that_of_reading_back(alpha, end_bias):
    # Law 4.
    model = random_model().reseed(1, end_bias)
    source = sources([5, 1, 7], 13)
    result = BeamSearch(5, alpha, max_length=9)(model, source)
    assert result.tokens.shape == (3, 5, 9) and result.scores.dtype == np.float32
    assert result.tokens.dtype == result.lengths.dtype == np.int32
    assert_read_back(model, source, result, alpha)
    assert (np.diff(result.scores, axis=1) <= 0).all()
    for hypotheses in result.tokens:
        assert len({tuple(tokens) for tokens in hypotheses}) == 5


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_width_one_equals_greedy(seed, alpha):
    # Law 5.
    model = random_model().reseed(seed)
    source = sources([2, 3, 5, 7, 6, 1], 13, seed=seed)
    beam = BeamSearch(1, alpha, max_length=12)(model, source)
    greedy = GreedySearch(12, alpha)(model, source)
    np.testing.assert_array_equal(beam.tokens, greedy.tokens)
    np.testing.assert_array_equal(beam.lengths, greedy.lengths)
    # XLA in TensorFlow rounds the power of one length and of several differently, by the last bit.
    rtol = 1e-6 if keras.config.backend() == "tensorflow" else 0
    np.testing.assert_allclose(beam.scores, greedy.scores, rtol=rtol)


def test_width_one_equals_greedy_on_equal_logits():
    model = random_model().reseed(0)
    model.head.assign(np.zeros(model.head.shape))
    source = sources([2, 3, 5, 7, 6, 1], 13)
    beam = BeamSearch(1, 0.6, max_length=12)(model, source)
    greedy = GreedySearch(12, 0.6)(model, source)
    assert (greedy.tokens == 0).all()  # the first of equal logits on every backend
    np.testing.assert_array_equal(beam.tokens, greedy.tokens)


def test_batch_does_not_leak():
    # Law 2 and case 25: 20 sources alone, by seven, all at once, and shuffled.
    model = random_model().reseed(2)
    lengths = np.random.default_rng(0).integers(1, 8, 20)
    source = sources(lengths, 13)
    search = BeamSearch(4, max_length=11)
    whole = search(model, source)
    order = np.random.default_rng(1).permutation(20)
    shuffled = search(model, source[order])
    by_seven = [search(model, source[i : i + 7]) for i in range(0, 20, 7)]
    alone = [search(model, source[i : i + 1, : lengths[i]]) for i in range(20)]
    for name, tolerance in (("tokens", 0), ("lengths", 0), ("scores", 1e-4)):
        expected = getattr(whole, name)
        np.testing.assert_allclose(getattr(shuffled, name), expected[order], atol=tolerance)
        for parts in (by_seven, alone):
            joined = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_allclose(joined, expected, atol=tolerance)


def test_long_neighbour_changes_nothing_under_a_strong_penalty():
    # Case 27: padding after the end must not count in the length.
    model = random_model().reseed(2, end_bias=2.0)
    source = sources([3, 7, 5, 1, 2], 13)
    search = BeamSearch(4, length_penalty=3.0, max_length=11)
    alone, together = search(model, source[:1, :3]), search(model, source)
    assert len(set(together.lengths[:, 0])) > 1
    np.testing.assert_array_equal(alone.tokens[0], together.tokens[0])
    np.testing.assert_allclose(alone.scores[0], together.scores[0], atol=1e-4)
    assert_read_back(model, source, together, 3.0)


def counting(calls):
    """Lets a script count the steps that run, on every backend."""

    def script(prefix, index, source):
        calls.append(index)
        end = ops.where(ops.equal(index, 1), -4.0, 9.0)
        row = ops.where(ops.arange(7) == 2, end, ops.arange(7, dtype="float32") / 10)
        return ops.broadcast_to(row, (ops.shape(prefix)[0], 7))

    return script


def test_every_hypothesis_ends_once():
    # Case 29: the end is probable from the second step on; five distinct outputs of a beam of five.
    model = ScriptedModel(7, counting([]))
    result = BeamSearch(5, max_length=20)(model, np.ones((1, 2), "int32"))
    assert len({tuple(tokens) for tokens in result.tokens[0]}) == 5
    for tokens, length in zip(result.tokens[0], result.lengths[0], strict=True):
        assert list(tokens).count(2) == 1 and tokens[length - 1] == 2
        assert (tokens[length:] == 0).all()


@pytest.mark.skipif(
    keras.config.backend() != "torch", reason="steps are counted where they are run"
)
def test_stops_as_soon_as_nothing_can_win():
    # Case 29. Five outputs end at step 2; log 0.9998 / 1 per token can still not beat them at 20.
    calls = []
    BeamSearch(5, length_penalty=0.0, max_length=20).decode(
        ScriptedModel(7, counting(calls)), ops.ones((1, 2), "int32")
    )
    assert len(calls) == 2


def test_longer_output_wins_under_a_penalty():
    # From start: end 0.5 or A 0.5. After A: A for certain, three times, then the end.
    def script(prefix, index, source):
        first = ops.log(ops.array([1e-9, 1e-9, 0.5, 0.5]))
        later = ops.where(ops.arange(4) == ops.where(index < 5, 3, 2), 0.0, -20.0)
        row = ops.where(ops.equal(index, 1), first, later)
        return ops.broadcast_to(row, (ops.shape(prefix)[0], 4))

    result = BeamSearch(2, 1.0, max_length=9)(ScriptedModel(4, script), np.ones((1, 1), "int32"))
    np.testing.assert_array_equal(result.tokens[0, 0], [3, 3, 3, 3, 2, 0, 0, 0, 0])
    np.testing.assert_array_equal(result.tokens[0, 1], [2, 0, 0, 0, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(result.scores[0], np.log(0.5) / np.array([10 / 6, 1]), rtol=1e-5)


def test_cut_hypotheses_are_scored_as_they_stand():
    model = random_model().reseed(4, end_bias=-1e4)
    source = sources([3, 7, 2], 13)
    result = BeamSearch(5, 0.6, max_length=9)(model, source)
    assert (result.lengths == 9).all() and not (result.tokens == model.end_id).any()
    assert_read_back(model, source, result, 0.6)


def test_padding_may_share_an_id_with_the_end():
    # Case 39: lengths say what is padding, ids do not.
    model = RandomModel(11, seed=8, pad_id=2)
    source = sources([4, 6, 1], 11, pad_id=2)
    result = BeamSearch(3, max_length=9)(model, source)
    assert (result.tokens == 0).sum() < (result.tokens == 2).sum()
    for b, k in np.ndindex(3, 3):
        tokens, length = result.tokens[b, k], result.lengths[b, k]
        assert 2 not in tokens[: length - 1] and (tokens[length:] == 2).all()
        tokens = tokens[:length]
        score = rescore(lambda p, b=b: model.read_back(source[b], p), tokens, [1], 0.6)
        assert result.scores[b, k] == pytest.approx(score, abs=1e-4)
    alone = BeamSearch(3, max_length=9)(model, source[1:2])
    np.testing.assert_array_equal(alone.tokens[0], result.tokens[1])


@pytest.mark.parametrize("prompt_length", [1, 2, 8, 9])
def test_prompts(prompt_length):
    model = random_model().reseed(7)
    source = sources([3, 5, 7], 13)
    prompt = np.random.default_rng(2).integers(3, 13, (3, prompt_length))
    result = BeamSearch(5, max_length=9)(model, source, prompt)
    assert result.tokens.shape == (3, 5, 9)
    assert_read_back(model, source, result, 0.6, prompts=prompt)


def test_prompt_in_a_graph():
    model = random_model().reseed(7)
    source, prompt = sources([3, 5, 7], 13), np.array([[7, 5]] * 3, "int32")
    search = BeamSearch(5, max_length=9)
    called = search(model, source, prompt)
    graph = in_graph(lambda source, prompt: search.decode(model, source, prompt))
    result = graph(ops.convert_to_tensor(source), ops.convert_to_tensor(prompt))
    np.testing.assert_array_equal(ops.convert_to_numpy(result.tokens), called.tokens)
    np.testing.assert_allclose(ops.convert_to_numpy(result.scores), called.scores, atol=1e-5)


def test_half_precision_logits():
    half = RandomModel(13, seed=7, dtype="bfloat16")
    source = sources([3, 5], 13)
    result = BeamSearch(4, max_length=7)(half, source)
    assert result.scores.dtype == np.float32
    # bfloat16 keeps 8 bits of logits up to 10, the sum of seven of which is read back here.
    assert_read_back(half, source, result, 0.6, tolerance=0.3)


@functools.cache
def table_model():
    return TableModel(np.zeros((5, 5)))


@pytest.mark.parametrize("bad", [float("nan"), INFINITY, -INFINITY])
def test_logits_that_are_not_finite_never_come_first(bad):
    # Law 7. A takes the row to ruin at the next step, B does not.
    a, b = 3, 4
    table = np.full((5, 5), -9.0)
    table[1, [a, b]] = 2.0, 1.0
    table[a] = bad
    table[b, 2] = 3.0
    model, source = table_model(), np.ones((1, 1), "int32")
    model.table.assign(table)
    result = BeamSearch(2, max_length=6)(model, source)
    assert not np.isnan(result.scores).any()
    np.testing.assert_array_equal(result.tokens[0, 0, :3], [b, 2, 0])
    table[1, b] = bad
    for search in (BeamSearch(2, max_length=6), GreedySearch(max_length=6)):
        for row in (np.full(5, bad), np.where(np.arange(5) == 2, float("nan"), 1.0)):
            table[1] = row
            model.table.assign(table)
            result = search(model, source)
            assert (result.scores == -INFINITY).all() and (result.tokens == 0).all()
            assert (result.lengths == 0).all()


def test_default_length_is_that_of_the_padded_source_and_fifty():
    # Section 6.1 of the paper; a call pads to a multiple of 8, a graph takes what it is given.
    model, source = random_model().reseed(0, end_bias=9.0), sources([11], 13)
    assert BeamSearch()(model, source).tokens.shape == (1, 4, 66)
    graph = in_graph(lambda source: BeamSearch().decode(model, source))
    assert graph(ops.convert_to_tensor(source)).tokens.shape == (1, 4, 61)


def test_add_finished_keeps_the_best_in_order():
    def tokens(*ids):
        return ops.array([[[i] for i in ids]], dtype="int32")

    scores = ops.array([[-1.0, -INFINITY]])
    finished = Finished(tokens(11, 0), ops.array([[3, 0]], dtype="int32"), scores)
    live = Live(tokens(13, 17), ops.array([[13, 17]], dtype="int32"), ops.array([[-4.0, -6.0]]))
    ended = ops.array([[True, False]])
    after = add_finished(finished, live, ended, ops.array(7, dtype="int32"), 1.0)
    np.testing.assert_array_equal(ops.convert_to_numpy(after.tokens)[0, :, 0], [11, 13])
    np.testing.assert_array_equal(ops.convert_to_numpy(after.lengths)[0], [3, 7])
    np.testing.assert_allclose(ops.convert_to_numpy(after.scores)[0], [-1.0, -4.0 / 2])
    # Divided by 5 at best, -4 can no longer beat -0.8; at 6 it can.
    for penalty, alive in ((5.0, [False, False]), (6.0, [True, False])):
        worst = finished._replace(scores=ops.array([[-0.7, -0.8]]))
        left = drop_beaten(live, ops.array([[False, False]]), worst, penalty, 2).scores
        np.testing.assert_array_equal(ops.convert_to_numpy(left)[0] > -INFINITY, alive)


def test_a_sentence_is_done_when_none_can_come_among_those_wanted():
    nothing = ops.zeros((1, 2, 7), "int32")
    live = Live(nothing, ops.zeros((1, 2), "int32"), ops.array([[-4.0, -4.5]]))
    finished = Finished(nothing, ops.ones((1, 2), "int32"), ops.array([[-0.3, -0.85]]))
    # Divided by 5 at best -4 may come before -0.85, -4.5 may not, and none before -0.3.
    for wanted, alive in ((2, [True, False]), (1, [False, False])):
        left = drop_beaten(live, ops.array([[False, False]]), finished, 5.0, wanted).scores
        np.testing.assert_array_equal(ops.convert_to_numpy(left)[0] > -INFINITY, alive)
    # While one can still win, the others stay as they are.
    finished = finished._replace(scores=ops.array([[-0.85, -2.0]]))
    left = drop_beaten(live, ops.array([[False, False]]), finished, 5.0, 1).scores
    np.testing.assert_array_equal(ops.convert_to_numpy(left)[0] > -INFINITY, [True, True])


@pytest.mark.parametrize("end_bias", [-1.0, 2.0])
def test_fewer_hypotheses_are_the_best_of_all(end_bias):
    model = random_model().reseed(7, end_bias)
    source = sources([5, 1, 7, 3], 13)
    every = BeamSearch(5, max_length=11)(model, source)
    for count in (1, 3, 5):
        found = BeamSearch(5, max_length=11, num_hypotheses=count)(model, source)
        assert found.tokens.shape == (4, count, 11)
        np.testing.assert_array_equal(found.tokens, every.tokens[:, :count])
        np.testing.assert_array_equal(found.lengths, every.lengths[:, :count])
        np.testing.assert_allclose(found.scores, every.scores[:, :count], atol=1e-5)
    best = BeamSearch(5, max_length=11).best_only()
    assert best.get_config() == BeamSearch(5, max_length=11, num_hypotheses=1).get_config()


def test_config_round_trip():
    search = BeamSearch(beam_width=3, length_penalty=0.4, max_length=17)
    config = keras.saving.serialize_keras_object(search)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is BeamSearch and again.get_config() == search.get_config()
    assert search.get_config() == {
        "beam_width": 3,
        "length_penalty": 0.4,
        "max_length": 17,
        "num_hypotheses": 3,
    }


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "argument,value",
    [
        ("beam_width", 0),
        ("beam_width", 2.0),
        ("beam_width", True),
        ("length_penalty", -0.1),
        ("length_penalty", float("nan")),
        ("length_penalty", "0.6"),
        ("max_length", 0),
        ("max_length", 7.5),
        ("num_hypotheses", 0),
        ("num_hypotheses", 5),
    ],
)
def test_bad_arguments(argument, value):
    with pytest.raises(ValueError, match=f"`{argument}` must be .*got"):
        BeamSearch(**{argument: value})
