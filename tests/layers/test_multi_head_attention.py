"""MultiHeadAttention against Keras's own layer, and the laws of its masks (1, 3, 6, 7)."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    AlibiBias,
    BlockwiseAttention,
    MultiHeadAttention,
    SlidingWindowAttention,
)

B, T, S, N, H, W, D, C = 2, 5, 7, 6, 3, 4, 11, 13
RANDOM = np.random.default_rng(0)
KEY_MASK = np.arange(S) < np.array([[7], [4]])
QUERY_MASK = np.arange(T) < np.array([[3], [5]])
MECHANISMS = ["dense", "auto"] + ([] if keras.config.backend() == "tensorflow" else ["fused"])


def normal(*shape):
    return RANDOM.normal(size=shape).astype("float32")


def values(tensors):
    return keras.tree.map_structure(ops.convert_to_numpy, tensors)


def randomize(layer, scale=0.5):
    for weight in layer.weights:
        if "seed" not in weight.path:
            weight.assign(scale * normal(*weight.shape))


MASKS = {
    "none": {},
    "value_mask": {"value_mask": KEY_MASK},
    "key_mask": {"key_mask": KEY_MASK},
    "value_mask and key_mask": {"value_mask": KEY_MASK, "key_mask": np.roll(KEY_MASK, 1, axis=1)},
    "query_mask": {"query_mask": QUERY_MASK},
    "attention_mask of three axes": {"attention_mask": normal(B, T, S) > -0.5},
    "attention_mask of four axes": {"attention_mask": normal(B, N, T, S) > -0.5},
    "integer attention_mask": {"attention_mask": (normal(B, T, S) > -0.5).astype("int32")},
    "float attention_mask": {"attention_mask": (normal(B, T, S) > -0.5).astype("float32")},
    "causal": {"use_causal_mask": True},
    "all": {
        "value_mask": KEY_MASK,
        "query_mask": QUERY_MASK,
        "attention_mask": np.tril(np.ones((B, T, S), "bool"), 2),
        "use_causal_mask": True,
    },
}


def pair(key_given=False, **options):
    """Keras's layer and ours with the same random weights, and inputs for both."""
    # JAX's fused kernel, which Keras takes by itself, wants one width for keys and values.
    theirs = keras.layers.MultiHeadAttention(N, H, flash_attention=False, **options)
    ours = MultiHeadAttention(N, H, **options)
    inputs = [normal(B, T, D), normal(B, S, C)] + ([normal(B, S, C + 1)] if key_given else [])
    for layer in (theirs, ours):
        layer.build(*(each.shape for each in inputs))
    weights = [0.5 * normal(*weight.shape) for weight in theirs.get_weights()]
    theirs.set_weights(weights)
    ours.set_weights(weights)
    return theirs, ours, inputs


def with_scores(theirs, *inputs, **asked):
    """Calls Keras's layer on its dense path: on JAX the other refuses values of another width."""
    return theirs(*inputs, **asked, return_attention_scores=True)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("scores", [False, True])
def test_weights_of_keras_give_the_outputs_of_keras(masks, scores):
    theirs, ours, inputs = pair(value_dim=W)
    found = values(ours(*inputs, **MASKS[masks], return_attention_scores=scores))
    right = values(with_scores(theirs, *inputs, **MASKS[masks]))
    right = right if scores else right[0]
    # Keras gives a masked query, and a row with nothing to see, the mean of the values; we zeros.
    rows = MASKS[masks].get("query_mask", np.ones((B, T), "bool"))
    if scores:
        np.testing.assert_allclose(
            np.moveaxis(found[1], 1, 2)[rows], np.moveaxis(right[1], 1, 2)[rows], atol=1e-5
        )
        found, right = found[0], right[0]
    np.testing.assert_allclose(found[rows], right[rows], atol=1e-5)


@pytest.mark.parametrize(
    "options", [{"use_bias": False}, {"output_shape": 17}, {"value_dim": W, "key_given": True}]
)
def test_options_of_keras(options):
    theirs, ours, inputs = pair(**options)
    np.testing.assert_allclose(*values((ours(*inputs), with_scores(theirs, *inputs)[0])), atol=1e-5)
    assert [each.path.split("/")[-2:] for each in ours.weights] == [
        each.path.split("/")[-2:] for each in theirs.weights
    ]


