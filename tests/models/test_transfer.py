"""A trained encoder under a new head: pooling, freezing, rates by depth, LoRA, saving."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.interop import huggingface
from keras_transformer.layers import EncoderBlock, LearnedPositionEncoding
from keras_transformer.models import (
    CausalLanguageModel,
    MaskedLanguageModel,
    Transformer,
    TransformerEncoder,
    VisionTransformer,
    enable_lora,
    freeze,
    layer_rates,
    with_head,
)
from keras_transformer.training import LayerwiseAdamW, SequenceCrossentropy

SIZES = {"num_layers": 1, "model_dim": 12, "num_heads": 3, "intermediate_dim": 19, "dropout": 0.0}
TOKENS = np.array([[5, 7, 11, 0], [0, 13, 17, 19], [3, 2, 4, 6]], "int32")
LABELS = np.array([0, 2, 1])


def bert(**options):
    position = LearnedPositionEncoding(max_length=11)
    options = {**SIZES, "normalize_embedding": True, "scale_embedding": False, **options}
    return TransformerEncoder(31, position=position, **options)


def numbers(tensor):
    return ops.convert_to_numpy(tensor)


def values(layer):
    return [numbers(each) for each in layer.get_weights()]


def fitted(model, optimizer=None, epochs=1, run_eagerly=True):
    model.compile(
        optimizer or keras.optimizers.Adam(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=run_eagerly,
    )
    return model.fit({"tokens": TOKENS}, LABELS, epochs=epochs, verbose=0).history["loss"]


@pytest.mark.parametrize("pooling", [None, "mean", "first"])
def test_the_head_reads_the_trained_encoder(pooling):
    encoder = MaskedLanguageModel(bert()).encoder
    head = keras.layers.Dense(3)
    found = numbers(with_head(encoder, head, pooling)({"tokens": TOKENS}))
    hidden = numbers(encoder({"tokens": TOKENS}))
    rows = {
        None: hidden,
        "mean": np.stack([hidden[0, :3].mean(0), hidden[1, 1:].mean(0), hidden[2].mean(0)]),
        "first": np.stack([hidden[0, 0], hidden[1, 1], hidden[2, 0]]),
    }[pooling]
    np.testing.assert_allclose(found, rows @ values(head)[0], atol=1e-5)


def test_a_model_with_a_head_learns_and_is_loaded(tmp_path):
    encoder = bert()
    before = values(encoder)
    model = with_head(encoder, keras.layers.Dense(3), "first", name="classifier")
    losses = fitted(model, epochs=8)
    assert losses[-1] < 0.5 * losses[0]
    assert any((a != b).any() for a, b in zip(before, values(encoder), strict=True))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected = numbers(model({"tokens": TOKENS}))
    np.testing.assert_array_equal(numbers(loaded({"tokens": TOKENS})), expected)


def test_an_image_encoder_gets_a_head():
    encoder = VisionTransformer(4, 2, None, 1, 12, 3, 19, num_channels=1)
    model = with_head(encoder, keras.layers.Dense(5))
    assert model(np.zeros((2, 4, 4, 1))).shape == (2, 5)
    with pytest.raises(ValueError, match="`pooling`"):
        with_head(encoder, keras.layers.Dense(5), "mean")


@pytest.mark.parametrize("num_blocks, free", [(0, [0, 1]), (1, [1]), (None, [])])
def test_frozen_layers_stay_and_the_others_learn(num_blocks, free):
    encoder = bert(num_layers=2)
    head = keras.layers.Dense(3)
    model = with_head(encoder, head, "mean")
    freeze(model, num_blocks)
    names = ["embedding", "token_positions", "embedding_norm"]
    names += ["encoder_block_0", "encoder_block_1"]
    before = {name: values(encoder.get_layer(name)) for name in names}
    first_head = values(head)
    fitted(model)
    for index, name in enumerate(names):
        now = values(encoder.get_layer(name))
        same = [(a == b).all() for a, b in zip(before[name], now, strict=True)]
        assert all(same) is (index - 3 not in free), name
    assert (values(head)[0] != first_head[0]).any()


def trained_names(model):
    return [f"{each.path}" for each in model.trainable_variables]


@pytest.mark.parametrize("num_blocks", [0, 1, None])
def test_frozen_layers_stay_frozen_in_a_file_and_the_optimizer_goes_on(num_blocks, tmp_path):
    model = with_head(bert(num_layers=2), keras.layers.Dense(3), "mean")
    freeze(model, num_blocks)
    fitted(model, epochs=2, run_eagerly=False)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert trained_names(loaded) == trained_names(model)
    state = [numbers(each) for each in model.optimizer.variables]
    for old, new in zip(state, loaded.optimizer.variables, strict=True):
        np.testing.assert_array_equal(numbers(new), old)


def models_of_each_class():
    options = {**SIZES, "num_layers": 2}
    return [
        bert(),
        bert(pooling="dense"),
        MaskedLanguageModel(bert()),
        CausalLanguageModel(31, **options),
        Transformer(31, **options),
        VisionTransformer(4, 2, 5, 1, 12, 3, 19, num_channels=1),
    ]


@pytest.mark.any_backend
def test_every_model_of_arguments_tells_what_trains():
    for model in models_of_each_class():
        assert "trainable_layers" not in model.get_config()
        freeze(model)
        block = next(each for each in model._flatten_layers() if each.name.endswith("_block_0"))
        block.feed_forward.trainable = True
        block.feed_forward.inner_dense.trainable = False
        copy = type(model).from_config(model.get_config())
        assert copy.get_config() == model.get_config()
        assert [each.trainable for each in copy.variables] == [
            each.trainable for each in model.variables
        ]
        assert any(each.path.endswith("outer/kernel") for each in copy.trainable_variables)
        model.trainable = False
        assert not type(model).from_config(model.get_config()).trainable


def test_a_frozen_encoder_within_a_model_tells_itself():
    model = MaskedLanguageModel(bert(name="encoder"))
    freeze(model)
    model.get_layer("head_dense").trainable = False
    config = model.get_config()
    names = config["trainable_layers"]
    assert "encoder/encoder_block_0" not in names and names["head_dense"] is False
    assert config["encoder"]["config"]["trainable_layers"]["encoder_block_0"] is False
    copy = MaskedLanguageModel.from_config(config)
    assert trained_names(copy) == trained_names(model)


def test_a_frozen_block_of_a_model_of_layers_stays_frozen(tmp_path):
    inputs = keras.Input((None, 12))
    block = EncoderBlock(3, 19, name="block")
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(block(inputs)))
    block.trainable = False
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert trained_names(loaded) == trained_names(model) == ["head/kernel", "head/bias"]


def test_two_models_in_one_have_variables_of_their_own_names(tmp_path):
    """Torch's `zero_grad` knows variables by their paths."""
    models = [bert(name=name) for name in ("left", "right")]
    inputs = {"tokens": keras.Input((None,), dtype="int32", name="tokens")}
    vectors = ops.mean(ops.concatenate([each(inputs) for each in models], axis=-1), axis=1)
    model = keras.Model(inputs, keras.layers.Dense(3)(vectors))
    names = [each.path for each in model.variables]
    assert len(set(names)) == len(names)
    fitted(model, keras.optimizers.SGD(0.1), epochs=2, run_eagerly=False)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        each.fit({"tokens": TOKENS}, LABELS, verbose=0)
    for ours, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_allclose(numbers(ours), numbers(other), atol=1e-6)


