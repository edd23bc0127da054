"""The masked language model: its head, the encoder that stays usable, training, saving."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.models import MaskedLanguageModel, TransformerEncoder
from keras_transformer.text import mask_tokens
from keras_transformer.training import SequenceCrossentropy, TokenAccuracy

SIZES = {"num_layers": 1, "model_dim": 12, "num_heads": 3, "intermediate_dim": 19}


def random_model(**options):
    model = MaskedLanguageModel(TransformerEncoder(31, **SIZES, dropout=0.0, **options))
    random = np.random.default_rng(5)
    for variable in model.trainable_variables:
        variable.assign(random.normal(size=variable.shape, scale=0.5))
    return model


def outputs_of(model, tokens):
    return ops.convert_to_numpy(model({"tokens": np.array(tokens, "int32")}))


@pytest.mark.parametrize("tie_weights", [True, False])
def test_the_head_by_hand(tie_weights):
    model = random_model(head_bias=True, tie_weights=tie_weights)
    hidden = outputs_of(model.encoder, [[5, 7]])
    hidden = model.get_layer("head_norm")(model.get_layer("head_dense")(hidden))
    embedding = model.encoder.embedding
    head = embedding.embeddings if tie_weights else ops.transpose(embedding.reverse_embeddings)
    expected = ops.matmul(hidden, ops.transpose(head)) + embedding.bias
    np.testing.assert_allclose(
        outputs_of(model, [[5, 7]]), ops.convert_to_numpy(expected), atol=1e-5
    )


def test_a_file_keeps_the_tie_and_the_bias(tmp_path):
    model = random_model(head_bias=True)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(outputs_of(loaded, [[5, 7]]), outputs_of(model, [[5, 7]]))
    assert loaded.count_params() == model.count_params()
    loaded.encoder.embedding.embeddings.assign(np.zeros((31, 12)))
    bias = ops.convert_to_numpy(loaded.encoder.embedding.bias)
    np.testing.assert_allclose(outputs_of(loaded, [[5, 7]]), np.tile(bias, (1, 2, 1)), atol=1e-6)


@pytest.mark.parametrize("head_bias", [True, False])
def test_fit_by_blocks_trains_the_encoder_in_place(head_bias):
    model = random_model(head_bias=head_bias)
    tokens = np.random.default_rng(1).integers(5, 31, (6, 13))
    masked = mask_tokens(tokens, mask_id=4, vocabulary_size=31, special_ids=[0, 1, 2, 3], seed=1)
    model.compile(keras.optimizers.Adam(0.01), SequenceCrossentropy(0.0), metrics=[TokenAccuracy()])
    logits = outputs_of(model, masked.tokens)
    expected = SequenceCrossentropy(0.0)(masked.labels, logits, masked.weights)
    data = {"x": {"tokens": masked.tokens}, "y": masked.labels, "sample_weight": masked.weights}
    found = model.evaluate(**data, verbose=0, return_dict=True)
    np.testing.assert_allclose(found["loss"], float(expected), rtol=1e-4)
    encoded = outputs_of(model.encoder, masked.tokens)
    losses = model.fit(**data, epochs=12, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert np.abs(outputs_of(model.encoder, masked.tokens) - encoded).max() > 0.01


def test_only_an_encoder_without_pooling_is_taken():
    with pytest.raises(ValueError, match="pooling='mean'"):
        MaskedLanguageModel(TransformerEncoder(31, **SIZES, pooling="mean"))


def test_a_preset_takes_changes():
    model = MaskedLanguageModel.from_preset("bert-base", **SIZES, vocabulary_size=31)
    assert model.encoder.head_bias and model.encoder.pooling is None


@pytest.mark.any_backend  # `Transformer` and its encoder are quantized on each
def test_a_quantized_model_is_near_and_keeps_its_integers(tmp_path):
    model = random_model(head_bias=True)
    right = outputs_of(model, [[5, 7, 11]])
    model.quantize("int8")
    found = outputs_of(model, [[5, 7, 11]])
    assert 0 < np.abs(found - right).max() < 0.1 * np.abs(right).max()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(outputs_of(loaded, [[5, 7, 11]]), found)
