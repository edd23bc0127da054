"""Checkpoints that are damaged, dangerous, incomplete or of another kind; shards; no torch."""

import json
import os
import pickle
import sys
import types
import zipfile
from fnmatch import fnmatch

import keras
import numpy as np
import pytest
from keras import ops
from tiny_translators import run_python

from keras_transformer.interop import huggingface
from keras_transformer.layers import (
    LearnedPositionEncoding,
    RelativePositionBias,
    SinusoidalPositionEncoding,
)
from keras_transformer.models import (
    CausalLanguageModel,
    Transformer,
    TransformerEncoder,
    VisionTransformer,
)

# Files are read and written by NumPy, whatever the backend.
pytestmark = pytest.mark.any_backend
numpy_format = pytest.importorskip("safetensors.numpy")
SIZES = {"num_layers": 1, "model_dim": 12, "num_heads": 3, "intermediate_dim": 19}


def gpt2(**options):
    return CausalLanguageModel(
        31,
        **SIZES,
        position=LearnedPositionEncoding(max_length=11),
        scale_embedding=False,
        activation="gelu_tanh",
        epsilon=1e-5,
        attention_dropout=0.1,
        **options,
    )


def t5(tied=True):
    scheme = {"num_buckets": 8, "max_distance": 11}
    return Transformer(
        31,
        **SIZES,
        key_dim=5,
        position=RelativePositionBias(**scheme),
        decoder_position=RelativePositionBias(**scheme, bidirectional=False),
        tie_weights=tied,
        head_scale=12**-0.5,
        scale_embedding=False,
        normalize_first=True,
        normalization="rms",
        use_bias=False,
        attention_scale=1.0,
        attention_dropout=0.1,
        feed_forward_dropout=0.1,
        start_id=0,
        end_id=1,
    )


def vit(**options):
    return VisionTransformer(6, 2, **SIZES, epsilon=1e-12, attention_dropout=0.0, **options)


def image_output_of(model):
    image = np.random.default_rng(1).normal(size=(2, 6, 6, 3)).astype("float32")
    return ops.convert_to_numpy(model(image))


def randomized(model):
    random = np.random.default_rng(5)
    for variable in model.trainable_variables:
        variable.assign(random.normal(size=variable.shape, scale=0.5))
    return model


def logits_of(model):
    tokens = np.array([[5, 7, 11]], "int32")
    inputs = tokens if isinstance(model.input, keras.KerasTensor) else None
    if inputs is None:
        inputs = {"source": tokens, "target": tokens}
    return ops.convert_to_numpy(model(inputs))


@pytest.fixture
def folder(tmp_path):
    huggingface.save_model(gpt2(), tmp_path / "gpt2", "gpt2")
    return tmp_path / "gpt2"


