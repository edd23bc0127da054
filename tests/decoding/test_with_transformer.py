"""Searches over a small Transformer with random weights: laws 2, 3 and 4, cases 25 and 31."""

import functools

import keras
import numpy as np
import pytest
from keras import ops
from scripted_models import ScriptedModel, in_graph, log_softmax

from keras_transformer.decoding import BeamSearch, GreedySearch
from keras_transformer.layers import (
    AlibiBias,
    LearnedPositionEncoding,
    RelativePositionBias,
    RotaryPosition,
)
from keras_transformer.models import CausalLanguageModel, Transformer

SCHEMES = {
    "sinusoidal": lambda: "sinusoidal",
    "rotary": RotaryPosition,
    "alibi": AlibiBias,
    "relative": RelativePositionBias,
}


@functools.cache
def transformer(scheme="sinusoidal", dtype="float32"):
    keras.utils.set_random_seed(1706)
    model = Transformer(
        vocabulary_size=29,
        num_layers=1,
        model_dim=24,
        num_heads=3,
        intermediate_dim=37,
        position=SCHEMES[scheme](),
        tie_weights=False,  # a tied random model repeats the token before
        dtype=dtype,
    )
    # Greater weights than at the start of training, so that outputs differ from one another.
    random = np.random.default_rng(9)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            variable.assign(random.normal(scale=0.4, size=variable.shape))
    return model


def sources(lengths, seed=3):
    random = np.random.default_rng(seed)
    rows = np.zeros((len(lengths), max(lengths)), "int32")
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = random.integers(4, 29, length)
    return rows


def assert_read_back(model, source, result, alpha, tolerance=1e-4):
    """Law 4: teacher forcing, without a cache, gives the scores."""
    batch, width, length = result.tokens.shape
    source = np.repeat(source, width, axis=0)
    tokens = result.tokens.reshape(batch * width, length)
    start = np.full((batch * width, 1), model.start_id)
    target = np.concatenate([start, tokens[:, :-1]], axis=1)
    logits = ops.convert_to_numpy(model.predict_on_batch({"source": source, "target": target}))
    assert len({tuple(row) for row in tokens}) > 2 * width  # or the test would show little
    for row, count in enumerate(result.lengths.flatten()):
        gained = [log_softmax(logits[row, t])[tokens[row, t]] for t in range(count)]
        score = sum(gained) / ((5 + count) / 6) ** alpha
        assert result.scores.flatten()[row] == pytest.approx(score, abs=tolerance)


class Uncached(ScriptedModel):
    """The same model, which reads the whole prefix anew at each step."""

    def __init__(self, model):
        super().__init__(model.vocabulary_size, self.read, model.start_id, model.end_id, 0)
        self.model = model
        self.variables = model.variables

    def read(self, prefix, index, source):
        rows = ops.shape(prefix)[0] // ops.shape(source)[0]
        inputs = {"source": ops.repeat(source, rows, axis=0), "target": ops.maximum(prefix, 0)}
        logits = self.model(inputs, training=False)
        return ops.take(logits, ops.reshape(index - 1, (1,)), axis=1)[:, 0]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_cached_beam_search_equals_uncached(scheme):
    # Law 3 and case 31.
    model, source = transformer(scheme), sources([5, 2, 7])
    search = BeamSearch(4, max_length=8)
    cached, uncached = search(model, source), search(Uncached(model), source)
    np.testing.assert_array_equal(cached.tokens, uncached.tokens)
    np.testing.assert_allclose(cached.scores, uncached.scores, atol=1e-4)
    assert_read_back(model, source, cached, 0.6)


def test_batch_does_not_leak():
    # Law 2 and case 25: sources alone, together, and shuffled.
    model = transformer()
    lengths = np.array([5, 2, 7, 1, 3, 7, 4])
    source = sources(lengths)
    search = BeamSearch(4, max_length=8)
    whole = search(model, source)
    order = np.random.default_rng(1).permutation(7)
    shuffled = search(model, source[order])
    alone = [search(model, source[i : i + 1, : lengths[i]]) for i in range(7)]
    for name, tolerance in (("tokens", 0), ("lengths", 0), ("scores", 1e-4)):
        expected = getattr(whole, name)
        np.testing.assert_allclose(getattr(shuffled, name), expected[order], atol=tolerance)
        joined = np.concatenate([getattr(part, name) for part in alone])
        np.testing.assert_allclose(joined, expected, atol=tolerance)


