"""Steps of one token on torch: what is replayed is what the model would have said."""

import keras
import numpy as np
import pytest
from keras import ops
from scripted_models import RandomModel

from keras_transformer.decoding import BeamSearch, GreedySearch
from keras_transformer.decoding.compilation import count_traces
from keras_transformer.decoding.recorded_steps import RecordedModel
from keras_transformer.layers import (
    AlibiBias,
    BlockwiseAttention,
    RandomFeatureAttention,
    RotaryPosition,
    SlidingWindowAttention,
)
from keras_transformer.models import CausalLanguageModel, Transformer

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "torch", reason="steps are recorded on torch; elsewhere compiled"
)
SOURCE = np.random.default_rng(1).integers(4, 29, (3, 5)).astype("int32")
CHOICES = {
    "plain": {},
    "rotary": {"position": RotaryPosition(), "mechanism": "blockwise"},
    "window": {"position": AlibiBias(), "mechanism": SlidingWindowAttention(3, 1)},
    "random features": {"mechanism": RandomFeatureAttention(8, seed=1)},
    "half precision": {"dtype": "mixed_bfloat16"},
}


def transformer(tie_weights=False, **options):
    keras.utils.set_random_seed(1706)
    model = Transformer(29, 2, 12, 3, 17, tie_weights=tie_weights, **options)
    random = np.random.default_rng(9)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            variable.assign(random.normal(scale=0.4, size=variable.shape))
    return model


def recorded(model):
    """Returns the model over its records, and those."""
    records = {}
    return RecordedModel(model, records, lambda: None), records


def steps(model, source=SOURCE, count=4):
    """Returns the logits of tokens read one by one."""
    import torch

    state, found = model.start(source, count), []
    state = state._replace(index=ops.cast(state.index, "int32"))
    with torch.no_grad():
        for token in range(count):
            logits, state = model.step(ops.full((len(source), 1), 5 + token, "int32"), state)
            found.append(ops.convert_to_numpy(logits))
    return np.stack(found)


@pytest.mark.parametrize("name", CHOICES)
def test_replayed_steps_are_the_models(name):
    model = transformer(**CHOICES[name])
    recording, records = recorded(model)
    right = steps(model)
    for _ in range(2):  # the first step of all is the one that is taken down
        np.testing.assert_allclose(steps(recording), right, atol=1e-5)
    assert len(records) == 1 and None not in records.values()


def test_steps_of_one_sentence_are_replayed():
    # Whose logits are made another way, by the vocabulary's own matrix.
    model = transformer(tie_weights=True)
    recording, records = recorded(model)
    right = steps(model, SOURCE[:1])
    np.testing.assert_allclose(steps(recording, SOURCE[:1]), right, atol=1e-5)
    assert len(records) == 1 and None not in records.values()


def test_searches_say_the_same():
    model = transformer()
    for search in (BeamSearch(4, max_length=7), GreedySearch(max_length=7)):
        called = search(model, SOURCE)
        written = search.decode(model, ops.convert_to_tensor(SOURCE))
        np.testing.assert_array_equal(called.tokens, ops.convert_to_numpy(written.tokens))
    assert count_traces(model) == 2


def test_weights_that_are_assigned_and_weights_that_are_replaced():
    model = transformer()
    recording, records = recorded(model)
    steps(recording)
    for variable in model.trainable_variables:
        variable.assign(0.5 * variable)
    np.testing.assert_allclose(steps(recording), steps(model), atol=1e-5)
    assert len(records) == 1
    model.quantize("int8")
    recording = RecordedModel(model, records, lambda: None)
    np.testing.assert_allclose(steps(recording), steps(model), atol=1e-5)
    assert len(records) == 2


def test_a_step_that_looks_at_values_runs_as_it_is_written():
    class Looking(RandomModel):
        def step(self, tokens, state):
            logits, state = super().step(tokens, state)
            return (logits if int(tokens[0, 0]) < 7 else -logits), state

    recording, records = recorded(Looking(29))
    np.testing.assert_allclose(steps(recording), steps(Looking(29)), atol=1e-5)
    assert list(records.values()) == [None]


def test_blocks_of_scores_are_not_recorded():
    # More hypotheses than are read the plain way; which blocks are visited hangs on their values.
    model = CausalLanguageModel(
        29, 1, 12, 3, 17, mechanism=BlockwiseAttention(3), position=AlibiBias(), seed=1
    )
    search = BeamSearch(67, max_length=5)
    called = search(model, SOURCE)
    written = search.decode(model, ops.convert_to_tensor(SOURCE))
    np.testing.assert_allclose(called.scores, ops.convert_to_numpy(written.scores), atol=1e-4)


def test_an_error_of_a_step_is_an_error():
    class Wrong(RandomModel):
        def step(self, tokens, state):
            raise RuntimeError("no such step")

    with pytest.raises(RuntimeError, match="no such step"):
        GreedySearch(max_length=5)(Wrong(29), SOURCE)
