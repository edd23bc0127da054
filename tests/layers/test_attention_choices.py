"""Laws that hold for every position scheme with every mechanism."""

from functools import partial

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import (
    DecodingState,
    repeat_rows,
    select_rows,
    select_sentences,
)
from keras_transformer.layers.alibi_bias import AlibiBias
from keras_transformer.layers.blockwise_attention import BlockwiseAttention
from keras_transformer.layers.learned_position_encoding import LearnedPositionEncoding
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.random_feature_attention import RandomFeatureAttention
from keras_transformer.layers.relative_position_bias import RelativePositionBias
from keras_transformer.layers.rotary_position import RotaryPosition
from keras_transformer.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding
from keras_transformer.layers.sliding_window_attention import SlidingWindowAttention

B, T, D = 2, 7, 6

SCHEMES = {
    "none": lambda: None,
    "rotary": RotaryPosition,
    "alibi": AlibiBias,
    "relative": lambda: RelativePositionBias(8, 16, bidirectional=False),
}
MECHANISMS = {
    "auto": lambda: "auto",
    "dense": lambda: "dense",
    "blockwise": lambda: BlockwiseAttention(3),
    "window": lambda: SlidingWindowAttention(3, 1, block_size=3),
    "random features": lambda: RandomFeatureAttention(8, seed=1),
}
PAIRS = [
    (scheme, mechanism)
    for mechanism in MECHANISMS
    for scheme in SCHEMES
    if mechanism != "random features" or scheme in ("none", "rotary")
]


def layer_of(scheme, mechanism, **options):
    layer = MultiHeadAttention(
        2, 4, position=SCHEMES[scheme](), mechanism=MECHANISMS[mechanism](), **options
    )
    layer.build((B, T, D), (B, T, D))
    return layer


def numbers(tensor):
    return ops.convert_to_numpy(tensor)


@pytest.mark.parametrize("scheme, mechanism", PAIRS)
def test_cached_equals_uncached(scheme, mechanism):
    layer = layer_of(scheme, mechanism)
    inputs = keras.random.normal((B, T, D), seed=1)
    right = numbers(layer(inputs, inputs, use_causal_mask=True))
    cache, start = layer.empty_cache(B, T), 0
    for end in (5, 6, T):
        positions = ops.broadcast_to(ops.arange(start, end, dtype="int32")[None], (B, end - start))
        outputs, cache = layer.step(
            inputs[:, start:end], cache, ops.convert_to_tensor(start, "int32"), positions
        )
        np.testing.assert_allclose(numbers(outputs), right[:, start:end], atol=1e-5)
        start = end


@pytest.mark.parametrize(
    "scheme, mechanism",
    [pair for pair in PAIRS if pair[0] in ("none", "relative") and pair[1] != "auto"],
)
def test_hypotheses_that_change_places_keep_their_histories(scheme, mechanism):
    """Law 3 for K hypotheses of a sentence, each read again without a cache."""
    hypotheses, layer = 3, layer_of(scheme, mechanism, num_key_value_heads=1)
    random = np.random.default_rng(1)
    state = DecodingState(source=(), cache=[layer.empty_cache(B, 8)], index=0)
    histories = np.zeros((B, 1, 0, D), "float32")
    steps = ((2, None), (1, None), (1, [[1, 0, 1], [2, 2, 0]]), (3, [[0, 2, 1]] * B), (1, None))
    for count, parents in steps:
        if state.index == 2:
            state = repeat_rows(state, hypotheses)
            histories = np.repeat(histories, hypotheses, axis=1)
        if parents is not None:
            state = select_rows(state, ops.convert_to_tensor(parents, "int32"))
            histories = np.take_along_axis(histories, np.array(parents)[:, :, None, None], axis=1)
        if state.index == 7:  # and goes on without the first sentence
            last = ops.convert_to_tensor([B - 1], "int32")
            state, histories = select_sentences(state, last, hypotheses), histories[B - 1 :]
        new = random.normal(size=(*histories.shape[:2], count, D)).astype("float32")
        histories = np.concatenate([histories, new], axis=2)
        rows = ops.convert_to_tensor(new.reshape(-1, count, D))
        positions = ops.broadcast_to(
            ops.arange(count, dtype="int32") + state.index, (rows.shape[0], count)
        )
        outputs, cache = layer.step(rows, state.cache[0], state.index, positions)
        state = state._replace(cache=[cache], index=state.index + count)
        inputs = ops.convert_to_tensor(histories.reshape(rows.shape[0], -1, D))
        right = numbers(layer(inputs, inputs, use_causal_mask=True))[:, -count:]
        np.testing.assert_allclose(numbers(outputs), right, atol=1e-5)


