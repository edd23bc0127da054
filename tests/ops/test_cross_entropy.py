"""The blocked head gives the loss, statistics and gradients of the plain one."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.ops import cross_entropy
from keras_transformer.ops.cross_entropy import head_statistics, token_statistics

WIDTH, VOCABULARY = 7, 13


def head(rows, seed=0):
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, WIDTH)).astype("float32")
    kernel = random.normal(size=(VOCABULARY, WIDTH)).astype("float32")
    targets = random.integers(0, VOCABULARY, rows).astype("int32")
    weights = (random.random(rows) > 0.3).astype("float32")
    return features, kernel, targets, weights


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 64, 131])  # less than a block, one block, two and a bit
def test_blocks_equal_the_whole_matrix(gradients, monkeypatch, rows, smoothing):
    monkeypatch.setattr(cross_entropy, "BLOCK_ELEMENTS", VOCABULARY)
    features, kernel, targets, weights = head(rows)

    def by_blocks(features, kernel):
        return head_statistics(
            features,
            kernel,
            ops.convert_to_tensor(targets),
            ops.convert_to_tensor(weights),
            smoothing,
        )[0]

    def plainly(features, kernel):
        logits = ops.matmul(features, ops.transpose(kernel))
        loss = token_statistics(logits, ops.convert_to_tensor(targets), smoothing)[0]
        return ops.sum(loss * ops.convert_to_tensor(weights))

    upstream = np.float32(0.5)
    found, slopes = gradients(by_blocks, (features, kernel), upstream)
    wanted, wanted_slopes = gradients(plainly, (features, kernel), upstream)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    for slope, other in zip(slopes, wanted_slopes, strict=True):
        np.testing.assert_allclose(slope, other, atol=1e-5)


def test_statistics_of_each_row_without_gradient():
    features, kernel, targets, weights = head(17)
    total, loss, likelihood, correct = head_statistics(
        *map(ops.convert_to_tensor, (features, kernel, targets, weights)), 0.1, gradient=False
    )
    logits = ops.convert_to_tensor(features @ kernel.T)
    wanted = token_statistics(logits, ops.convert_to_tensor(targets), 0.1)
    real = weights > 0
    for found, other in zip((loss, likelihood, correct), wanted, strict=True):
        found, other = ops.convert_to_numpy(found), ops.convert_to_numpy(other)
        np.testing.assert_allclose(found[real], other[real], atol=1e-5)
    np.testing.assert_allclose(
        float(total), (ops.convert_to_numpy(wanted[0]) * weights).sum(), rtol=1e-5
    )


def test_padding_alone_costs_nothing(gradients):
    features, kernel, targets, _ = head(5)
    nothing = ops.zeros(5)
    found, slopes = gradients(
        lambda features, kernel: head_statistics(
            features, kernel, ops.convert_to_tensor(targets), nothing, 0.1
        )[0],
        (features, kernel),
        np.float32(1.0),
    )
    assert found == 0.0
    assert all(np.all(slope == 0.0) for slope in slopes)


def test_half_precision_is_near_and_its_statistics_are_float32():
    features, kernel, targets, weights = head(19)
    arguments = map(ops.convert_to_tensor, (targets, weights))
    features_in_half = ops.cast(features, "bfloat16")
    half = head_statistics(features_in_half, ops.convert_to_tensor(kernel), *arguments)
    wanted = token_statistics(
        ops.convert_to_tensor(features @ kernel.T), ops.convert_to_tensor(targets), 0.0
    )[0]
    assert keras.backend.standardize_dtype(half[1].dtype) == "float32"
    difference = ops.convert_to_numpy(half[0]) / (ops.convert_to_numpy(wanted) * weights).sum()
    assert abs(difference - 1) < 0.02


def test_smoothing_by_hand():
    # Two classes, logits 0 and ln 3: probabilities 1/4 and 3/4; the target has 1 - e + e/2.
    loss, likelihood, correct = token_statistics(
        ops.convert_to_tensor([[0.0, np.log(3.0)]]), ops.convert_to_tensor([1]), 0.2
    )
    np.testing.assert_allclose(float(likelihood[0]), -np.log(0.75), rtol=1e-6)
    np.testing.assert_allclose(float(loss[0]), -0.9 * np.log(0.75) - 0.1 * np.log(0.25), rtol=1e-6)
    assert float(correct[0]) == 1.0
