"""The loss is a mean over real target tokens: case 43, case 39's loss, and any split of a batch."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.training import Perplexity, SequenceCrossentropy, TokenAccuracy

LOGITS = np.random.default_rng(5).normal(size=(2, 3, 7)).astype("float32")
TARGETS = np.array([[3, 1, 0], [5, 0, 0]], "int32")


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def by_hand(smoothing, targets=TARGETS):
    """The mean over the real tokens, worked out from the definition."""
    logs = log_softmax(LOGITS)
    losses = [
        -(1 - smoothing) * logs[b, t, target] - smoothing * logs[b, t].mean()
        for b, row in enumerate(targets)
        for t, target in enumerate(row)
        if target
    ]
    return np.mean(losses)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_case_43_padding_does_not_count(smoothing):
    loss = SequenceCrossentropy(smoothing)
    np.testing.assert_allclose(float(loss(TARGETS, LOGITS)), by_hand(smoothing), rtol=1e-5)
    wider = np.pad(TARGETS, ((0, 0), (0, 20))), np.pad(LOGITS, ((0, 0), (0, 20), (0, 0)))
    np.testing.assert_allclose(float(loss(*wider)), by_hand(smoothing), rtol=1e-5)
    one_hot = np.eye(7, dtype="float32")[TARGETS]
    np.testing.assert_allclose(float(loss(one_hot, LOGITS)), by_hand(smoothing), rtol=1e-5)


def test_without_smoothing_it_is_keras_crossentropy():
    full = np.array([[3, 1, 2], [5, 6, 4]], "int32")
    wanted = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(full, LOGITS)
    found = SequenceCrossentropy(0.0)(full, LOGITS)
    np.testing.assert_allclose(float(found), float(wanted), rtol=1e-5)


def test_case_39_without_a_padding_id_the_weights_say_what_counts():
    weights = np.array([[1, 1, 0], [1, 0, 0]], "float32")
    found = SequenceCrossentropy(0.1, pad_id=None)(TARGETS, LOGITS, sample_weight=weights)
    np.testing.assert_allclose(float(found), by_hand(0.1), rtol=1e-5)


def test_any_split_of_a_batch_has_the_same_mean():
    metrics = [TokenAccuracy(), Perplexity()]
    for metric in metrics:
        metric.update_state(TARGETS, LOGITS)
        together = float(metric.result())
        metric.reset_state()
        for row in range(2):
            metric.update_state(TARGETS[row : row + 1], LOGITS[row : row + 1])
        np.testing.assert_allclose(float(metric.result()), together, rtol=1e-6)
    np.testing.assert_allclose(float(metrics[1].result()), np.exp(by_hand(0.0)), rtol=1e-5)


def test_nothing_real_is_zero_not_nan():
    nothing = np.zeros((2, 3), "int32")
    assert float(SequenceCrossentropy()(nothing, LOGITS)) == 0.0
    accuracy = TokenAccuracy()
    accuracy.update_state(nothing, LOGITS)
    assert float(accuracy.result()) == 0.0


def test_scores_of_half_precision_are_summed_in_float32():
    half = ops.cast(LOGITS, "float16")
    found = SequenceCrossentropy()(TARGETS, half)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    np.testing.assert_allclose(float(found), by_hand(0.1), rtol=1e-2)


def test_config_round_trip_and_wrong_smoothing():
    loss = SequenceCrossentropy(0.2, pad_id=4)
    assert SequenceCrossentropy.from_config(loss.get_config()).get_config() == loss.get_config()
    with pytest.raises(ValueError, match="`label_smoothing` must be in"):
        SequenceCrossentropy(1.0)
