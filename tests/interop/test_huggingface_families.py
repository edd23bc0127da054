"""Every family agrees with `transformers` on random checkpoints: layers, logits, generated ids."""

import json

import keras
import numpy as np
import pytest
import tiny_checkpoints
from keras import ops
from tiny_checkpoints import checkpoint, torch

from keras_transformer.decoding import BeamSearch, GreedySearch
from keras_transformer.interop import huggingface

TOKENS = np.array([[5, 7, 11, 13, 17], [19, 23, 29, 4, 6]], "int32")
TYPES = np.array([[0, 0, 1, 1, 2], [2, 1, 0, 0, 1]], "int32")
TARGET = np.array([[2, 9, 8, 12], [5, 10, 14, 15]], "int32")


def is_of(name, *families):
    return name.split("-")[0] in families


def close(found, expected):
    found, expected = ops.convert_to_numpy(found), expected.detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(1, np.abs(expected).max()))


def layer_outputs(model, names, inputs):
    outputs = [model.get_layer(name).output for name in names]
    return keras.Model(model.input, outputs).predict_on_batch(inputs)


def compare_layers(model, inputs, side, theirs, last_norm):
    """Compares each block's output; theirs ends normalized where there is a last norm."""
    names = [f"{side}_block_{index}" for index in range(len(theirs) - 1)]
    if last_norm:
        names[-1] = f"{side}_norm"
    names = [f"{ {'encoder': 'source'}.get(side, 'target') }_dropout", *names]
    if not hasattr(model, "encode"):
        names[0] = "token_dropout"
    for found, expected in zip(layer_outputs(model, names, inputs), theirs, strict=True):
        close(found, expected)


@pytest.fixture(params=tiny_checkpoints.MODELS)
def case(request, tmp_path_factory):
    folder, theirs = checkpoint(request.param, tmp_path_factory)
    return request.param, theirs, huggingface.load_model(folder)


def images_for(theirs):
    size = theirs.config.image_size
    height, width = (size, size) if isinstance(size, int) else size
    return np.random.default_rng(3).normal(size=(2, height, width, 2)).astype("float32")


def their_inputs(name, theirs):
    """Returns what `transformers` says of the tokens or images."""
    if is_of(name, "vit"):
        with torch.no_grad():
            pixels = torch.tensor(images_for(theirs)).permute(0, 3, 1, 2)
            return theirs(pixels, output_hidden_states=True)
    tokens = torch.tensor(TOKENS).long()
    options = {"output_hidden_states": True}
    if is_of(name, "bert") or theirs.config.to_dict().get("type_vocab_size", 1) > 1:
        options["token_type_ids"] = torch.tensor(TYPES).long()
    if is_of(name, "longformer"):
        options["global_attention_mask"] = torch.tensor([[1, 0, 0, 0, 0]] * 2)
    if is_of(name, "marian", "t5"):
        options["decoder_input_ids"] = torch.tensor(TARGET).long()
    with torch.no_grad():
        return theirs(tokens, **options)


def test_case_69_layers_and_outputs_agree(case):
    name, theirs, model = case
    said = their_inputs(name, theirs)
    if is_of(name, "gpt2", "llama"):
        compare_layers(model, TOKENS, "decoder", said.hidden_states, last_norm=True)
        close(model(TOKENS), said.logits)
    elif is_of(name, "vit"):
        images = images_for(theirs)
        names = ["patch_dropout", "encoder_block_0", "encoder_block_1"]
        for found, expected in zip(
            layer_outputs(model, names, images), said.hidden_states, strict=True
        ):
            close(found, expected)
        close(model(images), getattr(said, "logits", getattr(said, "pooler_output", None)))
    elif is_of(name, "bert", "longformer"):
        encoder = getattr(model, "encoder", model)
        inputs = {"tokens": TOKENS, "token_types": TYPES}
        inputs = {key: value for key, value in inputs.items() if key in encoder.input}
        compare_layers(encoder, inputs, "encoder", said.hidden_states, last_norm=False)
        logits = getattr(said, "prediction_logits", getattr(said, "logits", None))
        close(model(inputs), said.pooler_output if logits is None else logits)
    else:
        inputs = {"source": TOKENS, "target": TARGET}
        last_norm = is_of(name, "t5")
        for side in ("encoder", "decoder"):
            hidden = getattr(said, f"{side}_hidden_states")
            compare_layers(model, inputs, side, hidden, last_norm)
        close(model(inputs), said.logits)


