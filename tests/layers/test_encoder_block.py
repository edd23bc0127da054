"""The encoder's block: the paper's equations, masks of every kind, cases 5, 23 and 57."""

import warnings

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    EncoderBlock,
    SinusoidalPositionEncoding,
    SlidingWindowAttention,
)
from keras_transformer.layers.transformer_block import make_normalization

B, T, N, D, F = 2, 5, 2, 6, 11
RANDOM = np.random.default_rng(0)
IDS = np.array([[1, 2, 3, 4, 5], [6, 1, 2, 0, 0]], "int32")


def normal(*shape):
    return RANDOM.normal(size=shape).astype("float32")


def randomize(model, scale=0.5):
    for weight in model.trainable_variables:
        weight.assign(ops.convert_to_numpy(weight.value) + scale * normal(*weight.shape))
    return model


def values(tensor):
    return ops.convert_to_numpy(tensor)


def normalized(x, norm):
    gain, shift = map(values, norm.trainable_variables)
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)
    return (x - x.mean(axis=-1, keepdims=True)) / deviation * gain + shift


def fed_forward(x, block):
    inner, inner_bias, outer, outer_bias = map(values, block.feed_forward.trainable_variables)
    return np.maximum(x @ inner + inner_bias, 0) @ outer + outer_bias


@pytest.mark.parametrize("normalize_first", [False, True])
def test_equations_of_the_paper(normalize_first):
    # Sections 3.1 and 3.3, with Keras's own attention.
    block = EncoderBlock(N, F, normalize_first=normalize_first)
    x, mask = normal(B, T, D), IDS != 0
    block.build(x.shape)
    randomize(block)
    attention = keras.layers.MultiHeadAttention(N, D // N)
    attention.build(x.shape, x.shape)
    attention.set_weights(block.attention.get_weights())
    first, second = block.attention_norm, block.feed_forward_norm

    def attend(x):
        return values(attention(x, x, attention_mask=mask[:, None, :]))

    if normalize_first:
        hidden = x + attend(normalized(x, first))
        right = hidden + fed_forward(normalized(hidden, second), block)
    else:
        hidden = normalized(x + attend(x), first)
        right = normalized(hidden + fed_forward(hidden, block), second)
    np.testing.assert_allclose(values(block(x, mask=mask)), right, atol=2e-5)


@pytest.mark.parametrize("sequential", [False, True])
def test_case_5_the_mask_of_the_embedding_reaches_every_block_and_the_loss(sequential):
    parts = [
        keras.layers.Embedding(7, D, mask_zero=True),
        SinusoidalPositionEncoding(),
        EncoderBlock(N, F),
        EncoderBlock(N, F, normalize_first=True, normalization="rms"),
    ]
    pooling = keras.layers.GlobalAveragePooling1D()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*mask.*")
        if sequential:
            model = keras.Sequential([keras.Input((None,), dtype="int32"), *parts, pooling])
        else:
            inputs = hidden = keras.Input((None,), dtype="int32")
            for part in parts:
                hidden = part(hidden)
            model = keras.Model(inputs, pooling(hidden))
        randomize(model)
        implicit = values(model(IDS))
        targets = normal(B, T, D)
        tokens = keras.Model(model.inputs, parts[-1].output)
        tokens.compile(loss="mse", jit_compile=keras.config.backend() == "jax")
        loss = tokens.evaluate(IDS, targets, verbose=0)
    mask = IDS != 0
    hidden = parts[1](ops.take(parts[0].embeddings.value, IDS, axis=0))
    for block in parts[2:]:
        hidden = block(hidden, mask=mask)
    hidden = values(hidden)
    right = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(implicit, right, atol=1e-5)
    assert loss == pytest.approx(np.square(hidden - targets)[mask].mean(), rel=1e-4)
    # Padding is inert.
    np.testing.assert_allclose(values(model(IDS[1:, :3]))[0], implicit[1], atol=1e-5)


def test_attention_mask_segments_and_scores():
    block = randomize_built(EncoderBlock(N, F))
    x = normal(B, T, D)
    segments = np.array([[0, 0, 0, 1, 1], [0, 1, 1, 1, 1]])
    same = segments[:, :, None] == segments[:, None, :]
    outputs, scores = block(x, segments=segments, return_attention_scores=True)
    np.testing.assert_array_equal(values(scores) > 0, np.repeat(same[:, None], N, axis=1))
    np.testing.assert_allclose(values(block(x, attention_mask=same)), values(outputs), atol=1e-6)


def randomize_built(block):
    block.build((B, T, D))
    return randomize(block)


def test_symbolic_calls_take_what_calls_take():
    block = EncoderBlock(N, F)
    x, mask = keras.Input((T, D)), keras.Input((T,), dtype="bool")
    outputs, scores = block(x, mask=mask, return_attention_scores=True)
    assert outputs.shape == (None, T, D) and scores.shape == (None, N, T, T)
    model = keras.Model([x, mask], block(x, mask=mask))
    arrays = [normal(B, T, D), IDS != 0]
    np.testing.assert_allclose(
        values(model(arrays)), values(block(arrays[0], mask=arrays[1])), atol=1e-6
    )


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_case_23_norms_in_half_precision(kind):
    rows = [np.full(8, 3.0), np.zeros(8), [6e4, -6e4] * 4, np.linspace(0, 6e4, 8), [1e-4] * 8]
    rows = np.array(rows, "float16")
    half = make_normalization(kind, 1e-12, dtype="mixed_float16")
    exact = make_normalization(kind, 1e-12)
    half.build(rows.shape)
    exact.build(rows.shape)
    found, right = values(half(rows)), values(exact(rows.astype("float32")))
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, right, atol=4e-3)


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("normalize_first", [False, True])
def test_case_23_a_block_in_half_precision(kind, normalize_first):
    block = EncoderBlock(
        N,
        F,
        normalize_first=normalize_first,
        normalization=kind,
        epsilon=1e-12,
        dtype="mixed_float16",
    )
    x = normal(B, T, D)
    # Without a norm before them the scores of such numbers are beyond the range of float16.
    x[0, 0], x[0, 1], x[0, 2] = 0, 3, 6e4 if normalize_first else 30
    assert np.all(np.isfinite(values(block(x))))