def test_self_attention_of_keras():
    # Projections of the same inputs are made as one product.
    theirs = keras.layers.MultiHeadAttention(N, H, W, flash_attention=False)
    ours = MultiHeadAttention(N, H, W)
    inputs = ops.convert_to_tensor(normal(B, T, D))
    with_scores(theirs, inputs, inputs)
    ours(inputs, inputs)
    ours.set_weights([normal(*each.shape) for each in ours.get_weights()])
    theirs.set_weights(ours.get_weights())
    found, right = values((ours(inputs, inputs), with_scores(theirs, inputs, inputs)[0]))
    np.testing.assert_allclose(found, right, atol=2e-5)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("mask", [None, "value_mask", "attention_mask"])
def test_case_1_the_future_does_not_change_the_past(mechanism, training, dropout, scores, mask):
    # Law 1.
    if mechanism == "fused" and (scores or dropout):
        pytest.skip("refused: see test_fused_says_what_it_cannot_do")
    layer = MultiHeadAttention(2, H, dropout=dropout, mechanism=mechanism, seed=3)
    before = normal(B, 6, D)
    after = np.concatenate([before[:, :3], normal(B, 3, D)], axis=1)
    layer.build(before.shape, before.shape)
    asked = {"use_causal_mask": True, "return_attention_scores": scores, "training": training}
    if mask == "value_mask":
        asked[mask] = np.arange(6) != 1
        asked[mask] = np.stack([asked[mask]] * B)
    elif mask == "attention_mask":
        asked[mask] = np.ones((6, 6), "bool")
    outputs = []
    for inputs in (before, after):
        if dropout:
            layer.seed_generator.state.assign([5, 7])
        outputs.append(values(layer(inputs, inputs, **asked)))
    if scores:
        for _, weights in outputs:
            assert np.all(weights * np.triu(np.ones((6, 6)), 1) == 0)
            assert np.all(np.isfinite(weights))
        np.testing.assert_allclose(outputs[1][1][:, :, :3], outputs[0][1][:, :, :3], atol=1e-6)
        outputs = [output for output, _ in outputs]
    np.testing.assert_allclose(outputs[1][:, :3], outputs[0][:, :3], atol=1e-6)
    assert np.abs(outputs[1][:, 3:] - outputs[0][:, 3:]).min(axis=-1).max() > 1e-3


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_case_3_true_means_may_attend(mechanism, dtype):
    layer = MultiHeadAttention(1, H, mechanism=mechanism)
    query, value = normal(1, 3, D), normal(1, 4, D)
    layer.build(query.shape, value.shape)
    mask = np.array([[[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]]], dtype)
    seen = values(layer.output_dense(layer.value_dense(value[:, [2, 0, 3]])))
    np.testing.assert_allclose(values(layer(query, value, attention_mask=mask)), seen, atol=1e-6)
    if mechanism != "fused":
        _, weights = values(layer(query, value, attention_mask=mask, return_attention_scores=True))
        np.testing.assert_array_equal(weights[:, 0], mask.astype("float32"))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("masks", ["attention_mask", "value_mask", "query_mask", "causal"])
