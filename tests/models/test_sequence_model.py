"""`fit` and `evaluate` by blocks of rows: the numbers of a plain model that makes all logits."""

import keras
import numpy as np
import pytest
from keras import ops
from tiny_models import VOCABULARY, randomize, tiny_transformer, translation_pairs

from keras_transformer.layers import TokenEmbedding
from keras_transformer.models import SequenceModel
from keras_transformer.ops import cross_entropy
from keras_transformer.ops.backend import prompt_pipelines
from keras_transformer.training import Perplexity, SequenceCrossentropy, TokenAccuracy


def small_blocks(monkeypatch):
    """Several blocks for the few rows of a test."""
    monkeypatch.setattr(cross_entropy, "_rows_in_block", lambda *sizes: 5)


def compile_as(model, loss=None, metrics=None, optimizer=None, **options):
    model.compile(
        optimizer or keras.optimizers.SGD(0.05),
        loss or SequenceCrossentropy(0.1),
        metrics=[TokenAccuracy(), Perplexity()] if metrics is None else metrics,
        jit_compile=keras.config.backend() == "jax",
        **options,
    )
    return model


def plain_twin(model):
    """A plain Keras model of the same layers with weights of its own."""
    inputs, outputs = model._inputs_struct, model.outputs[0]
    twin = keras.models.clone_model(keras.Model(inputs, outputs))
    assert type(twin) is not SequenceModel
    twin.set_weights(model.get_weights())
    return twin


def weights(model):
    return [ops.convert_to_numpy(each.value) for each in model.trainable_variables]


@pytest.mark.parametrize("tie_weights", [True, False])
def test_fit_by_blocks_equals_fit_with_all_logits(tie_weights, monkeypatch):
    small_blocks(monkeypatch)
    model = randomize(tiny_transformer(dropout=0.0, tie_weights=tie_weights), scale=0.1)
    twin = plain_twin(model)
    inputs, labels = translation_pairs(rows=8)
    histories = [
        compile_as(each)
        .fit(inputs, labels, batch_size=8, epochs=3, shuffle=False, verbose=0)
        .history
        for each in (model, twin)
    ]
    assert model._by_blocks and histories[0].keys() == histories[1].keys()
    for name, values in histories[0].items():
        np.testing.assert_allclose(values, histories[1][name], rtol=1e-4)
    for each, right in zip(weights(model), weights(twin), strict=True):
        np.testing.assert_allclose(each, right, atol=1e-5)
    scores = model.evaluate(inputs, labels, batch_size=8, verbose=0)
    np.testing.assert_allclose(
        scores, twin.evaluate(inputs, labels, batch_size=8, verbose=0), rtol=1e-4
    )
    # The order is Keras's: the loss, then the metrics as they were given.
    logits = model.predict(inputs, verbose=0)
    right = [float(SequenceCrossentropy(0.1)(labels, logits))]
    for metric in (TokenAccuracy(), Perplexity()):
        metric.update_state(labels, logits)
        right.append(float(metric.result()))
    np.testing.assert_allclose(scores, right, rtol=1e-4)


def test_losses_and_metrics_are_means_over_tokens_whatever_the_batches():
    model = compile_as(randomize(tiny_transformer()))
    inputs, labels = translation_pairs(rows=8)
    whole = model.evaluate(inputs, labels, batch_size=8, verbose=0)
    np.testing.assert_allclose(
        model.evaluate(inputs, labels, batch_size=3, verbose=0), whole, rtol=1e-4
    )
    # Nothing but padding changes nothing.
    more = {name: np.concatenate([rows, np.zeros_like(rows)]) for name, rows in inputs.items()}
    padded = model.evaluate(
        more, np.concatenate([labels, np.zeros_like(labels)]), batch_size=8, verbose=0
    )
    np.testing.assert_allclose(padded, whole, rtol=1e-4)