@pytest.mark.parametrize("mechanism", ["dense", "blockwise", "window"])
@pytest.mark.parametrize("scheme", ["rotary", "relative"])
def test_packed_sentences_give_what_they_give_alone(scheme, mechanism):
    layer = layer_of(scheme, mechanism)
    row = keras.random.normal((1, T, D), seed=1)
    positions = np.array([[0, 1, 2, 0, 1, 2, 3]], "int32")
    segments = np.array([[1, 1, 1, 2, 2, 2, 2]], "int32")
    packed = layer(
        row,
        row,
        use_causal_mask=True,
        query_positions=positions,
        key_positions=positions,
        query_segments=segments,
        key_segments=segments,
    )
    alone = [layer(part, part, use_causal_mask=True) for part in (row[:, :3], row[:, 3:])]
    np.testing.assert_allclose(numbers(packed), numbers(ops.concatenate(alone, 1)), atol=1e-5)


@pytest.mark.parametrize("scheme, mechanism", PAIRS)
def test_left_padding_is_inert(scheme, mechanism):
    layer = layer_of(scheme, mechanism)
    row = keras.random.normal((1, 4, D), seed=1)
    padded = ops.concatenate([9 * ops.ones((1, 3, D)), row], axis=1)
    positions = np.array([[-1, -1, -1, 0, 1, 2, 3]], "int32")
    outputs = layer(
        padded, padded, query_positions=positions, key_positions=positions, use_causal_mask=True
    )
    right = layer(row, row, use_causal_mask=True)
    np.testing.assert_allclose(numbers(outputs)[:, 3:], numbers(right), atol=1e-5)


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "part, first, second",
    [
        (RotaryPosition(), (2, 4), (2, 8)),
        (AlibiBias(), (1, 4), (4, 4)),
        (RelativePositionBias(), (2, 4), (3, 4)),
        (RandomFeatureAttention(8), (2, 4), (2, 8)),
        (RandomFeatureAttention(8), (2, 4), (4, 4)),
    ],
)
def test_an_object_serves_layers_with_equal_heads(part, first, second):
    role = "mechanism" if isinstance(part, RandomFeatureAttention) else "position"
    for heads in (first, first):
        MultiHeadAttention(*heads, **{role: part}).build((B, T, D), (B, T, D))
    with pytest.raises(ValueError, match="must serve layers with equal heads; .* of its own"):
        MultiHeadAttention(*second, **{role: part}).build((B, T, D), (B, T, D))


@pytest.mark.any_backend
def test_a_part_without_state_serves_any_heads():
    rotary, window = RotaryPosition(), SlidingWindowAttention(3)
    for num_heads in (2, 3):
        layer = MultiHeadAttention(num_heads, 4, position=rotary, mechanism=window)
        layer.build((B, T, D), (B, T, D))


@pytest.mark.parametrize("index", [5, np.int32(5)])
def test_a_cache_that_is_full_takes_no_more(index):
    layer = layer_of("none", "dense")
    positions = ops.arange(3, dtype="int32")[None]
    with pytest.raises(ValueError, match="`length` of the cache.*7 places for 3 tokens from 5"):
        layer.step(ops.zeros((1, 3, D)), layer.empty_cache(1, T), index, positions)


@pytest.mark.parametrize("encoding", [SinusoidalPositionEncoding(), LearnedPositionEncoding(T)])
def test_start_index_and_positions_exclude_one_another(encoding):
    for inputs in (ops.zeros((1, 3, D)), keras.Input((3, D))):
        with pytest.raises(ValueError, match="`start_index` must be left out"):
            encoding(inputs, start_index=1, positions=np.arange(3))
        with pytest.raises(ValueError, match="`start_index` must be 0 or more; got -1"):
            encoding(inputs, start_index=-1)


def test_case_15_start_index_past_256_in_bfloat16():
    layer = SinusoidalPositionEncoding(dtype="bfloat16")
    right = numbers(ops.cast(layer(ops.zeros((1, 303, D))), "float32"))[:, 300:]
    for start in (300, ops.convert_to_tensor(300, "int32")):
        outputs = layer(ops.zeros((1, 3, D)), start_index=start)
        np.testing.assert_array_equal(numbers(ops.cast(outputs, "float32")), right)


