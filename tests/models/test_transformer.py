"""The Transformer: laws 1, 2, 3, 7, 8 and 11, its sizes, and the cases about saving."""

import keras
import numpy as np
import pytest
from keras import ops
from tiny_models import (
    SCHEMES,
    VOCABULARY,
    compiled,
    logits,
    padded_left,
    randomize,
    sentences,
    tiny_transformer,
)
from tiny_translators import run_python

from keras_transformer.layers import RelativePositionBias
from keras_transformer.models import TRANSFORMER_PRESETS, Transformer
from keras_transformer.training import SequenceCrossentropy, TokenAccuracy

SOURCE = sentences([5, 5], seed=1)
TARGET = sentences([4, 4], seed=2, start=[2])


@pytest.fixture(params=SCHEMES)
def model(request):
    return randomize(tiny_transformer(position=SCHEMES[request.param]()))


def test_padding_is_inert_and_the_future_does_not_change_the_past(model):
    # Laws 1 and 2.
    alone = logits(model, SOURCE, TARGET)
    source, target = np.pad(SOURCE, ((0, 0), (0, 2))), np.pad(TARGET, ((0, 0), (0, 2)))
    right = logits(model, source, target)
    np.testing.assert_allclose(right[:, :4], alone, atol=1e-5)
    left = logits(model, padded_left(source), padded_left(target))
    np.testing.assert_allclose(left[:, 2:], alone, atol=1e-5)
    mixed = logits(
        model,
        np.stack([source[1], padded_left(source)[0]]),
        np.stack([padded_left(target)[1], target[0]]),
    )
    np.testing.assert_allclose([mixed[1, :4], mixed[0, 2:]], alone, atol=1e-5)
    target[:, 4:] = 7
    np.testing.assert_allclose(logits(model, source, target)[:, :4], alone, atol=1e-5)
    assert np.abs(alone[0] - alone[1]).min(axis=-1).max() > 1e-3


def test_order_of_words_matters(model):
    # Or no position scheme would be at work.
    target = np.repeat([[2, 7, 7, 7]], 2, axis=0)
    found = logits(model, SOURCE, target)
    assert np.abs(found[:, 1:-1] - found[:, 2:]).max() > 1e-3
    assert np.abs(logits(model, SOURCE[:, [1, 0, 2, 3, 4]], target) - found).max() > 1e-3


@pytest.mark.parametrize("first", [1, 3])
def test_cached_steps_equal_the_whole(model, first):
    # Law 3 and case 15: one prefill or single steps, with a left-padded prompt, and with the
    # padding id inside a target, where it is a token.
    source = padded_left(sentences([5, 3], seed=1))
    target = sentences([7, 7], seed=2, start=[2])
    target[1] = [0, 2, *target[1, 2:]]
    target[0, 3] = 0
    whole = logits(model, source, target)
    state = model.start(ops.convert_to_tensor(source), 7)
    step = compiled(model.step)
    place = 0
    for length in [first] + [1] * (7 - first):
        tokens = ops.convert_to_tensor(target[:, place : place + length])
        found, state = step(tokens, state)
        place += length
        real = np.array([True, place > 1])
        np.testing.assert_allclose(
            ops.convert_to_numpy(found)[real], whole[real, place - 1], atol=1e-5
        )
    assert int(state.index) == 7