def test_sample_weights_and_one_hot_targets():
    model = compile_as(randomize(tiny_transformer()))
    inputs, labels = translation_pairs(rows=8)
    logits = model.predict(inputs, verbose=0)
    of_tokens = np.random.default_rng(0).random(labels.shape).astype("float32")
    for sample_weight in (of_tokens, of_tokens[:, 0], of_tokens[:, :1]):
        right = float(SequenceCrossentropy(0.1)(labels, logits, sample_weight))
        found = model.evaluate(inputs, labels, sample_weight=sample_weight, batch_size=8, verbose=0)
        assert found[0] == pytest.approx(right, rel=1e-4)
    one_hot = np.eye(VOCABULARY, dtype="float32")[labels]
    np.testing.assert_allclose(
        model.evaluate(inputs, one_hot, batch_size=8, verbose=0),
        model.evaluate(inputs, labels, batch_size=8, verbose=0),
        rtol=1e-5,
    )


def test_case_39_no_padding_id():
    # The end shares its id with padding: what counts is told by the weights.
    model = randomize(tiny_transformer(pad_id=0, end_id=0))
    loss = SequenceCrossentropy(0.0, pad_id=None)
    compile_as(model, loss, [TokenAccuracy(pad_id=None)])
    inputs, labels = translation_pairs(rows=8)
    labels[labels == 3] = 0
    counted = (inputs["target"] != 0).astype("float32")
    found = model.evaluate(inputs, labels, sample_weight=counted, batch_size=8, verbose=0)
    logits = model.predict(inputs, verbose=0)
    assert found[0] == pytest.approx(float(loss(labels, logits, counted)), rel=1e-4)
    assert float(loss(labels, logits)) != pytest.approx(found[0], rel=1e-2)


@pytest.mark.parametrize(
    "options",
    [
        {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        {"metrics": [keras.metrics.SparseCategoricalAccuracy()]},
        {"metrics": [TokenAccuracy(pad_id=None)]},
        {"loss_weights": 2.0},
        {"weighted_metrics": [TokenAccuracy()]},
    ],
)
def test_anything_else_makes_logits(options):
    model = randomize(tiny_transformer(dropout=0.0))
    twin = plain_twin(model)
    inputs, labels = translation_pairs(rows=8)
    compile_as(model, **options)
    assert not model._by_blocks
    scores = [
        compile_as(each, **options).evaluate(inputs, labels, batch_size=8, verbose=0)
        for each in (model, twin)
    ]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4)


def test_a_regularizer_is_in_the_gradient():
    model = randomize(tiny_transformer(dropout=0.0), scale=0.1)
    model.get_layer("embedding").embeddings.regularizer = keras.regularizers.L2(0.1)
    twin = plain_twin(model)
    twin.get_layer("embedding").embeddings.regularizer = keras.regularizers.L2(0.1)
    inputs, labels = translation_pairs(rows=8)
    for each in (model, twin):
        compile_as(each).fit(inputs, labels, batch_size=8, verbose=0)
    for each, right in zip(weights(model), weights(twin), strict=True):
        np.testing.assert_allclose(each, right, atol=1e-5)


@pytest.mark.parametrize("parts", [2, 3])
def test_a_batch_in_parts_trains_as_a_whole(parts, monkeypatch):
    # Of 7 rows, and of the 2 that are left: with three parts one is empty.
    small_blocks(monkeypatch)
    model, twin = (randomize(tiny_transformer(dropout=0.0), scale=0.1) for _ in range(2))
    twin.set_weights(model.get_weights())
    compile_as(model, batch_parts=parts), compile_as(twin)
    inputs, labels = translation_pairs(rows=9)
    counts = 0.5 + (np.arange(labels.size) % 5).reshape(labels.shape).astype("float32")
    histories = [
        each.fit(inputs, labels, 7, 2, sample_weight=counts, shuffle=False, verbose=0).history
        for each in (model, twin)
    ]
    for name, values in histories[0].items():
        np.testing.assert_allclose(values, histories[1][name], rtol=1e-4)
    for each, right in zip(weights(model), weights(twin), strict=True):
        np.testing.assert_allclose(each, right, atol=1e-5)


def test_parts_of_a_batch_are_kept_and_checked(tmp_path):
    model = compile_as(randomize(tiny_transformer()), batch_parts=2)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded._batch_parts == 2 and loaded.get_compile_config()["batch_parts"] == 2
    with pytest.raises(ValueError, match="`batch_parts` must be .*; got 0"):
        compile_as(model, batch_parts=0)
    with pytest.raises(ValueError, match="`batch_parts` must be 1 unless .* got 2"):
        compile_as(model, keras.losses.SparseCategoricalCrossentropy(True), batch_parts=2)
    with pytest.raises(ValueError, match="`metrics` must be a list"):
        model.compile("sgd", SequenceCrossentropy(), metrics=TokenAccuracy())