def test_rows_that_see_nothing_are_zero(mechanism, masks, gradients):
    # Law 7: values and gradients.
    layer = MultiHeadAttention(2, H, use_bias=False, mechanism=mechanism)
    query, value = normal(2, T, D), normal(2, S, D)
    layer.build(query.shape, value.shape)
    dead = np.zeros((2, T), "bool")
    asked = {}
    if masks == "attention_mask":
        dead[1, 2] = True
        asked = {masks: np.repeat(~dead[:, :, None], S, axis=2)}
    elif masks == "value_mask":
        dead[1] = True
        asked = {masks: np.repeat(~dead[:, :1], S, axis=1)}
    elif masks == "query_mask":
        dead[0, 1:] = True
        asked = {masks: ~dead}
    else:
        # The only keys that the first two queries might see are padding.
        dead[:, :2] = True
        asked = {"use_causal_mask": True, "value_mask": np.arange(S)[None].repeat(2, 0) >= 2}
    output, by_inputs = gradients(
        lambda query, value: layer(query, value, **asked), [query, value], normal(2, T, D)
    )
    np.testing.assert_array_equal(output[dead], 0)
    assert np.all(np.abs(output[~dead]).max(axis=-1) > 1e-3)
    for gradient in by_inputs:
        assert np.all(np.isfinite(gradient))
    np.testing.assert_array_equal(by_inputs[0][dead], 0)
    if mechanism != "fused":
        _, weights = values(layer(query, value, return_attention_scores=True, **asked))
        np.testing.assert_array_equal(np.moveaxis(weights, 1, 2)[dead], 0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_case_21_large_scores_and_two_masks_in_half_precision(mechanism, dtype):
    layer = MultiHeadAttention(1, 4, mechanism=mechanism, scale=1.0, dtype=dtype)
    layer.build((1, 3, 4), (1, 3, 4))
    eye = np.eye(4, dtype="float32")
    layer.set_weights(
        [17.5 * eye[:, None], np.zeros((1, 4))] * 2
        + [eye[:, None], np.zeros((1, 4))]
        + [eye[None], np.zeros(4)]
    )
    query = np.array([[[-1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]], "float32")
    value = np.array([[[1, 0, 0, 0], [1, 0, 0, 1], [-1, 0, 1, 0]]], "float32")
    asked = {
        "attention_mask": np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]], "bool"),
        "value_mask": np.array([[True, True, False]]),
        "use_causal_mask": False,
    }
    output = values(layer(query, value, **asked)).astype("float32")
    # Scores of row 0 are -306 twice: half each.
    right = [[[1, 0, 0, 0.5], [1, 0, 0, 0], [0, 0, 0, 0]]]
    np.testing.assert_allclose(output, right, atol=1e-2)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_bias_is_added_to_the_scaled_scores(mechanism):
    layer = MultiHeadAttention(2, H, mechanism=mechanism)
    query, value = normal(B, T, D), normal(B, S, D)
    layer.build(query.shape, value.shape)
    q, k = values((layer.query_dense(query), layer.key_dense(value)))
    v = values(layer.value_dense(value))
    for shape in [(T, S), (2, T, S), (B, 2, T, S)]:
        bias = normal(*shape)
        scores = np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(H) + bias
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        right = values(layer.output_dense(np.einsum("bnts,bsnh->btnh", weights, v)))
        np.testing.assert_allclose(values(layer(query, value, bias=bias)), right, atol=1e-5)


EXACT = [*MECHANISMS, BlockwiseAttention(2), SlidingWindowAttention(11, block_size=2)]