@pytest.mark.any_backend
def test_dropout_of_every_model_goes_on_in_a_loaded_one(tmp_path):
    for model in models_of_each_class():
        for generator in model._dropout_generators():
            generator.next()
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        states = [numbers(each.state) for each in model._dropout_generators()]
        assert states or not model._dropout_generators()
        for old, new in zip(states, loaded._dropout_generators(), strict=True):
            np.testing.assert_array_equal(numbers(new.state), old)


def test_freezing_again_freezes_what_was_thawed():
    encoder = bert(num_layers=2)
    freeze(encoder)
    for layer in encoder._flatten_layers():
        if "norm" in layer.name:
            layer.trainable = True
    freeze(encoder, 1)
    blocks = {name.split("/")[1] for name in trained_names(encoder)}
    assert "encoder_block_1" in blocks
    assert not blocks & {"encoder_block_0", "embedding", "embedding_norm", "token_positions"}


def test_freezing_counts_the_blocks():
    for number in (2, -1, True, 0.5):
        with pytest.raises(ValueError, match="`num_blocks`.*from 0 to 1"):
            freeze(bert(), number)
    with pytest.raises(ValueError, match="`model`"):
        freeze(keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)]))


def test_rates_by_depth():
    model = with_head(bert(num_layers=2), keras.layers.Dense(3), "mean")
    inputs = dict.fromkeys(["embedding", "token_positions", "embedding_norm"], 0.125)
    blocks = {"encoder_block_0": 0.25, "encoder_block_1": 0.5}
    assert layer_rates(model, 0.5) == {**inputs, **blocks}
    freeze(model, num_blocks=0)
    assert layer_rates(model, 0.5) == blocks
    with pytest.raises(ValueError, match="`decay`"):
        layer_rates(model, 0.0)