@pytest.mark.parametrize("penalty", ["add_loss", "activity_regularizer"])
def test_parts_of_a_batch_refuse_what_each_would_add(penalty):
    class Penalized(keras.layers.Layer):
        supports_masking = True

        def call(self, inputs):
            if penalty == "add_loss":
                self.add_loss(ops.mean(inputs))
            return inputs

    tokens = keras.Input((None,), dtype="int32")
    embedding = TokenEmbedding(vocabulary_size=VOCABULARY, model_dim=8)
    hidden = Penalized(activity_regularizer="l2" if penalty != "add_loss" else None)(
        embedding(tokens)
    )
    model = SequenceModel(tokens, embedding(hidden, reverse=True))
    rows = np.arange(4, 12).reshape(2, 4)
    compile_as(model).fit(rows, rows, verbose=0)
    compile_as(model, batch_parts=2)
    with pytest.raises(ValueError, match="`batch_parts` must be 1 where a layer adds a loss"):
        model.fit(rows, rows, verbose=0)


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="refused on TensorFlow alone")
def test_parts_of_a_batch_refuse_xla_on_tensorflow():
    model = randomize(tiny_transformer())
    with pytest.raises(ValueError, match="`batch_parts` must be 1 where XLA .*; got 2"):
        model.compile("sgd", SequenceCrossentropy(), jit_compile=True, batch_parts=2)


def test_compiled_again_and_saved(tmp_path):
    model = compile_as(randomize(tiny_transformer()))
    compile_as(model, metrics=[Perplexity()])
    inputs, labels = translation_pairs(rows=8)
    scores = model.evaluate(inputs, labels, batch_size=8, verbose=0, return_dict=True)
    assert list(scores) == ["loss", "perplexity"]
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded._by_blocks and loaded.loss.get_config() == model.loss.get_config()
    assert loaded.get_compile_config() == model.get_compile_config()
    again = loaded.evaluate(inputs, labels, batch_size=8, verbose=0, return_dict=True)
    assert again == pytest.approx(scores, rel=1e-5) and list(again) == list(scores)


def test_composed_of_layers(tmp_path):
    from keras_transformer.layers import EncoderBlock, TokenEmbedding

    tokens = keras.Input((None,), dtype="int32")
    embedding = TokenEmbedding(VOCABULARY, 8)
    hidden = EncoderBlock(num_heads=2, intermediate_dim=13)(embedding(tokens))
    model = randomize(SequenceModel(tokens, embedding(hidden, reverse=True)))
    compile_as(model)
    assert model._by_blocks
    _, labels = translation_pairs(rows=8)
    scores = model.evaluate(labels, labels, batch_size=8, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded) is SequenceModel and loaded._by_blocks
    np.testing.assert_allclose(
        loaded.evaluate(labels, labels, batch_size=8, verbose=0), scores, rtol=1e-5
    )


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_trains(dtype):
    model = tiny_transformer(dtype=dtype)
    compile_as(model, optimizer=keras.optimizers.Adam(0.01))
    inputs, labels = translation_pairs(rows=8)
    history = model.fit(inputs, labels, batch_size=8, epochs=12, verbose=0).history
    assert np.all(np.isfinite(history["loss"])) and history["loss"][-1] < 0.8 * history["loss"][0]
    assert all(np.all(np.isfinite(each)) for each in weights(model))
    assert {each.dtype for each in model.trainable_variables} == {"float32"}