def test_prompt_read_in_chunks_equals_prompt_read_at_once():
    # Law 3: a call reads eight tokens and then single ones, a graph all of the prompt in one step.
    model, source = transformer("rotary"), sources([5, 2, 7])
    prompt = np.random.default_rng(2).integers(4, 29, (3, 9)).astype("int32")
    search = BeamSearch(4, max_length=8)
    called = search(model, source, prompt)
    source = np.pad(source, ((0, 0), (0, 1)))
    graph = in_graph(lambda source, prompt: search.decode(model, source, prompt))
    result = graph(ops.convert_to_tensor(source), ops.convert_to_tensor(prompt))
    np.testing.assert_array_equal(ops.convert_to_numpy(result.tokens), called.tokens)
    np.testing.assert_allclose(ops.convert_to_numpy(result.scores), called.scores, atol=1e-4)


def test_half_precision():
    model, source = transformer(dtype="mixed_bfloat16"), sources([5, 2, 7])
    result = BeamSearch(4, max_length=8)(model, source)
    assert result.scores.dtype == np.float32 and np.isfinite(result.scores).all()
    assert_read_back(model, source, result, 0.6, tolerance=0.2)


def test_sees_the_weights_as_they_are_now():
    model, source = transformer("alibi"), sources([5, 2, 7])
    search = BeamSearch(4, max_length=8)
    before = search(model, source)
    kept = [ops.convert_to_numpy(variable.value) for variable in model.variables]
    for variable in model.trainable_variables:
        variable.assign(-0.7 * ops.convert_to_numpy(variable.value))
    after = search(model, source)
    assert not np.array_equal(before.tokens, after.tokens)
    assert_read_back(model, source, after, 0.6)
    for variable, value in zip(model.variables, kept, strict=True):
        variable.assign(value)
    np.testing.assert_array_equal(search(model, source).tokens, before.tokens)


@pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="only TensorFlow has unknown sizes"
)
def test_unknown_batch_and_length():
    # Case 63, for the graph that an export holds.
    import tensorflow as tf

    model, search = transformer(), BeamSearch(3)

    @tf.function(input_signature=[tf.TensorSpec([None, None], "int32")], autograph=False)
    def graph(source):
        return search.decode(model, source)

    for lengths in ([3], [8, 2, 5], [1, 11]):
        source = sources(lengths)
        result = graph(source)
        assert result.tokens.shape == (len(lengths), 3, source.shape[1] + 50)
        if source.shape[1] == 8:
            called = search(model, source)
            np.testing.assert_array_equal(result.tokens, called.tokens)


@pytest.mark.parametrize("prompt_length, max_length", [(1, 11), (3, 9), (9, 3)])
def test_case_19_a_search_never_reads_past_a_table_of_positions(prompt_length, max_length):
    learned = LearnedPositionEncoding(max_length=11)
    options = {"num_layers": 1, "model_dim": 6, "num_heads": 2, "intermediate_dim": 7}
    model = CausalLanguageModel(29, position=learned, **options)
    prompt = np.full((1, prompt_length), 5, "int32")
    found = GreedySearch(max_length)(model, prompt, prompt=prompt)
    assert np.isfinite(found.scores).all() and found.lengths[0, 0] > 0
    with pytest.raises(ValueError, match="`max_length` must be at most 11.*got 12 tokens"):
        GreedySearch(max_length + 1)(model, prompt, prompt=prompt)
    with pytest.raises(ValueError, match="`max_length` must be at most 11"):
        GreedySearch(max_length + 1).decode(model, prompt, prompt=ops.convert_to_tensor(prompt))


def test_case_19_sources_and_targets_past_a_table_of_positions():
    options = {"num_layers": 1, "model_dim": 6, "num_heads": 2, "intermediate_dim": 7}
    model = Transformer(29, position=LearnedPositionEncoding(max_length=11), **options)
    assert BeamSearch(2, max_length=11)(model, sources([11, 3])).tokens.shape == (2, 2, 11)
    with pytest.raises(ValueError, match="`source` must be at most 11.*got 12 tokens"):
        BeamSearch(2, max_length=11)(model, sources([12, 3]))
    with pytest.raises(ValueError, match="`max_length` must be at most 11.*got 58 tokens"):
        BeamSearch(2)(model, sources([3]))
    with pytest.raises(ValueError, match="`max_length` must be at most 11"):
        model.start(sources([3]), 12)


def test_a_model_quantized_after_a_search_is_searched_as_it_is():
    config = transformer().get_config()
    model, twin = (Transformer.from_config(config) for _ in range(2))
    for each in (model, twin):
        each.set_weights(transformer().get_weights())
    search, source = GreedySearch(max_length=5), np.array([[5, 9, 7, 3]])
    before = search(model, source).scores
    model.quantize("int8"), twin.quantize("int8")
    after = search(model, source).scores
    np.testing.assert_allclose(after, search(twin, source).scores, rtol=1e-6)
    assert np.any(after != before)


def test_one_sentence_is_a_row():
    with pytest.raises(ValueError, match=r"`source` must have shape \(B, S\).*got \(2,\)"):
        GreedySearch(max_length=5)(transformer(), np.array([5, 9]))
