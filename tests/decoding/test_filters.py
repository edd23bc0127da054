"""What sampling does to logits: cases 35 and 37 of the public reports."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.filters import in_nucleus, penalize_repetition


def test_repetition_penalty_lowers_both_signs():
    # Case 35.
    logits = ops.array([[-1.0, 2.0, 0.5]])
    seen = ops.array([[True, True, False]])
    penalized = ops.convert_to_numpy(penalize_repetition(logits, seen, 2.0))
    np.testing.assert_allclose(penalized, [[-2.0, 1.0, 0.5]])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "probabilities,top_p,kept",
    [
        ([0.6, 0.3, 0.1], 0.7, [True, True, False]),
        ([0.6, 0.3, 0.1], 0.5, [True, False, False]),
        ([0.6, 0.3, 0.1], 1e-9, [True, False, False]),
        ([0.6, 0.3, 0.1], 1.0, [True, True, True]),
        ([0.25, 0.25, 0.25, 0.25], 0.4, [True, True, False, False]),
    ],
)
def test_nucleus_is_the_smallest_set(probabilities, top_p, kept, dtype):
    # Case 37.
    logits = ops.cast(ops.log(ops.array([probabilities])), dtype)
    np.testing.assert_array_equal(ops.convert_to_numpy(in_nucleus(logits, top_p)), [kept])


def test_whole_nucleus_of_a_large_vocabulary():
    # In float32 the sum of these reaches 1 long before the last.
    logits = -ops.arange(5003, dtype="float32") / 11
    assert ops.convert_to_numpy(in_nucleus(logits[None], 1.0)).all()