def test_the_dropout_goes_on_where_it_was(tmp_path):
    # Law 10: one epoch, saved, loaded into a new model, and one more, is two epochs.
    inputs, labels = translation_pairs(rows=8)

    def build():
        return compile_as(
            tiny_transformer(dropout=0.3, seed=5), optimizer=keras.optimizers.Adam(0.01)
        )

    whole, first, second = build(), build(), build()
    for each in (first, second):
        each.set_weights(whole.get_weights())
    asked = {"batch_size": 8, "shuffle": False, "verbose": 0}
    whole.fit(inputs, labels, epochs=3, **asked)
    first.fit(inputs, labels, epochs=2, **asked)
    first.save_weights(tmp_path / "model.weights.h5")
    second.optimizer.build(second.trainable_variables)
    second.load_weights(tmp_path / "model.weights.h5")
    second.fit(inputs, labels, initial_epoch=2, epochs=3, **asked)
    for each, right in zip(weights(second), weights(whole), strict=True):
        np.testing.assert_allclose(each, right, atol=1e-6)


def test_weights_are_loaded_with_the_optimizers_state_into_a_new_model(tmp_path):
    # As docs/recipe.md resumes: a model that was built and compiled, and has made no step.
    def compiled():
        return compile_as(tiny_transformer(), optimizer=keras.optimizers.Adam(0.01))

    model, fresh = compiled(), compiled()
    inputs, labels = translation_pairs(rows=8)
    model.fit(inputs, labels, batch_size=4, verbose=0)
    model.save_weights(tmp_path / "model.weights.h5")
    fresh.load_weights(tmp_path / "model.weights.h5")
    assert int(fresh.optimizer.iterations) == 2
    for each in (model, fresh):
        each.fit(inputs, labels, batch_size=4, shuffle=False, verbose=0)
    for ours, other in zip(model.weights, fresh.weights, strict=True):
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (ours, other)), atol=1e-6)


def test_labels_outside_the_vocabulary_are_no_loss():
    model = compile_as(tiny_transformer())
    inputs, labels = translation_pairs(rows=4)
    for wrong in (VOCABULARY, -3):
        labels[1, 0] = wrong
        if keras.config.backend() == "jax":
            assert np.isnan(model.evaluate(inputs, labels, verbose=0)[0])
        else:
            with pytest.raises(Exception, match="labels must be in"):
                model.evaluate(inputs, labels, verbose=0)


def test_an_epoch_leaves_no_gradients_behind():
    model = compile_as(randomize(tiny_transformer()))
    inputs, labels = translation_pairs(rows=8)
    model.fit(inputs, labels, batch_size=4, verbose=0)
    assert model.trainable_variables
    for variable in model.trainable_variables:
        assert getattr(variable.value, "grad", None) is None


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="others have no tuner")
def test_no_epoch_waits_for_the_tuner_of_its_pipeline():
    import tensorflow as tf

    inputs, labels = translation_pairs(rows=5)
    weights = np.ones(labels.shape, "float32")
    given = {"x": inputs, "y": labels, "sample_weight": weights, "batch_size": 2}
    prompt = prompt_pipelines({**given, "validation_data": (inputs, labels)})
    assert set(prompt) == {"x", "batch_size", "validation_data"}
    for adapter in (prompt["x"], prompt["validation_data"]):
        assert adapter.get_tf_dataset().options().autotune.enabled is False
        assert adapter.num_batches == 3
    own = tf.data.Dataset.from_tensors((inputs, labels))
    kept = prompt_pipelines({"x": own, "validation_data": own, "shuffle": False})
    for adapter in (kept["x"], kept["validation_data"]):
        assert adapter.get_tf_dataset().options().autotune.enabled is None
    split = prompt_pipelines({**given, "validation_split": 0.4})
    assert split == {**given, "validation_split": 0.4}


def test_fit_takes_what_that_of_keras_takes():
    inputs, labels = translation_pairs(rows=10)
    weights = np.ones(labels.shape, "float32")
    model = compile_as(randomize(tiny_transformer()))
    history = model.fit(
        inputs, labels, 4, 2, 0, sample_weight=weights, validation_split=0.5, steps_per_epoch=1
    ).history
    assert len(history["loss"]) == len(history["val_loss"]) == 2
    validation = (inputs, labels, weights)
    history = model.fit(inputs, labels, validation_data=validation, verbose=0).history
    right = model.evaluate(inputs, labels, verbose=0)[0]
    np.testing.assert_allclose(history["val_loss"], [right], rtol=1e-5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'steps'"):
        model.fit(inputs, labels, steps=3)