def change_settings(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_tensors(folder, change):
    path = folder / "model.safetensors"
    tensors = numpy_format.load_file(path)
    change(tensors)
    numpy_format.save_file(tensors, path)


def test_what_is_saved_is_loaded(folder):
    model = gpt2()
    huggingface.save_model(model, folder, "gpt2", overwrite=True)
    np.testing.assert_array_equal(logits_of(huggingface.load_model(folder)), logits_of(model))


def test_case_69_an_unknown_setting_and_an_unknown_value_are_named(folder):
    change_settings(folder, use_alibi=True)
    with pytest.raises(ValueError, match="use_alibi"):
        huggingface.load_model(folder)
    change_settings(folder, use_alibi=True, scale_attn_by_inverse_layer_idx=True)
    with pytest.raises(ValueError, match="scale_attn_by_inverse_layer_idx"):
        huggingface.load_model(folder)
    change_settings(folder, scale_attn_by_inverse_layer_idx=False, activation_function="xielu")
    with pytest.raises(ValueError, match="activation_function.*xielu"):
        huggingface.load_model(folder)
    change_settings(folder, model_type="rwkv")
    with pytest.raises(ValueError, match="rwkv"):
        huggingface.load_model(folder)


def test_one_error_lists_all_tensors_that_do_not_fit(folder):
    def change(tensors):
        del tensors["transformer.h.0.mlp.c_fc.bias"]
        tensors["transformer.h.1.mlp.c_fc.bias"] = np.zeros(3, "float32")
        tensors["transformer.ln_f.weight"] = np.zeros(13, "float32")
        tensors["lm_head.weight"] = np.zeros((31, 12), "float32")

    change_tensors(folder, change)
    with pytest.raises(ValueError) as error:
        huggingface.load_model(folder)
    for part in (
        "missing: transformer.h.0.mlp.c_fc.bias",
        "extra: transformer.h.1.mlp.c_fc.bias",
        "wrong shape: transformer.ln_f.weight (13,), not (12,)",
        "different though tied: transformer.wte.weight and lm_head.weight",
    ):
        assert part in str(error.value)


def test_names_of_the_bare_model_and_tensors_that_hold_nothing_are_known(folder):
    expected = logits_of(huggingface.load_model(folder))

    def change(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["h.0.attn.bias"] = np.tril(np.ones((1, 1, 11, 11), "float32"))

    change_tensors(folder, change)
    np.testing.assert_array_equal(logits_of(huggingface.load_model(folder)), expected)


def test_half_precision_tensors_are_read(folder):
    import ml_dtypes

    expected = logits_of(huggingface.load_model(folder))

    def change(tensors):
        for name, array in tensors.items():
            tensors[name] = array.astype(ml_dtypes.bfloat16)

    change_tensors(folder, change)
    np.testing.assert_allclose(logits_of(huggingface.load_model(folder)), expected, atol=0.1)


def test_shards_are_read_and_a_missing_one_is_named(folder):
    expected = logits_of(huggingface.load_model(folder))
    split(folder)
    np.testing.assert_array_equal(logits_of(huggingface.load_model(folder)), expected)
    (folder / "part-1.safetensors").unlink()
    with pytest.raises(ValueError, match="part-1.safetensors"):
        huggingface.load_model(folder)


def split(folder, change_index=lambda weight_map: None):
    """Makes two shards of a checkpoint's one file, and an index of them."""
    tensors = numpy_format.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    weight_map = {}
    for number in (0, 1):
        held = {name: tensors[name] for name in sorted(tensors)[number::2]}
        numpy_format.save_file(held, folder / f"part-{number}.safetensors")
        weight_map.update(dict.fromkeys(held, f"part-{number}.safetensors"))
    change_index(weight_map)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda names: names.update(dict.fromkeys(names, "../part.safetensors")), "of its own fol"),
        (lambda names: names.update({"transformer.wte.weight": 7}), "index.json is damaged"),
        (lambda names: names.update({"transformer.x": "part-0.safetensors"}), "x is not in part-0"),
        (
            lambda names: names.pop("transformer.wte.weight"),
            "wte.weight in part-1",
        ),
    ],
)
def test_an_index_tells_the_truth_of_files_beside_it(change, told, folder):
    (folder.parent / "part.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    split(folder, change)
    with pytest.raises(ValueError, match=told):
        huggingface.load_model(folder)


@pytest.mark.parametrize("number", [0, 1])
def test_a_tensor_in_two_shards_is_an_error(number, folder):
    split(folder)
    other = numpy_format.load_file(folder / f"part-{1 - number}.safetensors")
    held = numpy_format.load_file(folder / f"part-{number}.safetensors")
    name = sorted(held)[0]
    numpy_format.save_file({**other, name: held[name]}, folder / f"part-{1 - number}.safetensors")
    with pytest.raises(ValueError, match=f"{name} is in part-0.safetensors and in .*part-1"):
        huggingface.load_model(folder)


@pytest.mark.parametrize("kept", [0, 7, 100, -3])
def test_a_cut_off_file_is_an_error(folder, kept):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match="damaged or cut off"):
        huggingface.load_model(folder)