def test_case_57_default_names_and_reuse(tmp_path):
    inputs = keras.Input((None, D))
    shared = EncoderBlock(N, F)
    hidden = shared(EncoderBlock(N, F)(EncoderBlock(N, F)(shared(inputs))))
    model = randomize(keras.Model(inputs, hidden))
    paths = [each.path for each in model.variables if "seed" not in each.path]
    assert len(paths) == len(set(paths)) == 3 * len(shared.trainable_variables)
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    x = normal(B, T, D)
    np.testing.assert_array_equal(values(loaded(x)), values(model(x)))
    randomize(loaded)
    loaded.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(values(loaded(x)), values(model(x)))


@pytest.mark.any_backend  # `Transformer` and its encoder are quantized on each
def test_case_59_quantized(tmp_path):
    inputs = keras.Input((None, D))
    model = randomize(keras.Model(inputs, EncoderBlock(N, F)(inputs)))
    x = normal(B, T, D)
    right = values(model(x))
    model.quantize("int8", filters="query|inner")  # Keras takes its time with each
    assert sum(each.dtype == "int8" for each in model.variables) == 2
    found = values(model(x))
    assert np.abs(found - right).max() < 0.1 * np.abs(right).max()
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        values(keras.saving.load_model(tmp_path / "model.keras")(x)), found
    )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_heads": 4}, "`num_heads` must divide the width of the inputs; got 4 heads .* 6"),
        ({"intermediate_dim": 0}, "`intermediate_dim` must be a positive integer; got 0"),
        ({"dropout": 1}, r"`dropout` must be in \[0, 1\); got 1"),
        ({"attention_dropout": -0.1}, "`attention_dropout` must be in"),
        ({"feed_forward_dropout": None}, "`feed_forward_dropout` must be in"),
        ({"epsilon": 0}, "`epsilon` must be above 0; got 0"),
        ({"normalization": "batch"}, "`normalization` must be one of .*; got 'batch'"),
        ({"position": "sinusoidal"}, "`position` must be a `PositionScheme` or None"),
        ({"num_key_value_heads": 3}, "`num_key_value_heads` must divide `num_heads`"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        EncoderBlock(**{"num_heads": N, "intermediate_dim": F, **options}).build((B, T, D))


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_bias_and_global_mask_reach_attention(dtype):
    bias = np.where(np.eye(T), 300.5, 300).astype("float32")
    block = EncoderBlock(N, F, mechanism=SlidingWindowAttention(1), dtype=dtype)
    dense = EncoderBlock(N, F, mechanism="dense", dtype=dtype)
    x, is_global = normal(B, T, D), np.arange(T) == 2
    for each in (block, dense):
        each.build(x.shape)
    dense.set_weights(block.get_weights())
    mask = np.eye(T, dtype="bool") | is_global[:, None] | is_global
    outputs = block(x, bias=bias, global_mask=np.stack([is_global] * B))
    right = dense(x, bias=bias, attention_mask=mask)
    assert keras.backend.standardize_dtype(outputs.dtype) == block.compute_dtype
    np.testing.assert_allclose(
        *(values(ops.cast(each, "float32")) for each in (outputs, right)), atol=1e-5
    )
    plain = dense(x, attention_mask=mask)
    assert np.abs(values(ops.cast(right - plain, "float32"))).max() > 1e-2
    with pytest.raises(ValueError, match="`bias` must have shape"):
        block(keras.Input((T, D)), bias=np.zeros((T, T + 1)))


def test_soft_cap_and_normalized_queries_are_options_of_a_block():
    block = EncoderBlock(N, F, logit_soft_cap=5.0, query_key_norm="rms")
    block.build((B, T, D))
    assert block.attention.logit_soft_cap == 5.0 and block.attention.query_key_norm == "rms"
    for wrong in ({"logit_soft_cap": 0}, {"query_key_norm": "batch"}, {"attention_scale": -1}):
        with pytest.raises(ValueError, match=f"`{next(iter(wrong))}`"):
            EncoderBlock(N, F, **wrong)
