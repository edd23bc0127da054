import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import TokenEmbedding
from keras_transformer.ops.backend import get_keras_mask

TABLE = np.arange(12, dtype="float32").reshape(3, 4)


def embedding(**options):
    layer = TokenEmbedding(3, 4, **options)
    layer.build((None, None))
    layer.embeddings.assign(TABLE)
    return layer


def values(tensor):
    return ops.convert_to_numpy(tensor)


def test_by_hand():
    # Section 3.4: rows times sqrt(4) on the way in, products with the rows on the way out.
    ids = np.array([[2, 0]])
    np.testing.assert_array_equal(values(embedding()(ids)), [2 * TABLE[[2, 0]]])
    np.testing.assert_array_equal(values(embedding(scale=False)(ids)), [TABLE[[2, 0]]])
    vectors = ops.convert_to_tensor([[[1.0, 0, 0, 0], [0, 1, 1, 0]]])
    np.testing.assert_array_equal(
        values(embedding()(vectors, reverse=True)), [[[0, 4, 8], [3, 11, 19]]]
    )


def test_an_untied_head_has_its_own_matrix():
    layer = embedding(tie_weights=False)
    assert [each.shape for each in layer.trainable_variables] == [(3, 4), (4, 3)]
    layer.reverse_embeddings.assign(np.ones((4, 3)))
    logits = layer(ops.convert_to_tensor([[[1.0, 2, 3, 4]]]), reverse=True)
    np.testing.assert_array_equal(values(logits), [[[10, 10, 10]]])


@pytest.mark.parametrize("options", [{}, {"tie_weights": False}, {"head_scale": 0.5}])
@pytest.mark.parametrize("head_bias", [False, True])
def test_factors_of_the_head_give_its_logits(options, head_bias):
    layer = embedding(head_bias=head_bias, **options)
    if head_bias:
        layer.bias.assign([5, 6, 7])
    rows = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(5, 4)).astype("float32"))
    features, kernel = layer.head_factors(rows)
    np.testing.assert_allclose(
        values(ops.matmul(features, ops.transpose(kernel))),
        values(layer(rows[None], reverse=True))[0],
        rtol=1e-5,
    )


@pytest.mark.parametrize("pad_id", [0, 2, None])
def test_mask(pad_id):
    mask = get_keras_mask(embedding(pad_id=pad_id)(np.array([[2, 0, 1]])))
    if pad_id is None:
        assert mask is None
    else:
        np.testing.assert_array_equal(values(mask), [np.array([2, 0, 1]) != pad_id])


def test_case_19_ids_outside_the_vocabulary():
    for wrong in (3, -1):
        with pytest.raises(ValueError, match=r"must be in \[0, 3\), the size of its vocabulary"):
            embedding()(np.array([[0, wrong]]))


@pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="tests what XLA does on TensorFlow"
)
def test_case_19_compiled_by_xla_is_nan_and_nothing_else():
    import tensorflow as tf

    layer = TokenEmbedding(3, 2)
    layer.build()
    compiled = tf.function(layer, jit_compile=True)
    found = values(compiled(tf.constant([[1, 3, -1]])))
    assert np.isfinite(found[0, 0]).all() and np.isnan(found[0, 1:]).all()


@pytest.mark.skipif(keras.config.backend() != "jax", reason="tests what JAX's traces do")
def test_case_19_compiled_by_jax_is_nan_and_nothing_else():
    import jax

    layer = embedding()
    found = values(jax.jit(lambda ids: layer(ids))(np.array([[1, 3, -1]])))
    assert np.all(np.isfinite(found[0, 0])) and np.all(np.isnan(found[0, 1:]))


def test_starts_with_unit_variance():
    layer = TokenEmbedding(997, 64)
    vectors = values(layer(np.arange(997)[None]))
    assert vectors.std() == pytest.approx(1, abs=0.02)
    logits = values(layer(ops.convert_to_tensor(vectors), reverse=True))
    off_diagonal = logits[0][~np.eye(997, dtype="bool")]
    assert off_diagonal.std() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"vocabulary_size": 0}, "`vocabulary_size` must be a positive integer; got 0"),
        ({"model_dim": 4.0}, "`model_dim` must be a positive integer; got 4.0"),
        ({"mask_zero": True}, "`mask_zero` must be left out"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        TokenEmbedding(**{"vocabulary_size": 3, "model_dim": 4, **options})
