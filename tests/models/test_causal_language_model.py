"""Decoder-only models: the laws for the recipes of GPT-2 and Llama, saving, search, presets."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import BeamSearch, GreedySearch
from keras_transformer.layers import LearnedPositionEncoding, RotaryPosition
from keras_transformer.models import CausalLanguageModel
from keras_transformer.training import SequenceCrossentropy, TokenAccuracy

SIZES = {"num_layers": 2, "model_dim": 12, "num_heads": 6, "intermediate_dim": 19}
RECIPES = {
    "gpt2": {
        "position": LearnedPositionEncoding(max_length=23),
        "activation": "gelu_tanh",
        "scale_embedding": False,
    },
    "llama": {
        "position": RotaryPosition(layout="half_split"),
        "activation": "silu",
        "gated": True,
        "normalization": "rms",
        "use_bias": False,
        "num_key_value_heads": 2,
        "key_dim": 4,
        "tie_weights": False,
    },
}


def random_model(recipe, **options):
    model = CausalLanguageModel(31, **SIZES, dropout=0.0, **RECIPES[recipe], **options)
    random = np.random.default_rng(5)
    for variable in model.trainable_variables:
        variable.assign(random.normal(size=variable.shape, scale=0.5))
    return model


def logits_of(model, tokens):
    return ops.convert_to_numpy(model(np.array(tokens, "int32")))


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_future_does_not_change_the_past(recipe):
    model = random_model(recipe)
    first = logits_of(model, [[5, 7, 11, 13, 17]])
    other = logits_of(model, [[5, 7, 11, 19, 29]])
    np.testing.assert_allclose(first[:, :3], other[:, :3], atol=1e-5)
    assert np.abs(first[:, 3:] - other[:, 3:]).max() > 0.01


@pytest.mark.parametrize("recipe", RECIPES)
def test_padding_left_or_right_changes_nothing(recipe):
    model = random_model(recipe)
    alone = logits_of(model, [[5, 7, 11]])
    np.testing.assert_allclose(logits_of(model, [[5, 7, 11, 0, 0]])[:, :3], alone, atol=1e-5)
    np.testing.assert_allclose(logits_of(model, [[0, 0, 5, 7, 11]])[:, 2:], alone, atol=1e-5)


@pytest.mark.parametrize("recipe", RECIPES)
def test_cached_steps_equal_the_whole_call_with_left_padding(recipe):
    model = random_model(recipe)
    tokens = np.array([[0, 0, 5, 7, 11], [13, 17, 19, 23, 29]], "int32")
    whole = logits_of(model, tokens)
    state = model.start(tokens, max_length=5)
    logits, state = model.step(ops.convert_to_tensor(tokens[:, :3]), state)  # a prefill of three
    np.testing.assert_allclose(ops.convert_to_numpy(logits), whole[:, 2], atol=1e-4)
    for place in (3, 4):
        logits, state = model.step(ops.convert_to_tensor(tokens[:, place : place + 1]), state)
        np.testing.assert_allclose(ops.convert_to_numpy(logits), whole[:, place], atol=1e-4)


def is_greedy(model, prompt, continuation):
    """Whether each token of the continuation is the most probable one when the model reads it."""
    best = logits_of(model, [[*prompt, *continuation]])[0, len(prompt) - 1 : -1].argmax(axis=-1)
    return best.tolist() == continuation


@pytest.mark.parametrize("recipe", RECIPES)
def test_generate_continues_prompts_of_different_lengths(recipe):
    model = random_model(recipe)
    prompts = [[5, 7, 11], [13], [17, 0, 23]]
    found = model.generate(prompts, GreedySearch(max_length=6))
    for prompt, continuation in zip(prompts, found, strict=True):
        assert len(continuation) == 6 or continuation[-1] == model.end_id
        assert is_greedy(model, prompt, continuation)


def test_left_padded_prompts_are_searched_together():
    model = random_model("llama")
    prompts = np.array([[0, 0, 5], [7, 11, 13]], "int32")
    together = GreedySearch(max_length=5)(model, prompts, prompt=prompts)
    alone = model.generate([[5], [7, 11, 13]], GreedySearch(max_length=5))
    for row in range(2):
        assert together.tokens[row, 0, : together.lengths[row, 0]].tolist() == alone[row]


def test_an_id_that_ends_and_pads_is_read_as_text():
    model = random_model("gpt2", pad_id=30, start_id=30, end_id=30)
    assert np.abs(logits_of(model, [[30, 5]])[:, 1] - logits_of(model, [[5]])[:, 0]).max() > 0.01
    tokens = np.array([[30, 5, 30, 7]], "int32")
    logits, _ = model.step(ops.convert_to_tensor(tokens), model.start(tokens, 4))
    np.testing.assert_allclose(
        ops.convert_to_numpy(logits), logits_of(model, tokens)[:, -1], atol=1e-4
    )


def test_beam_scores_are_those_of_reading_the_output():
    model = random_model("llama")
    result = BeamSearch(beam_width=3, length_penalty=0.0, max_length=4)(
        model, np.array([[5]]), prompt=np.array([[5, 7]])
    )
    for row in range(3):
        tokens = result.tokens[0, row, : result.lengths[0, row]].tolist()
        logits = logits_of(model, [[5, 7, *tokens]])[0, 1:-1]
        log_probabilities = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        score = log_probabilities[np.arange(len(tokens)), tokens].sum()
        np.testing.assert_allclose(result.scores[0, row], score, atol=1e-4)


@pytest.mark.parametrize("recipe", RECIPES)
def test_config_and_file_give_the_same_model(recipe, tmp_path):
    model = random_model(recipe)
    config = model.get_config()
    assert CausalLanguageModel.from_config(config).get_config() == config
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    tokens = [[5, 7, 11, 13]]
    np.testing.assert_array_equal(logits_of(loaded, tokens), logits_of(model, tokens))
    assert len(loaded.variables) == len(model.variables)
    fresh = CausalLanguageModel.from_config(config)
    model.save_weights(tmp_path / "model.weights.h5")
    fresh.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(logits_of(fresh, tokens), logits_of(model, tokens))


def test_two_models_of_default_names_live_in_one(tmp_path):
    tokens = keras.Input((None,), dtype="int32")
    both = [CausalLanguageModel(31, **SIZES, name=f"half_{index}") for index in range(2)]
    model = keras.Model(tokens, both[0](tokens) + both[1](tokens))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits_of(loaded, [[5, 7]]), logits_of(model, [[5, 7]]))


def test_fit_by_blocks_learns_and_equals_the_loss_of_logits():
    model = random_model("gpt2")
    tokens = np.array([[2, 5, 7, 11], [2, 13, 17, 0]], "int32")
    labels = np.array([[5, 7, 11, 3], [13, 17, 3, 0]], "int32")
    model.compile(keras.optimizers.Adam(0.01), SequenceCrossentropy(), metrics=[TokenAccuracy()])
    expected = float(SequenceCrossentropy()(labels, logits_of(model, tokens)))
    before = model.evaluate(tokens, labels, verbose=0, return_dict=True)["loss"]
    np.testing.assert_allclose(before, expected, rtol=1e-4)
    after = model.fit(tokens, labels, epochs=12, verbose=0).history["loss"][-1]
    assert after < 0.7 * before


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="`end_id`"):
        CausalLanguageModel(31, **SIZES, end_id=31)
    with pytest.raises(ValueError, match="'gate'"):
        CausalLanguageModel(31, **SIZES, gate=True)
    with pytest.raises(ValueError, match="gpt2"):
        CausalLanguageModel.from_preset("gpt-2")
    with pytest.raises(ValueError, match="prompt 1 is empty"):
        random_model("llama").generate([[5], []])


def test_a_preset_takes_changes():
    model = CausalLanguageModel.from_preset(
        "llama-tiny", vocabulary_size=31, num_layers=1, model_dim=64, intermediate_dim=19
    )
    assert model.block_options["num_key_value_heads"] == 4
    assert logits_of(model, [[5, 7]]).shape == (1, 2, 31)


@pytest.mark.any_backend  # `Transformer` and its encoder are quantized on each
def test_a_quantized_model_is_near_and_keeps_its_integers(tmp_path):
    model = random_model("llama")
    right = logits_of(model, [[5, 7, 11]])
    model.quantize("int8")
    found = logits_of(model, [[5, 7, 11]])
    assert 0 < np.abs(found - right).max() < 0.1 * np.abs(right).max()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits_of(loaded, [[5, 7, 11]]), found)
