"""The call of a search: what it accepts, what it compiles, what it keeps."""

import gc
import weakref

import keras
import numpy as np
import pytest
from keras import ops
from scripted_models import RandomModel, ScriptedModel, in_graph

from keras_transformer.decoding import BeamSearch, GreedySearch, Sampling
from keras_transformer.decoding.compilation import count_traces

SEARCHES = [BeamSearch(3, max_length=5), GreedySearch(max_length=5), Sampling(max_length=5, seed=1)]


def test_one_trace_for_a_shape_bucket():
    # Case 41. On torch the steps are recorded, those of the prompt and those of the beam.
    model, traces = RandomModel(13), 2 if keras.config.backend() == "torch" else 1
    source = np.full((3, 5), 7)
    for _ in range(10):
        BeamSearch(4)(model, source)
    assert count_traces(model) == 1
    for length in range(1, 11):  # two buckets of width, 8 and 16
        BeamSearch(4)(model, np.full((4, length), 7))
    assert count_traces(model) == 2
    for prompt_length in range(2, 12):  # two buckets of prompts, 8 and 16
        BeamSearch(4)(model, source, np.full((3, prompt_length), 7))
    assert count_traces(model) == 2 + 2 * traces


def test_numbers_do_not_trace_anew():
    model = RandomModel(13)
    source = np.full((2, 3), 7)
    for alpha in (0.0, 0.6, 1.0):
        BeamSearch(2, alpha)(model, source)
    assert count_traces(model) == 1
    for temperature in (0.5, 0.9, 1.0):
        search = Sampling(temperature, top_p=0.1 + temperature / 2, seed=int(10 * temperature))
        search(model, source)
        search.temperature = 0.7
        search(model, source)
    assert count_traces(model) == 2


@pytest.mark.parametrize("search", SEARCHES)
def test_call_equals_decode(search):
    model = RandomModel(13, seed=1)
    source = np.random.default_rng(0).integers(1, 13, (3, 5))
    called = search(model, source)
    graph = in_graph(lambda source: search.decode(model, source))
    decoded = graph(ops.convert_to_tensor(source, dtype="int32"))
    for a, b in zip(called, decoded, strict=True):
        np.testing.assert_allclose(a, ops.convert_to_numpy(b), atol=1e-5)


class Counter(ScriptedModel):
    """Says 3 as often as the first token of its source tells, and then the end."""

    def __init__(self):
        super().__init__(13, self.count)
        self.rows = []  # of each step that is traced, or recorded

    def step(self, tokens, state):
        self.rows.append(tokens.shape[0])
        return super().step(tokens, state)

    def count(self, prefix, index, source):
        wanted = ops.repeat(source[:, 0], prefix.shape[0] // source.shape[0])
        said = ops.where(index > wanted, self.end_id, 3)
        return 9.0 * ops.one_hot(said, self.vocabulary_size)


@pytest.mark.parametrize(
    "search",
    [
        BeamSearch(3, max_length=13),
        GreedySearch(max_length=13),
        Sampling(0.1, seed=1, max_length=13, num_samples=2),
    ],
)
def test_the_last_quarter_goes_on_alone(search):
    model, width = Counter(), search.num_hypotheses
    wanted = [1, 7, 2, 2, 0, 11, 2, 1, 1, 1, 9, 1, 2, 1, 1, 12]
    result = search(model, [[count, 5] for count in wanted])
    assert result.lengths[:, 0].tolist() == [min(count + 1, 13) for count in wanted]
    for tokens, count in zip(result.tokens[:, 0], wanted, strict=True):
        assert tokens.tolist() == [3] * count + [2] + [0] * (12 - count)
    assert set(model.rows) == {16 * width, 4 * width}
    for number in (4, 5, 15):
        alone = search(model, [[wanted[number], 5]])
        np.testing.assert_array_equal(alone.tokens[0], result.tokens[number])
        np.testing.assert_allclose(alone.scores[0], result.scores[number], atol=1e-5)


class Learner:
    """A model of one weight: the bias of a token, and hence what greedy search says."""

    start_id, end_id, pad_id, vocabulary_size = 1, 2, 0, 7

    def __init__(self):
        self.variables = [keras.Variable(np.eye(7, dtype="float32")[3], name="bias")]
        self.scripted = ScriptedModel(7, self.logits)

    def logits(self, prefix, index, source):
        return ops.broadcast_to(self.variables[0], (ops.shape(prefix)[0], 7))

    def start(self, source, max_length):
        return self.scripted.start(source, max_length)

    def step(self, tokens, state):
        return self.scripted.step(tokens, state)


def test_sees_the_weights_as_they_are_now():
    model, search = Learner(), GreedySearch(max_length=2)
    assert search(model, [[3]]).tokens.tolist() == [[[3, 3]]]
    model.variables[0].assign(2 * np.eye(7, dtype="float32")[5])
    assert search(model, [[3]]).tokens.tolist() == [[[5, 5]]]
    assert count_traces(model) == 1


@pytest.mark.skipif(
    keras.config.backend() != "tensorflow",
    reason="JAX cannot do without XLA, and torch has none",
)
def test_a_model_that_xla_cannot_compile_says_so():
    import tensorflow as tf

    class OutsideOfTheGraph(Learner):
        supports_jit = False

        def logits(self, prefix, index, source):
            logits = tf.numpy_function(
                np.negative, [super().logits(prefix, index, source)], "float32"
            )
            return tf.ensure_shape(logits, (prefix.shape[0], 7))

    model = OutsideOfTheGraph()
    model.variables[0].assign(-2 * np.eye(7, dtype="float32")[5])
    assert GreedySearch(max_length=2)(model, [[3]]).tokens.tolist() == [[[5, 5]]]


def test_does_not_keep_the_model_alive():
    model = Learner()
    GreedySearch(max_length=2)(model, [[3]])
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="no unknown sizes elsewhere")
@pytest.mark.parametrize("search", [BeamSearch(3), GreedySearch(), Sampling(top_p=0.9, seed=1)])
def test_unknown_batch_and_length(search):
    # Case 63, for the graph that an export holds.
    import tensorflow as tf

    model = RandomModel(13).reseed(4, end_bias=2.0)

    @tf.function(input_signature=[tf.TensorSpec([None, None], "int32")], autograph=False)
    def graph(source):
        return search.decode(model, source)

    for shape in ((1, 3), (5, 8), (2, 11), (0, 4)):
        source = np.random.default_rng(0).integers(1, 13, shape).astype("int32")
        result = graph(source)
        assert result.tokens.shape == (shape[0], search.num_hypotheses, shape[1] + 50)
        if shape == (5, 8):  # no padding in a call, so the same greatest length
            np.testing.assert_array_equal(result.tokens, search(model, source).tokens)


@pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="only TensorFlow has unknown sizes"
)
def test_prompt_of_unknown_length():
    import tensorflow as tf

    graph = tf.function(
        lambda prompt: GreedySearch(max_length=3).decode(RandomModel(13), prompt, prompt),
        input_signature=[tf.TensorSpec([None, None], "int32")],
        autograph=False,
    )
    with pytest.raises(ValueError, match="`prompt` must have a known length"):
        graph(np.ones((2, 3), "int32"))


@pytest.mark.parametrize("search", SEARCHES)
def test_empty_batch(search):
    result = search(RandomModel(13), np.zeros((0, 5), "int32"))
    assert result.tokens.shape == (0, search.num_hypotheses, 5)
    assert result.scores.shape == result.lengths.shape == (0, search.num_hypotheses)


def test_empty_sentence_beside_another():
    model = RandomModel(13)
    result = BeamSearch(2, max_length=5)(model, np.array([[0, 0], [7, 5]]))
    assert np.isfinite(result.scores).all()
    alone = BeamSearch(2, max_length=5)(model, np.zeros((2, 0), "int32"))
    np.testing.assert_array_equal(alone.tokens[0], result.tokens[0])


def test_nested_source_needs_a_greatest_length():
    class Pair(RandomModel):
        def start(self, source, max_length):
            return super().start(source["ids"], max_length)

    source = {"ids": np.full((3, 5), 7), "weight": np.ones((3, 2, 2))}
    assert GreedySearch(max_length=4)(Pair(13), source).tokens.shape == (3, 1, 4)
    with pytest.raises(ValueError, match="`max_length` must be given"):
        GreedySearch()(Pair(13), source)


@pytest.mark.parametrize(
    "source,prompt,message",
    [
        ([[1, 2], [3]], None, "`source` must be rectangular"),
        ([[1, 13]], None, "`source` must hold ids from 0 to 12.*got 1 to 13"),
        ([[-1, 3]], None, "`source` must hold ids from 0 to 12.*got -1 to 3"),
        ([["a", "b"]], None, "`source` must hold arrays of numbers"),
        (3, None, "`source` must hold arrays of numbers"),
        ([[3]], [[1], [1]], "`prompt` must have one row a sentence.*1.*got 2"),
        ([[3]], [1], "`prompt` must be integer ids of shape"),
        ([[3]], [[]], "`prompt` must be integer ids of shape"),
        ([[3]], [[1.0]], "`prompt` must be integer ids of shape"),
        ([[3]], [[14]], "`prompt` must hold ids from 0 to 12"),
    ],
)
def test_bad_input(source, prompt, message):
    with pytest.raises(ValueError, match=message):
        GreedySearch(max_length=3)(RandomModel(13), source, prompt)


def test_model_without_the_protocol():
    with pytest.raises(ValueError, match="`model` must have start, step.*lacks start, step"):
        GreedySearch()(object(), [[3]])
