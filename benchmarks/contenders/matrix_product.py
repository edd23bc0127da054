"""The rate at which a framework multiplies matrices here: the ceiling for everything else."""

import numpy as np


class MatrixProduct:
    """Products of two square matrices.

    Args:
        framework: "tensorflow", "jax" or "torch".
        dtype: "float32" or "bfloat16".
        side: int, rows and columns.
    """

    def __init__(self, framework, dtype, side):
        self.side = side
        values = np.random.default_rng(0).standard_normal((2, side, side), dtype=np.float32)
        self._multiply = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[framework](
            *values, dtype
        )

    def run(self, repeats):
        for _ in range(repeats):
            self._multiply()

    def facts(self):
        return {"flops": 2 * self.side**3}


def _tensorflow(left, right, dtype):
    import tensorflow as tf

    left, right = tf.cast(left, dtype), tf.cast(right, dtype)
    product = tf.function(lambda: tf.matmul(left, right))
    # Reading one number waits for the product.
    return lambda: product()[0, 0].numpy()


def _jax(left, right, dtype):
    import jax

    left, right = jax.numpy.asarray(left, dtype), jax.numpy.asarray(right, dtype)
    product = jax.jit(jax.numpy.matmul)
    return lambda: product(left, right).block_until_ready()


def _torch(left, right, dtype):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    left, right = (torch.from_numpy(x).to(device, getattr(torch, dtype)) for x in (left, right))
    return lambda: (left @ right)[0, 0].item()
