"""What every head looks at, as arrays."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.models import Transformer
from keras_transformer.visualization import attention_weights

SOURCE = [[5, 7, 11, 3, 0], [9, 3, 0, 0, 0], [4, 4, 8, 6, 3]]
TARGET = [[2, 10, 7], [2, 5, 0], [2, 6, 4]]


def small_model(**options):
    return Transformer(
        vocabulary_size=13,
        num_layers=2,
        num_decoder_layers=3,
        model_dim=14,
        num_heads=7,
        intermediate_dim=17,
        **options,
    )


def test_a_matrix_for_every_block_and_head():
    weights = attention_weights(small_model(), SOURCE, TARGET)
    assert weights.encoder.shape == (2, 3, 7, 5, 5)
    assert weights.decoder.shape == (3, 3, 7, 3, 3)
    assert weights.cross.shape == (3, 3, 7, 3, 5)
    for part in weights:
        assert part.dtype == np.float32
    real = np.not_equal(SOURCE, 0)[None, :, None, :]  # the rows of padding may be zeros
    sums = np.where(real, weights.encoder.sum(axis=-1), 1)
    np.testing.assert_allclose(sums, 1, atol=1e-5)
    np.testing.assert_allclose(weights.cross[:, [0, 2]].sum(axis=-1), 1, atol=1e-5)


def test_padding_and_the_future_get_nothing():
    weights = attention_weights(small_model(), SOURCE, TARGET)
    padding = np.equal(SOURCE, 0)
    assert not weights.encoder[:, padding[:, None, None, :].repeat(7, 1).repeat(5, 2)].any()
    assert not weights.cross[:, padding[:, None, None, :].repeat(7, 1).repeat(3, 2)].any()
    assert not np.triu(weights.decoder, k=1).any()


@pytest.mark.parametrize("normalize_first", [False, True])
def test_the_weights_are_those_that_the_model_uses(normalize_first):
    """Read block by block with weights returned, the model gives its usual logits."""
    model = small_model(normalize_first=normalize_first)
    source, target = np.array(SOURCE, "int32"), np.array(TARGET, "int32")
    encoded, mask = model.encode(source)
    hidden, positions, target_mask = model._embed_target(target)
    hidden, _ = model._parts.decoder.attention_weights(
        hidden, positions, context=encoded, mask=target_mask, context_mask=mask
    )
    np.testing.assert_allclose(
        ops.convert_to_numpy(model._parts.embedding(hidden, reverse=True)),
        ops.convert_to_numpy(model({"source": source, "target": target})),
        atol=1e-5,
    )


def test_half_precision_comes_as_float32():
    weights = attention_weights(small_model(dtype="mixed_bfloat16"), SOURCE, TARGET)
    np.testing.assert_allclose(weights.cross.sum(axis=-1), 1, atol=2e-2)


def test_wrong_input():
    model = small_model()
    with pytest.raises(ValueError, match="`model` must have the method"):
        attention_weights(object(), SOURCE, TARGET)
    with pytest.raises(ValueError, match=r"`source_ids` must be integer ids .*Pass \[ids\]"):
        attention_weights(model, SOURCE[0], TARGET)
    with pytest.raises(ValueError, match="`target_ids` must be integer"):
        attention_weights(model, SOURCE, np.zeros((3, 2)))
    with pytest.raises(ValueError, match="as many rows; got 3 and 1"):
        attention_weights(model, SOURCE, TARGET[:1])