def test_case_39_start_end_and_padding_share_an_id():
    # Law 3 where the start is the padding id: targets are padded on the right.
    model = randomize(tiny_transformer(pad_id=0, start_id=0, end_id=0))
    target = TARGET.copy()
    target[:, 0] = 0
    alone = logits(model, SOURCE, target)
    padded = logits(model, SOURCE, np.pad(target, ((0, 0), (0, 2))))
    np.testing.assert_allclose(padded[:, :4], alone, atol=1e-5)
    state = model.start(ops.convert_to_tensor(SOURCE), 4)
    step = compiled(model.step)
    for place in range(4):
        found, state = step(ops.convert_to_tensor(target[:, place : place + 1]), state)
        np.testing.assert_allclose(ops.convert_to_numpy(found), alone[:, place], atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("normalization", ["layer", "rms"])
def test_empty_sentences_and_single_tokens_are_finite(dtype, normalization):
    # Law 7.
    model = tiny_transformer(
        dtype=dtype, normalize_first=normalization == "rms", normalization=normalization
    )
    randomize(model)
    source = np.array([[0, 0, 0], [7, 0, 0], [5, 6, 7]])
    target = np.array([[2, 0], [0, 0], [2, 9]])
    assert np.all(np.isfinite(logits(model, source, target).astype("float32")))


def test_tied_embedding_is_one_variable():
    model = tiny_transformer(name="tied")
    names = [each.path for each in model.variables if "embedd" in each.path]
    assert names == ["tied/embedding/embeddings"]
    untied = [each.path for each in tiny_transformer(tie_weights=False).variables]
    assert sum("embedd" in path for path in untied) == 2


VARIANTS = {
    "paper": {},
    "pre-norm": {"normalize_first": True, "num_layers": 2, "num_decoder_layers": 3},
    "gated": {"gated": True, "activation": "gelu", "normalization": "rms", "use_bias": False},
    "untied": {"tie_weights": False, "dropout": 0.0, "seed": 7},
    "grouped": {"num_key_value_heads": 1, "value_dim": 5, "key_dim": 7, "attention_dropout": 0.1},
    "relative": {"position": RelativePositionBias(num_buckets=8, max_distance=11)},
    "learned": {"position": SCHEMES["learned"]()},
    "half": {"dtype": "mixed_bfloat16"},
}


@pytest.mark.parametrize("options", VARIANTS)
def test_case_55_config_and_weights_round_trip(options, tmp_path):
    # Law 8.
    model = randomize(tiny_transformer(**VARIANTS[options]))
    again = Transformer.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert paths(again) == paths(model)
    assert [each.dtype for each in again.variables] == [each.dtype for each in model.variables]
    assert again.layers[-1].compute_dtype == model.layers[-1].compute_dtype
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    again.load_weights(tmp_path / "model.weights.h5")
    right = logits(model, SOURCE, TARGET)
    assert_same_variables(again, model)
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded) is Transformer and loaded.get_config() == model.get_config()
    assert_same_variables(loaded, model)
    np.testing.assert_array_equal(logits(loaded, SOURCE, TARGET), right)


def paths(model):
    return [variable.path for variable in model.variables if "seed" not in variable.path]


def assert_same_variables(model, other):
    for each, right in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (each.value, right.value)))


def test_case_55_missing_weights_are_an_error(tmp_path):
    tiny_transformer().save_weights(tmp_path / "small.weights.h5")
    with pytest.raises(ValueError):
        tiny_transformer(num_layers=2).load_weights(tmp_path / "small.weights.h5")
    with pytest.raises(ValueError):
        tiny_transformer(model_dim=15).load_weights(tmp_path / "small.weights.h5")


LOAD = """
import sys
import numpy as np
import keras
import keras_transformer
model = keras.saving.load_model(sys.argv[1])
batch = np.load(sys.argv[2])
found = model.predict_on_batch({"source": batch["source"], "target": batch["target"]})
print(np.abs(found - batch["logits"]).max(), len(model.trainable_variables))
"""


def test_loads_in_a_fresh_process(tmp_path):
    # Law 8: the import registers the classes, without custom_objects.
    model = randomize(tiny_transformer(position=RelativePositionBias(8, 11), num_layers=2))
    model.save(tmp_path / "model.keras")
    right = logits(model, SOURCE, TARGET)
    np.savez(tmp_path / "batch.npz", source=SOURCE, target=TARGET, logits=right)
    printed = run_python(LOAD, tmp_path / "model.keras", tmp_path / "batch.npz").split()
    assert float(printed[-2]) < 1e-5 and int(printed[-1]) == len(model.trainable_variables)


def test_case_57_two_models_in_one(tmp_path):
    first, second = randomize(tiny_transformer(), seed=1), randomize(tiny_transformer(), seed=2)
    assert first.name != second.name
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
    both = keras.Model(inputs, ops.add(first(inputs), second(inputs)))
    both.save(tmp_path / "both.keras")
    again = keras.saving.load_model(tmp_path / "both.keras")
    assert_same_variables(again, both)
    np.testing.assert_array_equal(logits(again, SOURCE, TARGET), logits(both, SOURCE, TARGET))


def test_case_19_ids_outside_the_vocabulary():
    model = tiny_transformer()
    for wrong in (VOCABULARY, -1):
        source = SOURCE.copy()
        source[1, 2] = wrong
        with pytest.raises(ValueError, match=r"Ids of layer 'embedding' must be in \[0, 29\)"):
            model({"source": source, "target": TARGET})


@pytest.mark.skipif(keras.config.backend() == "torch", reason="torch has no graphs")
def test_case_19_compiled():
    model = tiny_transformer()
    for wrong in (VOCABULARY, -1):
        source = SOURCE.copy()
        source[1, 2] = wrong
        if keras.config.backend() == "jax":
            found = model.predict_on_batch({"source": source, "target": TARGET})
            assert np.all(np.isnan(found[1])) and np.all(np.isfinite(found[0]))
        else:
            import tensorflow as tf

            graph = tf.function(model)
            with pytest.raises(tf.errors.InvalidArgumentError, match="size of its vocabulary"):
                graph({"source": tf.constant(source), "target": tf.constant(TARGET)})


