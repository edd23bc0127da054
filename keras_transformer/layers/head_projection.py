"""Projections of the same inputs to the heads of queries, keys and values."""

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
