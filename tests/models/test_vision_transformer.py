"""ViT: patches in order, pooling, other image sizes, saving, training, presets."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import PatchEmbedding
from keras_transformer.models import VisionTransformer

SIZES = {
    "patch_size": 2,
    "num_layers": 1,
    "model_dim": 12,
    "num_heads": 3,
    "intermediate_dim": 19,
    "num_channels": 1,
}


def random_model(**options):
    model = VisionTransformer(**{"image_size": 6, **SIZES, **options})
    random = np.random.default_rng(5)
    for variable in model.trainable_variables:
        variable.assign(random.normal(size=variable.shape, scale=0.5))
    return model


def images(count, height=6, width=6):
    return np.random.default_rng(1).normal(size=(count, height, width, 1)).astype("float32")


def outputs_of(model, inputs):
    return ops.convert_to_numpy(model(inputs))


def test_patches_are_read_row_by_row():
    layer = PatchEmbedding(patch_size=2, model_dim=4, class_token=True)
    image = np.arange(24, dtype="float32").reshape(1, 4, 6, 1)
    layer.build(image.shape)
    layer.kernel.assign(np.eye(4).reshape(2, 2, 1, 4))
    layer.positions.assign(np.zeros((7, 4)))
    layer.first.assign([5.0, 5.0, 5.0, 5.0])
    expected = [
        [5, 5, 5, 5],
        [0, 1, 6, 7],
        [2, 3, 8, 9],
        [4, 5, 10, 11],
        [12, 13, 18, 19],
        [14, 15, 20, 21],
        [16, 17, 22, 23],
    ]
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(image))[0], expected)


def test_a_resized_table_keeps_the_class_token_and_a_constant_grid():
    layer = PatchEmbedding(patch_size=2, model_dim=3)
    layer.build((None, 4, 4, 1))
    table = np.repeat([[1.0], [2.0], [2.0], [2.0], [2.0]], 3, axis=1)
    layer.positions.assign(table)
    resized = layer.resized_positions(6, 8)
    np.testing.assert_allclose(resized, np.repeat([[1.0]] + [[2.0]] * 12, 3, axis=1), rtol=1e-6)
    np.testing.assert_allclose(layer.resized_positions(4, 4), table, rtol=1e-6)


@pytest.mark.any_backend  # NumPy alone
@pytest.mark.parametrize("new", [(3, 5), (5, 7), (11, 2), (10, 14)])
def test_places_are_interpolated_as_torch_does(new):
    torch = pytest.importorskip("torch")
    layer = PatchEmbedding(patch_size=2, model_dim=3)
    layer.build((None, 10, 14, 1))
    table = np.random.default_rng(5).normal(size=(36, 3)).astype("float32")
    layer.positions.assign(table)
    image = torch.from_numpy(table[1:].reshape(1, 5, 7, 3).transpose(0, 3, 1, 2))
    expected = torch.nn.functional.interpolate(image, new, mode="bicubic", align_corners=False)
    expected = expected.numpy()[0].reshape(3, -1).T
    found = layer.resized_positions(2 * new[0], 2 * new[1])
    np.testing.assert_array_equal(found[0], table[0])
    np.testing.assert_allclose(found[1:], expected, atol=1e-6)


@pytest.mark.parametrize("pooling", ["first", "mean", "dense", None])
def test_another_image_size_has_the_same_weights(pooling):
    classes = None if pooling is None else 7
    model = random_model(pooling=pooling, num_classes=classes)
    same = model.with_image_size(6)
    np.testing.assert_allclose(outputs_of(same, images(2)), outputs_of(model, images(2)), atol=1e-5)
    larger = model.with_image_size((8, 10))
    assert larger.image_size == [8, 10]
    assert np.isfinite(outputs_of(larger, images(2, 8, 10))).all()
    kernels = [each.get_layer("patches").kernel.value for each in (model, larger)]
    np.testing.assert_array_equal(*map(ops.convert_to_numpy, kernels))


def test_pooling_by_hand():
    hidden = outputs_of(random_model(pooling=None), images(2))
    first = outputs_of(random_model(pooling="first"), images(2))
    np.testing.assert_allclose(first, hidden[:, 0], atol=1e-6)
    assert outputs_of(random_model(pooling="mean"), images(2)).shape == (2, 12)


def test_config_and_file_give_the_same_model(tmp_path):
    model = random_model(image_size=(6, 8), num_classes=7)
    config = model.get_config()
    assert VisionTransformer.from_config(config).get_config() == config
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected = outputs_of(model, images(2, 6, 8))
    np.testing.assert_array_equal(outputs_of(loaded, images(2, 6, 8)), expected)


def test_it_learns_which_half_is_bright():
    inputs = images(16)
    labels = np.arange(16) % 2
    inputs[labels == 1, :, :3] += 3.0
    model = VisionTransformer(image_size=6, num_classes=2, **SIZES)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    losses = model.fit(inputs, labels, epochs=15, verbose=0).history["loss"]
    assert losses[0] == pytest.approx(np.log(2), abs=0.01)  # the head starts at zero
    assert losses[-1] < 0.5 * losses[0]


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="`patch_size`"):
        VisionTransformer(image_size=7, **SIZES)
    for size in (0, -4, 20.5, "a", (6,), (6, 0), (6, 6.0), True, None):
        with pytest.raises(ValueError, match="`image_size` must be a positive integer"):
            VisionTransformer(image_size=size, **SIZES)
        with pytest.raises(ValueError, match="`image_size` must be a positive integer"):
            random_model().with_image_size(size)
    with pytest.raises(ValueError, match="`image_size`.*`patch_size` 2.*got 7"):
        random_model().with_image_size(7)
    with pytest.raises(ValueError, match="`pooling`"):
        VisionTransformer(image_size=6, **SIZES, pooling="max")
    with pytest.raises(ValueError, match="`num_classes`"):
        VisionTransformer(image_size=6, **SIZES, pooling=None, num_classes=3)
    with pytest.raises(ValueError, match="vit-b16"):
        VisionTransformer.from_preset("vit")


def test_a_preset_takes_changes():
    model = VisionTransformer.from_preset("vit-b16", **SIZES, image_size=6, num_classes=5)
    assert outputs_of(model, images(2)).shape == (2, 5)


@pytest.mark.any_backend  # `Transformer` and its encoder are quantized on each
def test_a_quantized_model_is_near_and_keeps_its_integers(tmp_path):
    model = random_model(num_classes=7)
    right = outputs_of(model, images(2))
    model.quantize("int8")
    found = outputs_of(model, images(2))
    assert 0 < np.abs(found - right).max() < 0.1 * np.abs(right).max()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(outputs_of(loaded, images(2)), found)