@pytest.mark.any_backend
def test_saving_writes_the_same_checkpoint(case, tmp_path):
    name, theirs, model = case
    model_type = name.split("-")[0]
    huggingface.save_model(model, tmp_path / "saved", model_type)
    again = type(theirs).from_pretrained(tmp_path / "saved").eval()
    said, expected = their_inputs(name, again), their_inputs(name, theirs)
    for key in ("logits", "prediction_logits", "pooler_output"):
        if getattr(expected, key, None) is not None:
            torch.testing.assert_close(getattr(said, key), getattr(expected, key))
    with pytest.raises(ValueError, match="must not exist"):
        huggingface.save_model(model, tmp_path / "saved", model_type)


def generated(theirs, tokens, mask, **options):
    """Returns what was generated, filled up past the end: by the end itself if padding is 0."""
    with torch.no_grad():
        found = theirs.generate(
            torch.tensor(tokens).long(),
            attention_mask=torch.tensor(mask).long(),
            do_sample=False,
            max_new_tokens=7,
            **options,
        )
    return found.numpy()


@pytest.mark.parametrize("name", ["gpt2", "llama", "llama-3", "llama-ends"])
def test_greedy_continuations_are_equal_with_left_padding(name, tmp_path_factory):
    folder, theirs = checkpoint(name, tmp_path_factory)
    model = huggingface.load_model(folder)
    prompts = np.array([[0, 0, 5, 7, 11], [19, 23, 29, 4, 6]], "int32")
    expected = generated(theirs, prompts, prompts != 0)[:, 5:]
    found = GreedySearch(max_length=7)(model, prompts, prompt=prompts).tokens[:, 0]
    ends = (model.end_id, *model.other_end_ids)
    for ours, other in zip(found, expected, strict=True):
        assert up_to_end(ours, *ends) == up_to_end(other, *ends)


@pytest.mark.parametrize("name", tiny_checkpoints.TALKATIVE)
@pytest.mark.parametrize("width", [1, 3])
def test_greedy_and_beam_outputs_are_equal(name, width, tmp_path_factory):
    folder, theirs = checkpoint(name, tmp_path_factory, tiny_checkpoints.TALKATIVE)
    model = huggingface.load_model(folder)
    tokens = np.random.default_rng(3).integers(4, 30, (6, 5)).astype("int32")
    tokens[1::2, 3:] = model.pad_id
    mask = tokens != model.pad_id
    beams = {"num_beams": width, "length_penalty": 0.0} if width > 1 else {}
    expected = generated(theirs, tokens, mask, **beams)[:, 1:]
    search = BeamSearch(width, length_penalty=0.0, max_length=7)
    found = (search if width > 1 else GreedySearch(max_length=7))(model, tokens).tokens[:, 0]
    ours = [up_to_end(each, model.end_id) for each in found]
    assert ours == [up_to_end(each, model.end_id) for each in expected]
    assert len(set(map(tuple, ours))) >= 5 and max(len(set(each)) for each in ours) >= 3


def up_to_end(tokens, *ends):
    places = np.flatnonzero(np.isin(tokens, ends))
    return tokens[: places[0] + 1 if len(places) else None].tolist()


def test_the_config_is_written_as_transformers_reads_it(tmp_path_factory, tmp_path):
    folder, _ = checkpoint("gpt2", tmp_path_factory)
    huggingface.save_model(huggingface.load_model(folder), tmp_path / "saved", "gpt2")
    theirs, ours = (
        json.loads((each / "config.json").read_text()) for each in (folder, tmp_path / "saved")
    )
    same = set(ours) - {"architectures"}
    assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
