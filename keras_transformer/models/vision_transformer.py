"""The Vision Transformer: an encoder over the patches of an image."""

from typing import NamedTuple

import keras
from keras import ops

from keras_transformer.arguments import check_positive, check_positive_or_none, is_integer
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.encoder_block import EncoderBlock
from keras_transformer.layers.patch_embedding import PatchEmbedding
from keras_transformer.layers.quantization_record import QuantizationRecord
from keras_transformer.models.families import VISION_PRESETS, arguments_of
from keras_transformer.models.resumable import Resumable, paths_under
from keras_transformer.models.stacks import Stack, check_block_options, serialized

POOLINGS = (None, "first", "mean", "dense")


@keras.saving.register_keras_serializable(package="keras_transformer")
class VisionTransformer(Resumable, QuantizationRecord, keras.Model):
    """ViT: image patches as tokens, the same encoder blocks, one vector for the image.

        hidden = EncoderBlock^L(dropout([class_token; patches W + b] + P))
        logits = pool(norm(hidden)) W_head + b_head

    Args:
        image_size: int, height and width in pixels, or the pair of them; multiples of `patch_size`.
        patch_size: int, height and width of a patch.
        num_classes: int, or None for the pooled vector without a head.
        num_layers: int, blocks.
        model_dim: int, D.
        num_heads: int, N, divides D.
        intermediate_dim: int, inner width of the feed-forward networks.
        dropout: float, on sublayer outputs and on the embedded patches.
        num_channels: int, of the images.
        pooling: "first": the vector of the class token, as in the paper; "mean": the mean over
            patches, and no class token; "dense": tanh(W h + b) of the class token's; None: a vector
            for the class token and each patch.
        normalize_first: whether blocks are pre-norm, as in the paper.
        activation: name or function, of the feed-forward networks.
        seed: int, for the dropout.
        **block_options: what `EncoderBlock` takes beyond these.

    Call arguments:
        images: float (B, height, width, C).

    Returns:
        Logits (B, num_classes), or (B, D), or without pooling (B, 1 + n, D).

    Raises:
        ValueError: if an argument is outside its rule.

    >>> model = VisionTransformer(image_size=8, patch_size=2, num_classes=10, num_layers=2,
    ...                           model_dim=16, num_heads=2, intermediate_dim=32, num_channels=1)
    >>> model(keras.ops.zeros((3, 8, 8, 1))).shape
    (3, 10)

    Reference: Dosovitskiy et al. 2021, section 3.1; mean pooling: appendix D.3.
    """

    def __init__(
        self,
        image_size=224,
        patch_size=16,
        num_classes=None,
        num_layers=12,
        model_dim=768,
        num_heads=12,
        intermediate_dim=3072,
        dropout=0.0,
        *,
        num_channels=3,
        pooling="first",
        normalize_first=True,
        activation="gelu",
        seed=None,
        name=None,
        dtype=None,
        **block_options,
    ):
        height, width = _height_and_width(image_size)
        check_positive(patch_size=patch_size, num_layers=num_layers, model_dim=model_dim)
        check_positive(num_channels=num_channels, num_heads=num_heads)
        if height % patch_size or width % patch_size:
            raise ValueError(
                f"`image_size` must be a multiple of `patch_size` {patch_size}, in height and in "
                f"width; got {image_size!r}. Crop or resize the images."
            )
        check_positive_or_none(num_classes=num_classes)
        check_block_options(block_options)
        if pooling not in POOLINGS:
            raise ValueError(
                f'`pooling` must be one of {POOLINGS}; got {pooling!r}. The paper\'s is "first".'
            )
        if num_classes is not None and pooling is None:
            raise ValueError(
                f"`pooling` must not be None with `num_classes`; got {num_classes} classes. Take "
                '"first" or "mean".'
            )
        block_options = {name: serialized(value) for name, value in block_options.items()}
        encoder = Stack(
            EncoderBlock,
            num_layers,
            None,
            "encoder",
            num_heads=num_heads,
            intermediate_dim=intermediate_dim,
            dropout=dropout,
            normalize_first=normalize_first,
            activation=activation,
            seed=seed,
            dtype=dtype,
            **block_options,
        )
        patches = PatchEmbedding(
            patch_size, model_dim, class_token=pooling != "mean", dtype=dtype, name="patches"
        )
        dropped = Dropout(dropout, seed=seed, dtype=dtype, name="patch_dropout")
        pooler, head = None, None
        if pooling == "dense":
            pooler = keras.layers.Dense(model_dim, activation="tanh", dtype=dtype, name="pooler")
        if num_classes is not None:
            head = keras.layers.Dense(
                num_classes, kernel_initializer="zeros", dtype=dtype, name="head"
            )
        self._parts = _Parts(patches, dropped, encoder, pooler, head)
        self.image_size = image_size if is_integer(image_size) else [height, width]
        self.patch_size = patch_size
        self.num_classes = num_classes
        self.num_layers = num_layers
        self.model_dim = model_dim
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.num_channels = num_channels
        self.pooling = pooling
        self.normalize_first = normalize_first
        self.activation = keras.activations.serialize(encoder.blocks[0].activation)
        self.seed = seed
        self.block_options = block_options
        images = keras.Input((height, width, num_channels), name="images")
        with paths_under(self, name) as name:
            output = self._output(images)
        super().__init__(inputs=images, outputs=output, name=name)

    @classmethod
    def from_preset(cls, preset, /, **arguments):
        """Returns the untrained model of that name, such as "vit-b16".

        Args:
            preset: see `models.families.VISION_PRESETS`.
            **arguments: take the place of the preset's.
        """
        return cls(**arguments_of(VISION_PRESETS, preset, arguments))

    def _output(self, images):
        parts = self._parts
        hidden = parts.dropout(parts.patches(images))
        hidden = parts.encoder(hidden, None)
        if self.pooling is None:
            return hidden
        pooled = ops.mean(hidden, axis=1) if self.pooling == "mean" else hidden[:, 0]
        pooled = pooled if parts.pooler is None else parts.pooler(pooled)
        return pooled if parts.head is None else parts.head(pooled)

    def with_image_size(self, image_size):
        """Returns a model of the same weights for images of another size.

        The vectors of the places are interpolated in two dimensions (section 3.2), as
        `PatchEmbedding.resized_positions` says.

        Args:
            image_size: int or pair of ints, multiples of `patch_size`.

        Raises:
            ValueError: if `image_size` is not such.
        """
        config = {**self.get_config(), "image_size": image_size, "name": None}
        model = type(self).from_config(config)
        _, height, width, _ = model.input.shape
        positions = self._parts.patches.resized_positions(height, width)
        for mine, its in zip(self.weights, model.weights, strict=True):
            its.assign(positions if mine is self._parts.patches.positions else mine.value)
        return model

    def get_config(self):
        return {
            "image_size": self.image_size,
            "patch_size": self.patch_size,
            "num_classes": self.num_classes,
            "num_layers": self.num_layers,
            "model_dim": self.model_dim,
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "num_channels": self.num_channels,
            "pooling": self.pooling,
            "normalize_first": self.normalize_first,
            "activation": self.activation,
            "seed": self.seed,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            **self.block_options,
            **self.trainable_config(),
        }


def _height_and_width(image_size):
    """Returns the two sizes; raises ValueError where `image_size` is neither one nor both."""
    sizes = (image_size,) * 2 if is_integer(image_size) else image_size
    if not isinstance(sizes, tuple | list) or len(sizes) != 2:
        raise ValueError(
            f"`image_size` must be a positive integer or the pair of height and width; got "
            f"{image_size!r}. Pass pixels."
        )
    for size in sizes:
        check_positive(image_size=size)
    return sizes


class _Parts(NamedTuple):
    """What the model is put together from."""

    patches: PatchEmbedding
    dropout: keras.layers.Layer
    encoder: Stack
    pooler: keras.layers.Layer | None
    head: keras.layers.Layer | None