@pytest.mark.parametrize("mechanism", EXACT, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_case_21_biases_that_half_precision_does_not_have(mechanism, dtype):
    layer = MultiHeadAttention(1, 4, mechanism=mechanism, dtype=dtype)
    layer.build((1, 5, 4), (1, 5, 4))
    eye = np.eye(4, dtype="float32")
    nothing = [np.zeros((4, 1, 4)), np.zeros((1, 4))]
    layer.set_weights([*nothing, *nothing, eye[:, None], np.zeros((1, 4)), eye[None], np.zeros(4)])
    inputs = np.concatenate([eye, np.zeros((1, 4), "float32")])[None]
    bias = np.full((5, 5), -1e9, "float32")
    bias[0, :2] = 300.5, 300
    bias[1, :2] = 0
    bias[3] = -np.inf
    bias[4] = -np.inf, -np.inf, 5, -np.inf, -np.inf
    share = 1 / (1 + np.exp(-0.5))
    right = [[share, 1 - share, 0, 0], [0.5, 0.5, 0, 0], [0.2] * 4, [0] * 4, [0, 0, 1, 0]]
    output = values(ops.cast(layer(inputs, inputs, bias=bias), "float32"))
    np.testing.assert_allclose(output[0], right, atol=1e-6 if dtype == "float32" else 4e-3)


@pytest.mark.parametrize("mechanism", EXACT, ids=str)
def test_a_bias_of_minus_infinity_has_finite_gradients(mechanism, gradients):
    layer = MultiHeadAttention(2, 4, mechanism=mechanism)
    layer.build((1, 5, 4), (1, 5, 4))
    bias = normal(5, 5)
    bias[1], bias[2, :3] = -np.inf, -np.inf
    found = gradients(
        lambda inputs, bias: layer(inputs, inputs, bias=bias),
        [normal(1, 5, 4), bias],
        normal(1, 5, 4),
    )
    assert all(np.isfinite(each).all() for each in [found[0], *found[1]])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("groups", [1, 2])
def test_grouped_heads_equal_repeated_heads(mechanism, groups):
    grouped = MultiHeadAttention(N, H, W, num_key_value_heads=groups, mechanism=mechanism)
    repeated = MultiHeadAttention(N, H, W, mechanism=mechanism)
    query, value = normal(B, T, D), normal(B, S, D)
    for layer in (grouped, repeated):
        layer.build(query.shape, value.shape)
    randomize(grouped)
    weights = grouped.get_weights()
    for index in range(2, 6):  # key and value: kernel (D, M, width), bias (M, width)
        weights[index] = np.repeat(weights[index], N // groups, axis=-2)
    repeated.set_weights(weights)
    mask = normal(B, N, T, S) > -0.5
    found, right = values([each(query, value, attention_mask=mask) for each in (grouped, repeated)])
    np.testing.assert_allclose(found, right, atol=1e-5)


def test_soft_cap_and_scale():
    layer = MultiHeadAttention(1, H, scale=2.0, logit_soft_cap=1.5)
    query, value = normal(1, T, D), normal(1, S, D)
    layer.build(query.shape, value.shape)
    q, k = values((layer.query_dense(query), layer.key_dense(value)))
    scores = 1.5 * np.tanh(2.0 * np.einsum("btnh,bsnh->bnts", q, k) / 1.5)
    right = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    _, weights = values(layer(query, value, return_attention_scores=True))
    np.testing.assert_allclose(weights, right, atol=1e-5)


def test_packed_sentences_are_as_if_alone():
    layer = MultiHeadAttention(2, H, position=AlibiBias())
    first, second = normal(1, 3, D), normal(1, 4, D)
    layer.build((1, 7, D), (1, 7, D))
    packed = np.concatenate([first, second], axis=1)
    segments, positions = np.array([[0] * 3 + [1] * 4]), np.array([0, 1, 2, 0, 1, 2, 3])
    for causal in (False, True):
        together = layer(
            packed,
            packed,
            use_causal_mask=causal,
            query_segments=segments,
            key_segments=segments,
            query_positions=positions,
            key_positions=positions,
        )
        alone = [layer(each, each, use_causal_mask=causal) for each in (first, second)]
        np.testing.assert_allclose(
            values(together), np.concatenate(values(alone), axis=1), atol=1e-5
        )


def test_padding_is_inert():
    # Law 2: alone, right-padded, left-padded.
    layer = MultiHeadAttention(2, H, position=AlibiBias())
    alone, padding = normal(1, 4, D), normal(1, 3, D)
    layer.build(alone.shape, alone.shape)
    right = values(layer(alone, alone, use_causal_mask=True))
    for side in ("left", "right"):
        parts = (padding, alone) if side == "left" else (alone, padding)
        inputs = np.concatenate(parts, axis=1)
        positions = np.array([-1] * 3 + [*range(4)] if side == "left" else [*range(4)] + [-1] * 3)
        outputs = values(
            layer(
                inputs,
                inputs,
                use_causal_mask=True,
                query_positions=positions,
                key_positions=positions,
            )
        )
        np.testing.assert_allclose(outputs[:, positions >= 0], right, atol=1e-5)


@pytest.mark.parametrize("length", [None, 5])
def test_case_7_unequal_lengths(length):
    layer = MultiHeadAttention(2, H, output_shape=17)
    query = keras.Input((length, 16))
    value = keras.Input((length and 9, 16))
    for scores in (False, True):
        spec = layer.compute_output_spec(query, value, return_attention_scores=scores)
        symbolic = layer(query, value, return_attention_scores=scores)
        for found in (spec, symbolic):
            output = found[0] if scores else found
            assert output.shape == (None, length, 17)
            if scores:
                assert found[1].shape == (None, 2, length, length and 9)
    assert layer.compute_output_shape(query.shape, value.shape) == (None, length, 17)
    real = layer(normal(3, 5, 16), normal(3, 9, 16), return_attention_scores=True)
    assert real[0].shape == (3, 5, 17) and real[1].shape == (3, 2, 5, 9)
    model = keras.Model([query, value], layer(query, value))
    assert model([normal(3, 5, 16), normal(3, 9, 16)]).shape == (3, 5, 17)


def test_mask_as_an_input_of_a_functional_model():
    query, value = keras.Input((T, D)), keras.Input((S, D))
    mask = keras.Input((T, S), dtype="bool")
    layer = MultiHeadAttention(2, H)
    outputs = layer(query, value, attention_mask=mask, return_attention_scores=True)
    model = keras.Model([query, value, mask], outputs)
    arrays = [normal(B, T, D), normal(B, S, D), normal(B, T, S) > -0.5]
    found = values(model(arrays))
    right = values(layer(*arrays[:2], attention_mask=arrays[2], return_attention_scores=True))
    for each, other in zip(found, right, strict=True):
        np.testing.assert_allclose(each, other, atol=1e-6)


def test_implicit_masks_of_query_value_and_key():
    embedding = keras.layers.Embedding(7, D, mask_zero=True)
    layer = MultiHeadAttention(2, H)
    query_ids, ids = np.array([[1, 2, 0], [3, 4, 5]]), np.array([[1, 0, 0, 0], [5, 4, 3, 0]])
    query, value = embedding(query_ids), embedding(ids)
    implicit = values(layer(query, value))
    plain = [ops.convert_to_tensor(ops.convert_to_numpy(each)) for each in (query, value)]
    explicit = values(layer(*plain, query_mask=query_ids != 0, value_mask=ids != 0))
    np.testing.assert_allclose(implicit, explicit, atol=1e-6)
    by_key = values(layer(plain[0], plain[1], value, query_mask=query_ids != 0))
    np.testing.assert_allclose(by_key, explicit, atol=1e-6)


@pytest.mark.skipif(keras.config.backend() == "tensorflow", reason="TensorFlow has no fused kernel")
def test_fused_says_what_it_cannot_do():
    layer = MultiHeadAttention(2, H, dropout=0.1, logit_soft_cap=2.0, mechanism="fused", name="m")
    inputs = normal(1, T, D)
    with pytest.raises(
        ValueError, match="`mechanism` of layer 'm': .*cannot do attention dropout and a logit"
    ):
        layer(inputs, inputs, return_attention_scores=True, training=True)


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="the others have a fused kernel")
def test_fused_on_tensorflow_says_what_to_take():
    inputs = normal(1, T, D)
    with pytest.raises(ValueError, match='TensorFlow has no fused attention; take .*"auto"'):
        MultiHeadAttention(2, H, mechanism="fused")(inputs, inputs)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_heads": 0}, "`num_heads` must be a positive integer; got 0"),
        ({"num_heads": True}, "`num_heads` must be a positive integer; got True"),
        ({"key_dim": 2.0}, "`key_dim` must be a positive integer; got 2.0"),
        ({"value_dim": -1}, "`value_dim` must be a positive integer; got -1"),
        ({"value_dim": 0}, "`value_dim` must be a positive integer; got 0"),
        ({"output_shape": (3, 4)}, r"`output_shape` must be a positive integer; got \(3, 4\)"),
        ({"num_key_value_heads": 4}, "`num_key_value_heads` must divide `num_heads`; got 4 for 6"),
        ({"num_key_value_heads": 0}, "`num_key_value_heads` must be a positive integer; got 0"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\); got 1.0"),
        ({"dropout": "x"}, r"`dropout` must be in \[0, 1\); got 'x'"),
        ({"mechanism": "fast"}, "`mechanism` must be one of .*; got 'fast'"),
        ({"position": "rotary"}, "`position` must be a `PositionScheme` or None; got 'rotary'"),
        ({"logit_soft_cap": 0.0}, "`logit_soft_cap` must be above 0; got 0.0"),
        ({"scale": "big"}, "`scale` must be above 0; got .big."),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**{"num_heads": N, "key_dim": H, **options})


