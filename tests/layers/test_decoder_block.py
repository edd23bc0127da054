"""The decoder's block: the paper's equations, law 1, law 3, with a context and without."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import DecoderBlock, EncoderBlock

B, T, S, N, D, C, F = 2, 5, 7, 2, 6, 9, 11
RANDOM = np.random.default_rng(0)
CONTEXT_MASK = np.arange(S) < np.array([[7], [3]])


def normal(*shape):
    return RANDOM.normal(size=shape).astype("float32")


def values(tensors):
    return keras.tree.map_structure(ops.convert_to_numpy, tensors)


def block_for(x, context=None, **options):
    block = DecoderBlock(N, F, **options)
    block.build(x.shape, None if context is None else context.shape)
    for weight in block.trainable_variables:
        weight.assign(values(weight.value) + 0.5 * normal(*weight.shape))
    return block


@pytest.mark.parametrize("normalize_first", [False, True])
def test_equations_of_the_paper(normalize_first):
    # Section 3.1, with Keras's own layers.
    x, context = normal(B, T, D), normal(B, S, C)
    block = block_for(x, context, normalize_first=normalize_first)
    attentions = [keras.layers.MultiHeadAttention(N, D // N) for _ in range(2)]
    attentions[0].build(x.shape, x.shape)
    attentions[1].build(x.shape, context.shape)
    for theirs, ours in zip(
        attentions, (block.self_attention, block.context_attention), strict=True
    ):
        theirs.set_weights(ours.get_weights())

    def to_itself(x):
        return attentions[0](x, x, use_causal_mask=True)

    def to_context(x):
        return attentions[1](x, context, attention_mask=CONTEXT_MASK[:, None, :])

    hidden = ops.convert_to_tensor(x)
    for sublayer, norm in (
        (to_itself, block.self_attention_norm),
        (to_context, block.context_attention_norm),
        (block.feed_forward, block.feed_forward_norm),
    ):
        if normalize_first:
            hidden = ops.add(hidden, sublayer(norm(hidden)))
        else:
            hidden = norm(ops.add(hidden, sublayer(hidden)))
    found = block(x, context=context, context_mask=CONTEXT_MASK)
    np.testing.assert_allclose(values(found), values(hidden), atol=2e-5)


def test_without_context_it_is_a_causal_encoder_block():
    x, mask = normal(B, T, D), np.arange(T) >= np.array([[0], [2]])
    block, encoder = block_for(x), EncoderBlock(N, F)
    encoder.build(x.shape)
    pairs = [(block.self_attention, encoder.attention), (block.feed_forward, encoder.feed_forward)]
    pairs += [(block.self_attention_norm, encoder.attention_norm)]
    for ours, its in [*pairs, (block.feed_forward_norm, encoder.feed_forward_norm)]:
        its.set_weights(ours.get_weights())
    causal = np.tril(np.ones((T, T), "bool"))
    np.testing.assert_allclose(
        values(block(x, mask=mask)), values(encoder(x, mask=mask, attention_mask=causal)), atol=1e-6
    )


def test_the_future_does_not_change_the_past():
    # Law 1, dropout at work.
    x, context = normal(B, T, D), normal(B, S, C)
    block = block_for(x, context, dropout=0.3, attention_dropout=0.3, seed=1)
    changed = np.concatenate([x[:, :3], normal(B, T - 3, D)], axis=1)
    seeds = [each for each in block.variables if "seed" in each.path]
    kept = values([each.value for each in seeds])
    outputs = []
    for inputs in (x, changed):
        for seed, value in zip(seeds, kept, strict=True):
            seed.assign(value)
        outputs.append(
            values(block(inputs, context=context, training=True, return_attention_scores=True))
        )
    for before, after in zip(outputs[0][:1], outputs[1][:1], strict=True):
        np.testing.assert_allclose(after[:, :3], before[:, :3], atol=1e-6)
    for _, weights, across in outputs:
        assert np.all(weights * np.triu(np.ones((T, T)), 1) == 0)
        np.testing.assert_allclose(across.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("hypotheses", [1, 3])
def test_steps_equal_the_whole(hypotheses):
    # Law 3: K hypotheses of a sentence read one memory of its context.
    rows = B * hypotheses
    x, context = normal(rows, T, D), normal(B, S, C)
    block = block_for(x, context)
    repeated = np.repeat(context, hypotheses, axis=0)
    mask = np.repeat(CONTEXT_MASK, hypotheses, axis=0)
    whole = values(block(x, context=repeated, context_mask=mask))
    memory, cache = block.remember(ops.convert_to_tensor(context)), block.empty_cache(rows, T)
    for start, length in ((0, 3), (3, 1), (4, 1)):
        positions = np.repeat([range(start, start + length)], rows, axis=0)
        outputs, cache = block.step(
            ops.convert_to_tensor(x[:, start : start + length]),
            cache,
            start,
            ops.convert_to_tensor(positions, "int32"),
            memory,
            ops.convert_to_tensor(CONTEXT_MASK),
        )
        np.testing.assert_allclose(values(outputs), whole[:, start : start + length], atol=1e-5)


def test_implicit_masks():
    embedding = keras.layers.Embedding(9, D, mask_zero=True)
    source, target = np.array([[1, 2, 3], [4, 0, 0]]), np.array([[5, 6, 0, 0], [7, 8, 5, 6]])
    context, x = embedding(source), embedding(target)
    block = block_for(x, context)
    implicit = values(block(x, context=context))
    x, context = map(ops.convert_to_tensor, values((x, context)))
    explicit = values(block(x, context=context, mask=target != 0, context_mask=source != 0))
    real = target != 0
    np.testing.assert_allclose(implicit[real], explicit[real], atol=1e-6)
    assert np.abs(explicit - values(block(x, context=context)))[1].max() > 1e-3


def test_symbolic_shapes():
    x, context = keras.Input((None, D)), keras.Input((S, C))
    outputs, scores, across = DecoderBlock(N, F)(x, context=context, return_attention_scores=True)
    assert outputs.shape == (None, None, D) and scores.shape == (None, N, None, None)
    assert across.shape == (None, N, None, S)
    outputs, scores = DecoderBlock(N, F)(x, return_attention_scores=True)
    assert outputs.shape == (None, None, D) and scores.shape == (None, N, None, None)


def test_a_context_is_given_always_or_never():
    x, context = normal(B, T, D), normal(B, S, C)
    with pytest.raises(ValueError, match="`context` of layer .* built it without attention"):
        block_for(x)(x, context=context)
    with pytest.raises(ValueError, match="`context` of layer .* built it with attention"):
        block_for(x, context)(x)


def test_an_attention_mask_and_a_bias_come_to_the_causal_mask():
    block = DecoderBlock(2, 11)
    x = keras.random.normal((2, 5, 6), seed=1)
    mask = np.arange(5) != 1
    hidden = ops.convert_to_numpy(block(x, attention_mask=np.tile(mask, (5, 1))))
    by_mask = ops.convert_to_numpy(block(x, mask=np.tile(mask, (2, 1))))
    np.testing.assert_allclose(hidden, by_mask, atol=1e-6)
    bias = np.tile(np.where(mask, 0, -np.inf), (5, 1)).astype("float32")
    np.testing.assert_allclose(ops.convert_to_numpy(block(x, bias=bias)), by_mask, atol=1e-6)
