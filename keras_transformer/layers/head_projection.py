"""Projections to the heads of queries, keys and values, and back, as plain matrix products."""

import math

import numpy as np
from keras import ops

FEW_ROWS = 64  # tokens of a decoding step


def project_heads(inputs, denses):
    """Applies several projections to the same inputs, as one matrix product where that is less.

    To put the kernels side by side is to copy them, which for the few rows of a decoding step takes
    as long as the product.

    Args:
        inputs: (B, T, D). denses: `EinsumDense` layers "btd,dnh->btnh".

    Returns:
        List of (B, T, n, h), one a layer. Quantized layers project by themselves.
    """
    if any(dense.quantization_mode is not None for dense in denses):
        return [dense(inputs) for dense in denses]
    rows = inputs.shape[:-1]
    if None not in rows and math.prod(rows) <= FEW_ROWS:
        return [heads for dense in denses for heads in _project_together(inputs, [dense])]
    return _project_together(inputs, denses)


def _project_together(inputs, denses):
    width, dtype = inputs.shape[-1], denses[0].compute_dtype
    kernels = [ops.reshape(dense.kernel, (width, -1)) for dense in denses]
    products = ops.matmul(ops.cast(inputs, dtype), ops.cast(_side_by_side(kernels), dtype))
    if denses[0].bias is not None:
        biases = [ops.reshape(dense.bias, (1, -1)) for dense in denses]
        products = ops.add(products, ops.cast(_side_by_side(biases), dtype))
    shape = ops.shape(inputs)
    parts = [products]
    if len(kernels) > 1:
        ends = np.cumsum([kernel.shape[1] for kernel in kernels])[:-1]
        parts = ops.split(products, ends.tolist(), axis=-1)
    return [
        ops.reshape(heads, (shape[0], shape[1], *dense.kernel.shape[1:]))
        for heads, dense in zip(parts, denses, strict=True)
    ]


def _side_by_side(matrices):
    return matrices[0] if len(matrices) == 1 else ops.concatenate(matrices, axis=1)


def merge_heads(heads, dense):
    """Applies the output projection to the heads.

    Args:
        heads: (B, T, N, W). dense: `EinsumDense` layer "btnh,nhd->btd".

    Returns:
        (B, T, D). A quantized layer projects by itself.
    """
    if dense.quantization_mode is not None:
        return dense(heads)
    width, dtype = dense.kernel.shape[-1], dense.compute_dtype
    batch, length, count, head_width = ops.shape(heads)
    side_by_side = ops.reshape(ops.cast(heads, dtype), (batch, length, count * head_width))
    outputs = ops.matmul(side_by_side, ops.cast(ops.reshape(dense.kernel, (-1, width)), dtype))
    return outputs if dense.bias is None else ops.add(outputs, ops.cast(dense.bias, dtype))