def test_case_59_quantized(tmp_path):
    model = randomize(tiny_transformer(), scale=0.2)
    right = logits(model, SOURCE, TARGET)
    model.quantize("int8")
    found = logits(model, SOURCE, TARGET)
    assert np.abs(found - right).max() < 0.1 * np.abs(right).max()
    assert "int8" in [each.dtype for each in model.variables]
    state = model.start(ops.convert_to_tensor(SOURCE), 4)
    last, _ = compiled(model.step)(ops.convert_to_tensor(TARGET), state)
    np.testing.assert_allclose(ops.convert_to_numpy(last), found[:, -1], atol=1e-4)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits(loaded, SOURCE, TARGET), found)
    model.compile("adam", SequenceCrossentropy(), metrics=[TokenAccuracy()])
    inputs, labels = {"source": SOURCE, "target": TARGET}, np.roll(TARGET, -1, axis=1)
    loss = model.evaluate(inputs, labels, verbose=0)[0]
    assert loss == pytest.approx(float(SequenceCrossentropy()(labels, found)), abs=1e-4)
    with pytest.raises(ValueError, match="must not be quantized to be trained.* Train it first"):
        model.fit(inputs, labels, verbose=0)


def test_unknown_shapes():
    # Law 7 of shapes: case 7 for a whole model.
    model = tiny_transformer()
    assert model.output_shape == (None, None, VOCABULARY)
    source, target = keras.KerasTensor((3, None), "int32"), keras.KerasTensor((3, 5), "int32")
    spec = model.compute_output_spec({"source": source, "target": target})
    assert spec.shape == (3, 5, VOCABULARY)


def parameters_of(preset, vocabulary_size):
    """Counts without a number being allocated."""
    from keras.src.backend.common.global_state import set_global_attribute
    from keras.src.backend.common.stateless_scope import StatelessScope

    with StatelessScope(initialize_variables=False):
        model = Transformer.from_preset(preset, vocabulary_size)
    set_global_attribute("uninitialized_variables", [])
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


@pytest.mark.any_backend
@pytest.mark.parametrize("name", TRANSFORMER_PRESETS)
def test_parameters_of_table_3(name):
    # The paper rounds to millions and does not say how it counts: most of its rows hold 2 more.
    paper = TRANSFORMER_PRESETS[name].parameters
    ours = parameters_of(name, 37_000) / 1e6
    if paper is not None:
        assert ours == pytest.approx(paper, rel=0.03, abs=2.6)


@pytest.mark.any_backend
def test_parameters_by_hand():
    def attention(width):
        return 4 * width * width + 4 * width

    def feed_forward(width, inner):
        return 2 * width * inner + inner + width

    def total(width, inner):
        encoder = attention(width) + feed_forward(width, inner) + 2 * 2 * width
        decoder = 2 * attention(width) + feed_forward(width, inner) + 3 * 2 * width
        return 37_000 * width + 6 * (encoder + decoder)

    assert parameters_of("base", 37_000) == total(512, 2048) == 63_082_496
    assert parameters_of("big", 37_000) == total(1024, 4096) == 214_245_376


@pytest.mark.parametrize(
    "options, message",
    [
        ({"vocabulary_size": 0}, "`vocabulary_size` must be a positive integer; got 0"),
        ({"num_layers": 0}, "`num_layers` must be a positive integer; got 0"),
        ({"num_decoder_layers": 0}, "`num_decoder_layers` must be a positive integer; got 0"),
        ({"num_heads": 5}, "`num_heads` must divide the width of the inputs; got 5 heads .* 12"),
        ({"dropout": 1.5}, r"`dropout` must be in \[0, 1\); got 1.5"),
        ({"pad_id": 29}, r"`pad_id` must be in \[0, vocabulary_size\); got 29 with 29"),
        ({"end_id": -1}, "`end_id` must be in"),
        ({"position": "learned"}, "`position` must be .*; got 'learned'"),
        ({"normalisation": "rms"}, "Unknown argument 'normalisation'; a block takes"),
        ({"normalization": "batch"}, "`normalization` must be one of .*; got 'batch'"),
        ({"mechanism": "fast"}, "`mechanism` must be one of .*; got 'fast'"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        tiny_transformer(**options)


def test_unknown_preset():
    with pytest.raises(ValueError, match="Preset must be one of .*'base'.*; got 'small'"):
        Transformer.from_preset("small", vocabulary_size=11)