def test_each_layer_learns_at_its_rate_and_goes_on_when_loaded(tmp_path):
    """The first step of Adam is the learning rate itself, whatever the gradient; decay apart."""
    model = with_head(bert(), keras.layers.Dense(3), "mean")
    rates = layer_rates(model, 0.5)
    before = [numbers(each) for each in model.trainable_variables]
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([1], [0.01, 0.001])
    optimizer = LayerwiseAdamW(rate, rates, weight_decay=0.1, epsilon=1e-12)
    fitted(model, optimizer, run_eagerly=False)
    seen = set()
    for variable, old in zip(model.trainable_variables, before, strict=True):
        part = next((each for each in variable.path.split("/") if each in rates), None)
        rate = 0.01 * rates.get(part, 1.0)
        moved = np.abs(numbers(variable) - old * (1 - 0.1 * rate))
        moved = moved[moved > 0.01 * rate]  # not the rows of tokens that do not occur
        if "key/bias" not in variable.path:  # which has no gradient but rounding errors
            np.testing.assert_allclose(moved, rate, rtol=0.05)
            assert len(moved)
        seen.add(part)
    assert seen == {*rates, None}

    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    for each in (model, loaded):
        each.fit({"tokens": TOKENS}, LABELS, verbose=0)
    for ours, other in zip(model.weights, loaded.weights, strict=True):
        if "key/bias" not in ours.path:
            np.testing.assert_allclose(numbers(ours), numbers(other), atol=1e-6)


def test_rates_are_checked():
    with pytest.raises(ValueError, match="`rates`.*-1"):
        LayerwiseAdamW(0.01, {"embedding": -1})
    model = with_head(bert(), keras.layers.Dense(3), "mean")
    with pytest.raises(ValueError, match="`rates`.*encoder_block_7"):
        LayerwiseAdamW(0.01, {"encoder_block_7": 0.5}).build(model.trainable_variables)


def test_lora_alone_learns_and_is_saved_within_the_weights(tmp_path):
    encoder = bert()
    before = numbers(encoder({"tokens": TOKENS}))
    enable_lora(encoder, rank=2, alpha=4, layers=("query", "value", "outer"))
    np.testing.assert_allclose(numbers(encoder({"tokens": TOKENS})), before, atol=1e-6)
    names = {variable.name for variable in encoder.trainable_variables}
    assert names == {"lora_kernel_a", "lora_kernel_b", "bias"}
    frozen = [numbers(each) for each in encoder.non_trainable_variables]
    model = with_head(encoder, keras.layers.Dense(3), "mean")
    losses = fitted(model, keras.optimizers.Adam(0.03), epochs=8)
    assert losses[-1] < 0.7 * losses[0]
    for old, new in zip(frozen, encoder.non_trainable_variables, strict=True):
        np.testing.assert_array_equal(numbers(new), old)
    after = numbers(encoder({"tokens": TOKENS}))
    assert np.abs(after - before).max() > 0.01

    encoder.save(tmp_path / "encoder.keras")
    loaded = keras.saving.load_model(tmp_path / "encoder.keras")
    np.testing.assert_allclose(numbers(loaded({"tokens": TOKENS})), after, atol=1e-5)
    enable_lora(loaded, rank=3)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    expected = numbers(model({"tokens": TOKENS}))
    np.testing.assert_allclose(numbers(loaded({"tokens": TOKENS})), expected, atol=1e-5)


def test_a_tied_embedding_stays_tied_under_lora(tmp_path):
    pytest.importorskip("safetensors")
    options = {"scale_embedding": False, "activation": "gelu_tanh", "epsilon": 1e-5}
    position = LearnedPositionEncoding(max_length=11)
    model = CausalLanguageModel(31, **SIZES, position=position, attention_dropout=0.1, **options)
    enable_lora(model, rank=2, layers=["embedding"])
    assert len(model.trainable_variables) == 2
    loss = SequenceCrossentropy(label_smoothing=0.0)
    model.compile(keras.optimizers.Adam(0.03), loss, run_eagerly=True)
    model.fit(TOKENS[:, :-1], TOKENS[:, 1:], epochs=2, verbose=0)
    embedding = model.get_layer("embedding")
    matrix = numbers(embedding.embeddings)
    assert np.abs(matrix - numbers(embedding._embeddings)).max() > 1e-3
    np.testing.assert_allclose(numbers(embedding(TOKENS)), matrix[TOKENS], atol=1e-6)
    vectors = np.eye(12, dtype="float32")[None]
    logits = numbers(embedding(vectors, reverse=True))
    np.testing.assert_allclose(logits[0], matrix.T, atol=1e-5)
    huggingface.save_model(model, tmp_path / "saved", "gpt2")
    expected = numbers(model(TOKENS))
    loaded = huggingface.load_model(tmp_path / "saved")
    np.testing.assert_allclose(numbers(loaded(TOKENS)), expected, atol=1e-5)


def test_lora_names_its_layers():
    with pytest.raises(ValueError, match="`layers`.*attention_output.*queries"):
        enable_lora(bert(), 2, layers=["queries"])
    with pytest.raises(ValueError, match="`rank`"):
        enable_lora(bert(), 0)
    with pytest.raises(ValueError, match="`alpha`"):
        enable_lora(bert(), 2, alpha="x")
