"""Images as sequences of patches (Dosovitskiy et al. 2021, section 3.1)."""

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import check_positive
from keras_transformer.ops.positions import cubic_interpolation


@keras.saving.register_keras_serializable(package="keras_transformer")
class PatchEmbedding(keras.layers.Layer):
    """Cuts images into patches, maps each to a vector, and adds a trained vector for its place.

        x_0 = class_token + P_0,   x_i = patch_i W + b + P_i

    Patches are read row by row. The table of places belongs to one image size;
    `resized_positions` makes one for another.

    Args:
        patch_size: int, height and width of a patch in pixels.
        model_dim: int, D.
        class_token: whether a trained vector stands before the patches.

    Call arguments:
        images: float (B, height, width, C), with height and width known and multiples of
            `patch_size`.

    Returns:
        (B, n, D) for n patches, or (B, 1 + n, D).

    Raises:
        ValueError: if the images are not cut evenly, or are not of the size that the layer was
            built for.

    >>> PatchEmbedding(patch_size=4, model_dim=16)(keras.ops.zeros((2, 8, 12, 3))).shape
    (2, 7, 16)

    Reference: Dosovitskiy et al. 2021, equation 1.
    """

    def __init__(self, patch_size, model_dim, class_token=True, **kwargs):
        super().__init__(**kwargs)
        check_positive(patch_size=patch_size, model_dim=model_dim)
        self.patch_size = patch_size
        self.model_dim = model_dim
        self.class_token = class_token

    def build(self, images_shape):
        _, height, width, channels = images_shape
        self.grid = self._grid(height, width)
        size = self.patch_size
        self.kernel = self.add_weight(name="kernel", shape=(size, size, channels, self.model_dim))
        self.bias = self.add_weight(name="bias", shape=(self.model_dim,), initializer="zeros")
        length = self.grid[0] * self.grid[1]
        if self.class_token:
            length += 1
            self.first = self.add_weight(
                name="class_token", shape=(self.model_dim,), initializer="zeros"
            )
        self.positions = self.add_weight(
            name="positions",
            shape=(length, self.model_dim),
            initializer=keras.initializers.TruncatedNormal(stddev=0.02),
        )
        self.built = True

    def _grid(self, height, width):
        """Returns how many patches an image has, up and across."""
        size = self.patch_size
        if height is None or width is None or height % size or width % size:
            raise ValueError(
                f"`images` must have a height and a width that are known multiples of `patch_size` "
                f"{size}; got {height} x {width}. Crop or resize them."
            )
        return height // size, width // size

    def call(self, images):
        _, height, width, channels = images.shape
        if self._grid(height, width) != self.grid:
            expected = tuple(self.patch_size * count for count in self.grid)
            raise ValueError(
                f"`images` must be of the size that layer {self.name!r} was built for, {expected}; "
                f"got {height} x {width}. Its table of places can be resized: `resized_positions`."
            )
        size, (rows, columns) = self.patch_size, self.grid
        patches = ops.reshape(images, (-1, rows, size, columns, size, channels))
        patches = ops.transpose(patches, (0, 1, 3, 2, 4, 5))
        patches = ops.reshape(patches, (-1, rows * columns, size * size * channels))
        vectors = ops.matmul(patches, ops.reshape(self.kernel, (-1, self.model_dim))) + self.bias
        if self.class_token:
            first = ops.ones_like(vectors[:, :1]) * self.first
            vectors = ops.concatenate([first, vectors], axis=1)  # (B, 1 + n, D)
        return vectors + self.positions

    def resized_positions(self, height, width):
        """Returns the table for images of another size, interpolated in two dimensions.

        By cubics, as PyTorch and with it `transformers` interpolate ("bicubic", corners not
        aligned), on every backend.

        Args:
            height, width: ints, pixels.

        Returns:
            float32 array (n, D) or (1 + n, D): the class token's row stays.

        Reference: Dosovitskiy et al. 2021, section 3.2.
        """
        table = ops.convert_to_numpy(self.positions.value).astype("float32")
        ahead = 1 if self.class_token else 0
        image = table[ahead:].reshape(*self.grid, self.model_dim)
        up, across = map(cubic_interpolation, self.grid, self._grid(height, width))
        resized = np.einsum("ur,vc,rcd->uvd", up, across, image).reshape(-1, self.model_dim)
        return np.concatenate([table[:ahead], resized.astype("float32")], axis=0)

    def compute_output_shape(self, images_shape):
        rows, columns = self._grid(*images_shape[1:3])
        return (images_shape[0], rows * columns + int(self.class_token), self.model_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "patch_size": self.patch_size,
            "model_dim": self.model_dim,
            "class_token": self.class_token,
        }