def test_a_damaged_config_or_none_is_an_error(folder, tmp_path):
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match="config.json is damaged"):
        huggingface.load_model(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match="config.json"):
        huggingface.load_model(folder)


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_a_pickle_of_plain_weights_is_read_and_any_other_is_not_executed(
    folder, monkeypatch, tmp_path
):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    expected = logits_of(huggingface.load_model(folder))
    tensors = numpy_format.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    torch.save({name: torch.from_numpy(array) for name, array in tensors.items()}, path)
    np.testing.assert_array_equal(logits_of(huggingface.load_model(folder)), expected)
    torch.save({"transformer.wte.weight": Harmful()}, path)
    with pytest.raises(ValueError, match="plain weights"):
        huggingface.load_model(folder)
    path.write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(ValueError, match="plain weights"):
        huggingface.load_model(folder)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Harmful()))
    with pytest.raises(ValueError, match="plain weights"):
        huggingface.load_model(folder)
    assert not (tmp_path / "executed").exists()
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match="must hold tensors by name; got a list"):
        huggingface.load_model(folder)


@pytest.mark.parametrize("name", ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"])
@pytest.mark.parametrize("tied", [True, False])
def test_case_71_the_embedding_of_t5_is_found_under_each_of_its_names(name, tied, tmp_path):
    model = t5(tied)
    huggingface.save_model(model, tmp_path / "t5", "t5")
    change_tensors(tmp_path / "t5", lambda all: all.update({name: all.pop("shared.weight")}))
    loaded = huggingface.load_model(tmp_path / "t5")
    assert loaded.tie_weights is tied
    np.testing.assert_array_equal(logits_of(loaded), logits_of(model))


def test_embeddings_of_t5_that_differ_are_an_error(tmp_path):
    huggingface.save_model(t5(), tmp_path / "t5", "t5")
    other = {"decoder.embed_tokens.weight": np.zeros((31, 12), "float32")}
    change_tensors(tmp_path / "t5", lambda tensors: tensors.update(other))
    with pytest.raises(ValueError, match="different though tied: shared.weight and decoder"):
        huggingface.load_model(tmp_path / "t5")


@pytest.mark.parametrize(
    "model, model_type, named",
    [
        (lambda: gpt2(gated=True), "gpt2", "gated=True"),
        (lambda: gpt2(normalization="rms"), "gpt2", "normalization='rms'"),
        (gpt2, "llama", "position"),
        (t5, "marian", "position"),
    ],
)
def test_a_model_that_the_family_cannot_hold_is_not_saved(model, model_type, named, tmp_path):
    with pytest.raises(ValueError, match=named):
        huggingface.save_model(model(), tmp_path / "saved", model_type)
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("mode", ["int8", "float8"])
def test_a_quantized_model_has_no_place_in_the_format(mode, tmp_path):
    model = gpt2()
    model.quantize(mode)
    with pytest.raises(ValueError, match="`model` must not be quantized"):
        huggingface.save_model(model, tmp_path / "saved", "gpt2")
    assert not (tmp_path / "saved").exists()


def test_one_quantized_layer_among_others_of_its_name_is_found(tmp_path):
    model = CausalLanguageModel(31, **{**SIZES, "num_layers": 2}, epsilon=1e-5)
    model.get_layer("decoder_block_0").feed_forward.inner_dense.quantize("int8")
    with pytest.raises(ValueError, match="layer 'inner' of"):
        huggingface.save_model(model, tmp_path / "saved", "gpt2")


def test_a_vit_is_loaded_without_its_classifier(tmp_path):
    folder = tmp_path / "vit"
    model = randomized(vit(num_classes=5))
    huggingface.save_model(model, folder, "vit")
    np.testing.assert_array_equal(
        image_output_of(huggingface.load_model(folder)), image_output_of(model)
    )
    vectors = image_output_of(huggingface.load_model(folder, num_classes=None, pooling=None))
    kernel, bias = (ops.convert_to_numpy(each) for each in model.get_layer("head").weights)
    headless = image_output_of(huggingface.load_model(folder, num_classes=None))
    np.testing.assert_array_equal(headless, vectors[:, 0])
    np.testing.assert_allclose(headless @ kernel + bias, image_output_of(model), atol=1e-4)
    with pytest.raises(ValueError, match=r"wrong shape: classifier.weight \(5, 12\), not \(7, 12"):
        huggingface.load_model(folder, num_classes=7)
    with pytest.raises(ValueError, match="`pooling`.*class token; got 'mean'"):
        huggingface.load_model(folder, num_classes=None, pooling="mean")


def test_a_vit_is_loaded_without_its_pooler(tmp_path):
    model = randomized(vit(pooling="dense"))
    huggingface.save_model(model, tmp_path / "vit", "vit")
    found = huggingface.load_model(tmp_path / "vit", pooling=None)
    assert image_output_of(found).shape == (2, 10, 12)
    found = huggingface.load_model(tmp_path / "vit")
    np.testing.assert_array_equal(image_output_of(found), image_output_of(model))
    with pytest.raises(ValueError, match="`pooling`.*class token; got 'mean'"):
        huggingface.save_model(vit(pooling="mean"), tmp_path / "mean", "vit")
    assert not (tmp_path / "mean").exists()


@pytest.mark.parametrize("lost", [["weight"], ["bias"], ["weight", "bias"]])
def test_a_classifier_of_a_vit_that_is_missing_is_listed(lost, tmp_path):
    huggingface.save_model(vit(num_classes=5), tmp_path / "vit", "vit")
    names = [f"classifier.{each}" for each in lost]
    change_tensors(tmp_path / "vit", lambda tensors: [tensors.pop(name) for name in names])
    with pytest.raises(ValueError) as error:
        huggingface.load_model(tmp_path / "vit")
    assert all(f"missing: {name}" in str(error.value) for name in names)


def test_other_heads_of_a_bert_are_left_out(tmp_path):
    options = {"normalize_embedding": True, "scale_embedding": False, "num_token_types": 2}
    position = LearnedPositionEncoding(max_length=11)
    options = {**options, "position": position, "activation": "gelu", "attention_dropout": 0.1}
    encoder = TransformerEncoder(31, **SIZES, **options, epsilon=1e-12)
    huggingface.save_model(encoder, tmp_path / "bert", "bert")
    heads = {"classifier.weight": np.zeros((2, 12)), "qa_outputs.bias": np.zeros(2)}
    change_tensors(tmp_path / "bert", lambda tensors: tensors.update(heads))
    change_settings(tmp_path / "bert", directionality="bidi", pooler_num_fc_layers=3)
    for pooling in ("mean", None):
        assert huggingface.load_model(tmp_path / "bert", pooling=pooling).pooling == pooling


def test_odd_buckets_are_named_by_their_setting(tmp_path):
    huggingface.save_model(t5(), tmp_path / "t5", "t5")
    for wrong in (9, 0, -4, "8", None):
        change_settings(tmp_path / "t5", relative_attention_num_buckets=wrong)
        with pytest.raises(ValueError, match="'relative_attention_num_buckets' must be even"):
            huggingface.load_model(tmp_path / "t5")


def test_arguments_take_the_place_of_the_config(folder):
    model = huggingface.load_model(folder, dropout=0.0, mechanism="dense")
    assert model.dropout == 0.0
    np.testing.assert_allclose(
        logits_of(model), logits_of(huggingface.load_model(folder)), atol=1e-5
    )


def test_a_name_is_looked_up_on_the_hub(folder, monkeypatch):
    asked = []

    def snapshot_download(name, allow_patterns):
        asked.append((name, allow_patterns))
        return str(folder)

    hub = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    expected = logits_of(huggingface.load_model(folder))
    assert not asked  # a folder is never looked for elsewhere
    found = huggingface.load_model("someone/tiny-gpt2")
    np.testing.assert_array_equal(logits_of(found), expected)
    [(name, patterns)] = asked
    assert name == "someone/tiny-gpt2"
    files = ["config.json", "model-00001-of-00002.safetensors", "pytorch_model.bin", "source.spm"]
    assert all(any(fnmatch(file, each) for each in patterns) for file in files)
    assert not any(fnmatch("tf_model.h5", each) for each in patterns)


def test_a_name_that_the_hub_refuses_is_an_error(monkeypatch):
    def snapshot_download(name, allow_patterns):
        raise ValueError("Repo id must be in the form 'namespace/repo_name'")

    hub = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(ValueError, match="no folder /no/such/folder, and the hub says: Repo id"):
        huggingface.load_model("/no/such/folder")


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_a_pooling_without_weights_is_given_again(pooling, tmp_path):
    options = {"normalize_embedding": True, "scale_embedding": False, "num_token_types": 2}
    encoder = TransformerEncoder(
        31,
        **SIZES,
        **options,
        position=LearnedPositionEncoding(max_length=11),
        activation="gelu",
        epsilon=1e-12,
        attention_dropout=0.1,
        pooling=pooling,
    )
    huggingface.save_model(encoder, tmp_path / "bert", "bert")
    loaded = huggingface.load_model(tmp_path / "bert", pooling=pooling)
    tokens = np.array([[5, 7, 11]], "int32")
    inputs = {"tokens": tokens, "token_types": np.zeros_like(tokens)}
    np.testing.assert_array_equal(
        *(ops.convert_to_numpy(each(inputs)) for each in (encoder, loaded))
    )
    assert huggingface.load_model(tmp_path / "bert").pooling is None


def test_stored_sinusoids_are_those_that_are_computed(tmp_path):
    model = Transformer(
        31,
        **SIZES,
        position=SinusoidalPositionEncoding(layout="half_split"),
        activation="gelu",
        head_bias=True,
        epsilon=1e-5,
        pad_id=30,
        start_id=30,
        end_id=0,
    )
    huggingface.save_model(model, tmp_path / "marian", "marian")
    table = ops.convert_to_numpy(model.get_layer("source_positions")(np.zeros((1, 7, 12))))[0]
    name = "model.encoder.embed_positions.weight"
    change_tensors(tmp_path / "marian", lambda tensors: tensors.update({name: table}))
    np.testing.assert_array_equal(
        logits_of(huggingface.load_model(tmp_path / "marian")), logits_of(model)
    )
    for wrong in (table[::-1].copy(), table[:, :5].copy()):
        change_tensors(tmp_path / "marian", lambda all, wrong=wrong: all.update({name: wrong}))
        with pytest.raises(ValueError, match="embed_positions.*must be sinusoids 12 wide"):
            huggingface.load_model(tmp_path / "marian")


def test_several_end_tokens_are_kept_or_refused(folder, tmp_path):
    change_settings(folder, eos_token_id=[3, 5])
    model = huggingface.load_model(folder)
    assert (model.end_id, model.other_end_ids) == (3, [5])
    huggingface.save_model(model, tmp_path / "again", "gpt2")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["eos_token_id"] == [3, 5]
    huggingface.save_model(t5(), tmp_path / "t5", "t5")
    change_settings(tmp_path / "t5", eos_token_id=[1, 5])
    with pytest.raises(ValueError, match="'eos_token_id' must be one id; got"):
        huggingface.load_model(tmp_path / "t5")


def test_without_the_hub_a_name_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match="`folder`.*someone/tiny-gpt2.*huggingface_hub"):
        huggingface.load_model("someone/tiny-gpt2")


def test_reading_loads_neither_torch_nor_transformers(folder):
    code = """
import sys, keras
before = set(sys.modules)
from keras_transformer.interop import huggingface
huggingface.load_model(sys.argv[1])
print(sorted({name.split(".")[0] for name in set(sys.modules) - before}))
"""
    loaded = run_python(code, folder)
    assert "torch'" not in loaded and "transformers" not in loaded.replace("keras_transformer", "")
