"""Longformer: windows of several widths, the first token global, padding, positions, saving."""

import json

import keras
import numpy as np
import pytest
from tiny_checkpoints import checkpoint, torch

from keras_transformer.interop import huggingface
from keras_transformer.layers import SlidingWindowAttention

RANDOM = np.random.default_rng(7)
# 13 tokens are no multiple of a window; rows of 13 and of 8.
TOKENS = RANDOM.integers(2, 31, (2, 13)).astype("int32")
TOKENS[1, 8:] = 1


def hidden_of(model, tokens):
    names = ["token_dropout", "encoder_block_0", "encoder_block_1"]
    outputs = [model.get_layer(name).output for name in names]
    return [keras.ops.convert_to_numpy(each) for each in keras.Model(model.input, outputs)(tokens)]


def their_hidden(theirs, tokens, first_is_global=True):
    global_mask = np.zeros(tokens.shape)
    global_mask[:, 0] = first_is_global
    with torch.no_grad():
        said = theirs(
            torch.tensor(tokens).long(),
            attention_mask=torch.tensor(tokens != 1).long(),
            global_attention_mask=torch.tensor(global_mask).long() if first_is_global else None,
            output_hidden_states=True,
        )
    return [each.numpy() for each in said.hidden_states]


@pytest.fixture
def case(tmp_path_factory):
    return checkpoint("longformer", tmp_path_factory)


def test_every_layer_agrees_on_padded_texts(case):
    folder, theirs = case
    model = huggingface.load_model(folder)
    assert [model.get_layer(f"encoder_block_{n}").mechanism.window for n in (0, 1)] == [3, 5]
    real = TOKENS != 1
    for ours, other in zip(
        hidden_of(model, {"tokens": TOKENS}), their_hidden(theirs, TOKENS), strict=True
    ):
        np.testing.assert_allclose(ours[real], other[real], atol=1e-5 * np.abs(other).max())


def test_padding_on_the_left_leaves_the_first_real_token_global(case):
    model = huggingface.load_model(case[0])
    right, left = TOKENS[1:], np.roll(TOKENS[1:], 5, axis=1)
    expected = hidden_of(model, {"tokens": right})[-1][:, :8]
    np.testing.assert_allclose(hidden_of(model, {"tokens": left})[-1][:, 5:], expected, atol=1e-5)


def test_other_tokens_are_global_by_another_mechanism(case):
    folder, theirs = case
    none = SlidingWindowAttention(5, global_projections=True)
    windows = [SlidingWindowAttention(3, global_projections=True), none]
    model = huggingface.load_model(folder, mechanism=windows)
    full = TOKENS[:1]
    ours, other = hidden_of(model, {"tokens": full}), their_hidden(theirs, full, False)
    np.testing.assert_allclose(ours[-1], other[-1], atol=1e-5 * np.abs(other[-1]).max())


def test_it_is_saved_by_keras_and_as_a_checkpoint(case, tmp_path):
    model = huggingface.load_model(case[0])
    expected = hidden_of(model, {"tokens": TOKENS})[-1]
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(hidden_of(loaded, {"tokens": TOKENS})[-1], expected)
    huggingface.save_model(loaded, tmp_path / "saved", "longformer")
    settings = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert settings["attention_window"] == [4, 8]
    assert settings["max_position_embeddings"] == 17
    with pytest.raises(ValueError, match=r"\['mechanism'\].*SlidingWindowAttention"):
        huggingface.save_model(model, tmp_path / "as-bert", "bert")


def test_an_odd_window_is_an_error(case, tmp_path):
    folder = tmp_path / "copied"
    folder.mkdir()
    for file in case[0].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "attention_window": [4, 3]}))
    with pytest.raises(ValueError, match="attention_window"):
        huggingface.load_model(folder)
