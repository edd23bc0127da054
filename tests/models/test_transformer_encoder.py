"""Encoders: padding, pooling, token types, saving, presets."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import LearnedPositionEncoding, RotaryPosition
from keras_transformer.models import TransformerEncoder

SIZES = {"num_layers": 2, "model_dim": 12, "num_heads": 3, "intermediate_dim": 19}
BERT = {
    "position": LearnedPositionEncoding(max_length=11),
    "num_token_types": 2,
    "normalize_embedding": True,
    "scale_embedding": False,
    "activation": "gelu",
    "epsilon": 1e-12,
}


def random_encoder(**options):
    encoder = TransformerEncoder(31, **SIZES, dropout=0.0, **options)
    random = np.random.default_rng(5)
    for variable in encoder.trainable_variables:
        variable.assign(random.normal(size=variable.shape, scale=0.5))
    return encoder


def outputs_of(encoder, tokens, types=None):
    inputs = {"tokens": np.array(tokens, "int32")}
    if encoder.num_token_types:
        inputs["token_types"] = np.array(types, "int32")
    return ops.convert_to_numpy(encoder(inputs))


@pytest.mark.parametrize("pooling", ["mean", "first", "dense"])
def test_padding_left_or_right_does_not_change_the_pooled_vector(pooling):
    encoder = random_encoder(**BERT, pooling=pooling)
    alone = outputs_of(encoder, [[5, 7, 11]], [[0, 1, 1]])
    padded = outputs_of(
        encoder, [[5, 7, 11, 0, 0], [0, 0, 5, 7, 11]], [[0, 1, 1, 0, 1], [1, 0, 0, 1, 1]]
    )
    np.testing.assert_allclose(padded, np.repeat(alone, 2, axis=0), atol=1e-5)


def test_pooling_by_hand():
    tokens = [[5, 7, 0]]
    hidden = outputs_of(random_encoder(), tokens)
    mean = outputs_of(random_encoder(pooling="mean"), tokens)
    first = outputs_of(random_encoder(pooling="first"), tokens)
    np.testing.assert_allclose(mean, hidden[:, :2].mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(first, hidden[:, 0], atol=1e-6)


def test_a_text_of_padding_is_finite():
    for pooling in (None, "mean", "dense"):
        assert np.isfinite(outputs_of(random_encoder(pooling=pooling), [[0, 0, 0]])).all()


def test_token_types_and_positions_count():
    encoder = random_encoder(**BERT, pooling="mean")
    first = outputs_of(encoder, [[5, 7]], [[0, 0]])
    assert np.abs(first - outputs_of(encoder, [[5, 7]], [[0, 1]])).max() > 0.01
    assert np.abs(first - outputs_of(encoder, [[7, 5]], [[0, 0]])).max() > 0.01


def test_half_precision_is_finite_with_the_epsilon_of_bert():
    encoder = random_encoder(**BERT, pooling="mean", dtype="mixed_float16")
    assert np.isfinite(outputs_of(encoder, [[5, 7, 0]], [[0, 0, 0]])).all()


@pytest.mark.parametrize("options", [BERT, {"position": RotaryPosition(), "pooling": "mean"}])
def test_config_and_file_give_the_same_encoder(options, tmp_path):
    encoder = random_encoder(**options)
    config = encoder.get_config()
    assert TransformerEncoder.from_config(config).get_config() == config
    encoder.save(tmp_path / "encoder.keras")
    loaded = keras.saving.load_model(tmp_path / "encoder.keras")
    expected = outputs_of(encoder, [[5, 7]], [[0, 1]])
    np.testing.assert_array_equal(outputs_of(loaded, [[5, 7]], [[0, 1]]), expected)


def test_a_head_over_the_encoder_trains():
    encoder = random_encoder(pooling="mean")
    model = keras.Model(encoder.input, keras.layers.Dense(1)(encoder.output))
    model.compile(keras.optimizers.Adam(0.01), "mse")
    tokens, labels = np.array([[5, 7], [11, 13]], "int32"), np.array([[1.0], [-1.0]])
    losses = model.fit({"tokens": tokens}, labels, epochs=12, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="`pooling`"):
        TransformerEncoder(31, **SIZES, pooling="max")
    with pytest.raises(ValueError, match="`num_token_types`"):
        TransformerEncoder(31, **SIZES, num_token_types=0)
    with pytest.raises(ValueError, match="bert-base"):
        TransformerEncoder.from_preset("bert")


def test_a_preset_takes_changes():
    small = {**SIZES, "vocabulary_size": 31}
    encoder = TransformerEncoder.from_preset("bert-base", **small)
    assert encoder.pooling == "dense"
    assert outputs_of(encoder, [[5, 7]], [[0, 1]]).shape == (1, 12)


def test_inputs_that_the_model_does_not_have_are_named():
    tokens = np.array([[5, 7, 11]], "int32")
    inputs = {"tokens": tokens, "token_types": np.zeros_like(tokens)}
    with pytest.raises(ValueError, match=r"must be among \['tokens'\]; got \['token_types'\] too"):
        TransformerEncoder(31, **SIZES)(inputs)


def test_a_quantized_model_is_near_and_keeps_its_integers(tmp_path):
    model = random_encoder(pooling="dense")
    right = outputs_of(model, [[5, 7, 11]])
    model.quantize("int8")
    found = outputs_of(model, [[5, 7, 11]])
    assert 0 < np.abs(found - right).max() < 0.1 * np.abs(right).max()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(outputs_of(loaded, [[5, 7, 11]]), found)