@pytest.mark.parametrize("scheme", ["rotary", "alibi", "relative"])
def test_case_15_positions_past_256_in_bfloat16(scheme):
    layer = layer_of(scheme, "dense", dtype="bfloat16")
    inputs = keras.random.normal((1, 4, D), seed=1)
    near = layer(inputs, inputs, use_causal_mask=True)
    far = layer(
        inputs,
        inputs,
        use_causal_mask=True,
        query_positions=np.arange(257, 261),
        key_positions=np.arange(257, 261),
    )
    np.testing.assert_allclose(
        numbers(ops.cast(near, "float32")), numbers(ops.cast(far, "float32")), atol=0.03
    )


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_query_and_key_normalization_forgets_their_size(norm):
    layer = layer_of("rotary", "dense", query_key_norm=norm, use_bias=False)
    inputs = keras.random.normal((B, T, D), seed=1)
    before = numbers(layer(inputs, inputs))
    for dense in (layer.query_dense, layer.key_dense):
        dense.kernel.assign(1000 * dense.kernel)
    np.testing.assert_allclose(numbers(layer(inputs, inputs)), before, atol=1e-3)
    memory = layer.remember(inputs)
    plain = layer_of("none", "dense", query_key_norm=norm, use_bias=False)
    plain.set_weights(layer.get_weights())
    np.testing.assert_allclose(
        numbers(plain.recall(inputs, memory)), numbers(plain(inputs, inputs)), atol=1e-5
    )
    assert MultiHeadAttention.from_config(layer.get_config()).query_key_norm == norm
    with pytest.raises(ValueError, match="`query_key_norm`"):
        MultiHeadAttention(2, 4, query_key_norm="batch")


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_case_23_normalization_of_extreme_rows_in_half_precision(norm):
    layer = layer_of("none", "dense", query_key_norm=norm, dtype="mixed_float16")
    for rows in (np.zeros((1, T, D)), np.ones((1, T, D)), np.full((1, T, D), 3e3)):
        assert np.isfinite(numbers(layer(rows.astype("float32"), rows.astype("float32")))).all()


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "cls, name, wrong",
    [
        (RotaryPosition, "base", ("x", np.inf, True, 1)),
        (RotaryPosition, "rotary_dim", (3, 2.0, "2", True, 0)),
        (partial(RotaryPosition, scaling="linear"), "factor", (None, "2", np.inf, 0.5, True)),
        (partial(RotaryPosition, scaling="yarn", factor=2), "original_length", (0, 1.5, "9")),
        (partial(RotaryPosition, scaling="ntk", factor=2), "beta_fast", (32.0,)),
        (RelativePositionBias, "num_buckets", (8.0, "8", True, 3)),
        (RelativePositionBias, "max_distance", (128.0, "9", None, 3)),
        (RelativePositionBias, "bidirectional", ("no", None, 1)),
        (SinusoidalPositionEncoding, "max_wavelength", ("x", np.inf, 1, True)),
        (LearnedPositionEncoding, "max_length", (True, 1.0, 0)),
        (RandomFeatureAttention, "num_features", (True, 4.0, "4", 0)),
        (RandomFeatureAttention, "seed", ("x", 1.5, -1, True)),
        (SlidingWindowAttention, "window", (True, 2.0, "2", 0)),
        (partial(SlidingWindowAttention, 3), "global_tokens", (True, 1.0, -1)),
        (partial(SlidingWindowAttention, 3), "global_projections", ("yes", 1)),
        (partial(SlidingWindowAttention, 3), "block_size", (True, 2.0, 0)),
        (BlockwiseAttention, "block_size", (True, 2.0, 0, None)),
        (partial(MultiHeadAttention, 2, 4), "scale", (np.inf, True, "x", -1)),
        (partial(MultiHeadAttention, 2, 4), "logit_soft_cap", (np.inf, True, 0)),
        (partial(MultiHeadAttention, 2, 4), "use_bias", ("no", None, 1)),
        (partial(MultiHeadAttention, 2, 4), "query_key_norm", (["rms"], "batch")),
        (partial(MultiHeadAttention, 2, 4), "dropout", (True, "x", 1)),
    ],
)
def test_wrong_arguments_are_named(cls, name, wrong):
    for value in wrong:
        with pytest.raises(ValueError, match=f"`{name}`"):
            cls(**{name: value})


@pytest.mark.any_backend
def test_integers_of_numpy_are_integers():
    SlidingWindowAttention(np.int64(3), global_tokens=np.int32(1))
    MultiHeadAttention(np.int64(2), np.int64(4), position=RotaryPosition(rotary_dim=np.int32(2)))


@pytest.mark.any_backend
def test_scalings_take_the_turns_of_their_papers():
    for scaling, betas in (("yarn", (32, 1)), ("llama3", (4, 1))):
        position = RotaryPosition(scaling=scaling, factor=2, original_length=64)
        assert (position.beta_fast, position.beta_slow) == betas


@pytest.mark.any_backend
def test_features_cannot_be_drawn_again_before_they_are_drawn():
    with pytest.raises(ValueError, match="must be built before `redraw`"):
        RandomFeatureAttention(8).redraw()


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "options", [{"dropout": 0.1}, {"logit_soft_cap": 5.0}, {"position": AlibiBias()}]
)
def test_what_a_mechanism_refuses_it_refuses_when_the_layer_is_built(options):
    layer = MultiHeadAttention(2, 4, mechanism=RandomFeatureAttention(8), **options)
    with pytest.raises(ValueError, match="random features cannot do"):
        layer.build((B, T, D), (B, T, D))