def test_wrong_inputs():
    layer = MultiHeadAttention(2, H)
    with pytest.raises(ValueError, match=r"`query` must have shape \(batch, length, width\)"):
        layer(normal(B, T, 2, D), normal(B, S, D))
    inputs = normal(B, T, D)
    with pytest.raises(ValueError, match="`bias` must have shape"):
        layer(inputs, inputs, bias=normal(T))
    with pytest.raises(ValueError, match="`attention_mask` must have shape"):
        layer(inputs, inputs, attention_mask=np.ones(T, "bool"))
    with pytest.raises(ValueError, match="`query_segments` and `key_segments` must be given both"):
        layer(inputs, inputs, query_segments=np.zeros((B, T), "int32"))


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "name, given, message",
    [
        ("attention_mask", np.ones((7, 7)), r"\(T, S\) or .*, here \(5, 7\) or \(2, 5, 7\)"),
        ("attention_mask", np.ones((B, 3, T, S)), r"here .*\(2, 2, 5, 7\); got \(2, 3, 5, 7\)"),
        ("bias", np.zeros((B, T, S + 1)), r"must have shape .*; got \(2, 5, 8\)"),
        ("bias", np.ones((T, S), "bool"), "must hold numbers .* as `attention_mask`"),
        ("value_mask", np.ones((B, T), "bool"), r"\(B, S\), here \(2, 7\); got \(2, 5\)"),
        ("key_mask", np.ones((B, S, 1), "bool"), r"must have shape \(B, S\)"),
        ("query_mask", np.ones((B, S), "bool"), r"\(B, T\), here \(2, 5\); got \(2, 7\)"),
        ("query_positions", np.arange(S), r"\(T\) or \(B, T\), here \(5\) or \(2, 5\)"),
        ("query_positions", np.zeros(T), "must hold integers; got float"),
        ("key_positions", np.zeros((B, T), "int32"), r"here \(7\) or \(2, 7\); got \(2, 5\)"),
        ("query_segments", np.zeros((B, S), "int32"), r"must have shape"),
        ("global_mask", np.ones((B, T), "bool"), "must be left out unless"),
        ("use_causal_mask", "no", "must be True or False; got 'no'"),
        ("attention_mask", np.where(np.eye(T, S), 0.0, -1e9), "as `bias`"),
        ("value_mask", np.full((B, S), -1e9), "must hold booleans, or 1 .* as `bias`"),
        ("key", np.zeros((B, S + 1, D), "float32"), r"must be as long as `value`, 7"),
    ],
)
def test_what_does_not_fit_is_named(name, given, message):
    layer = MultiHeadAttention(2, H)
    query, value = normal(B, T, D), normal(B, S, D)
    with pytest.raises(ValueError, match=f"`{name}` {message}|`{name}` must .*{message}"):
        layer(query, value, **{name: given})
    if name != "key" and hasattr(given, "shape"):
        with pytest.raises(ValueError, match=f"`{name}`"):
            layer(keras.Input((T, D), B), keras.Input((S, D), B), **{name: given})


def test_unknown_sizes_and_axes_of_one_are_right():
    layer = MultiHeadAttention(2, H)
    query, value = normal(B, T, D), normal(B, S, D)
    for shape in [(1, 1, 1, S), (B, 1, S), (T, 1)]:
        layer(query, value, attention_mask=np.ones(shape, "bool"), bias=np.ones(shape[-2:]))
    mask = keras.Input((None, None), dtype="bool")
    assert layer(keras.Input((T, D)), keras.Input((None, D)), attention_mask=mask).shape[1] == T
