"""Projections to the heads of queries, keys and values, and back, as plain matrix products."""

import numpy as np
from keras import ops


def project_heads(inputs, denses):
    """Applies several projections to the same inputs as one matrix product.

    Args:
        inputs: (B, T, D). denses: `EinsumDense` layers "btd,dnh->btnh".

    Returns:
        List of (B, T, n, h), one a layer. Quantized layers project by themselves.
    """
    if any(dense.quantization_mode is not None for dense in denses):
        return [dense(inputs) for dense in denses]
    width, dtype = inputs.shape[-1], denses[0].compute_dtype
    kernels = [ops.reshape(dense.kernel, (width, -1)) for dense in denses]
    products = ops.matmul(ops.cast(inputs, dtype), ops.cast(ops.concatenate(kernels, 1), dtype))
    if denses[0].bias is not None:
        biases = ops.concatenate([ops.reshape(dense.bias, (-1,)) for dense in denses], 0)
        products = ops.add(products, ops.cast(biases, dtype))
    shape = ops.shape(inputs)
    ends = np.cumsum([kernel.shape[1] for kernel in kernels])[:-1]
    return [
        ops.reshape(heads, (shape[0], shape[1], *dense.kernel.shape[1:]))
        for heads, dense in zip(ops.split(products, ends.tolist(), axis=-1), denses, strict=True)
    ]


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
