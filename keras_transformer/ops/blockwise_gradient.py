"""The backward pass of blockwise attention: every block once more, from one saved number a row.

Letters as in `blockwise_attention`: t queries and s keys in a block.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.ops import backend
from keras_transformer.ops.attention_request import block_positions, slice_axis
from keras_transformer.ops.blocks import (
    filled,
    heads_last,
    joined_matrix,
    joined_rows,
    key_block,
    query_block,
    unfold_groups,
)
from keras_transformer.ops.score_blocks import (
    drop,
    keep_mask,
    scaled_query_block,
    score_block,
    times_keys,
    times_queries,
)


class Gradients(NamedTuple):
    """What a backward pass adds up: heads and bias in blocks, the parameters of a position bias."""

    query: Any
    key: Any
    value: Any
    bias: Any
    parameters: tuple


def blockwise_gradients(inputs, output, normalizer, output_gradient):
    """Visits each block once more, and adds up what it gives to every gradient."""
    plan, request = inputs.plan, inputs.request
    output_gradient = filled(output_gradient, 1, plan.rows, plan.padded_rows)
    # sum_s weight_s dweight_s = output . doutput, whatever the length (Dao et al., appendix B.2).
    agreement = ops.sum(
        ops.cast(output_gradient, "float32") * ops.cast(output, "float32"), axis=-1, keepdims=True
    )
    rows = _Rows(output_gradient, normalizer, agreement)

    def visit_column(j, *gradients):
        return _visit_column(inputs, rows, j, Gradients(*gradients))

    gradients = Gradients(
        query=_empty_like(inputs.query, plan.row_count, plan.row_length),
        key=_empty_like(inputs.key, plan.column_count, plan.column_length),
        value=_empty_like(inputs.value, plan.column_count, plan.column_length),
        bias=_empty_bias(request.bias, plan),
        parameters=tuple(ops.zeros_like(each, "float32") for each in request.position_parameters),
    )
    gradients = Gradients(*backend.loop(plan.column_count, visit_column, gradients))
    query, key, value = (
        joined_rows(backend.stack_blocks(blocks))
        for blocks in (gradients.query, gradients.key, gradients.value)
    )
    return Gradients(
        query=ops.cast(query[:, : plan.rows] * request.scale, inputs.query.dtype),
        key=ops.cast(key[:, : plan.columns], inputs.key.dtype),
        value=ops.cast(value[:, : plan.columns], inputs.value.dtype),
        bias=_joined_bias(gradients.bias, request.bias, plan),
        parameters=tuple(
            ops.cast(gradient, each.dtype)
            for gradient, each in zip(
                gradients.parameters, request.position_parameters, strict=True
            )
        ),
    )


class _Rows(NamedTuple):
    """What the backward pass knows of each query: (B, T', N, W), (B, T', N, 1), (B, T', N, 1)."""

    output_gradient: Any
    normalizer: Any
    agreement: Any


def _visit_column(inputs, rows, j, gradients):
    """Adds what one block of keys and values gives."""
    plan = inputs.plan
    key = key_block(inputs.key, j, plan.column_length)
    value = key_block(inputs.value, j, plan.column_length)

    def visit(k, key_sum, value_sum, query_blocks, bias_blocks, parameters):
        i = backend.entry(inputs.by_column.blocks, j, k)
        query = scaled_query_block(inputs, i)
        upstream = query_block(rows.output_gradient, i, plan.row_length, value.shape[1])
        block = _block_gradient(inputs, rows, query, upstream, value, i, j)
        query_sum = heads_last(times_keys(block.products, key))
        return (
            key_sum + times_queries(block.products, query),
            value_sum + times_queries(block.weights, upstream),
            backend.add_block(query_blocks, i, query_sum),
            _add_bias_gradient(inputs, bias_blocks, block.scores, i, j),
            _add_parameter_gradients(inputs, parameters, block.scores, i, j),
        )

    key_sum, value_sum, query_blocks, bias_blocks, parameters = backend.loop(
        backend.entry(inputs.by_column.counts, j),
        visit,
        (
            ops.zeros_like(key, "float32"),
            ops.zeros_like(value, "float32"),
            gradients.query,
            gradients.bias,
            gradients.parameters,
        ),
    )
    return Gradients(
        query_blocks,
        backend.put_block(gradients.key, j, heads_last(key_sum)),
        backend.put_block(gradients.value, j, heads_last(value_sum)),
        bias_blocks,
        parameters,
    )


class _BlockGradient(NamedTuple):
    """Of one block, (B, N, t, s) each: gradients of the scores and of the products of query and key
    before the soft cap, and the weights, dropped as they were."""

    scores: Any
    products: Any
    weights: Any


def _block_gradient(inputs, rows, query, upstream, value, i, j):
    length = inputs.plan.row_length
    normalizer, agreement = (
        heads_last(slice_axis(each, 1, i * length, length))
        for each in (rows.normalizer, rows.agreement)
    )
    scores, slope = score_block(inputs, query, i, j)
    weights = ops.exp(scores - normalizer)
    gradient = backend.matrix_product(upstream, value, transpose_right=True)
    gradient = unfold_groups(gradient, inputs.query.shape[2])
    gradient = ops.cast(gradient, "float32")  # of the dropped weights
    kept = weights
    if inputs.seed is not None:
        keep = keep_mask(inputs, weights, i, j)
        kept, gradient = drop(inputs, keep, weights), drop(inputs, keep, gradient)
    gradient = weights * (gradient - agreement)
    products = gradient if slope is None else gradient * slope
    return _BlockGradient(gradient, products, kept)


def _add_bias_gradient(inputs, blocks, gradient, i, j):
    """Adds a block's gradient (B, N, t, s), summed over the axes that the bias does not have."""
    bias = inputs.request.bias
    if bias is None:
        return blocks
    same = [axis for axis in range(4) if bias.shape[axis] == 1]
    row = 0 if bias.shape[2] == 1 else i
    column = 0 if bias.shape[3] == 1 else j
    columns = 1 if bias.shape[3] == 1 else inputs.plan.column_count
    block = ops.sum(gradient, axis=same, keepdims=True) if same else gradient
    return backend.add_block(blocks, row * columns + column, block)


def _bias_layout(bias, plan):
    """Returns (rows and columns of blocks, length of a block's rows and columns)."""
    rows = (1, 1) if bias.shape[2] == 1 else (plan.row_count, plan.row_length)
    columns = (1, 1) if bias.shape[3] == 1 else (plan.column_count, plan.column_length)
    return (rows[0], columns[0]), (rows[1], columns[1])


def _empty_bias(bias, plan):
    if bias is None:
        return ()
    (rows, columns), lengths = _bias_layout(bias, plan)
    return backend.empty_blocks(rows * columns, (*ops.shape(bias)[:2], *lengths), "float32")


def _joined_bias(blocks, bias, plan):
    if bias is None:
        return None
    joined = joined_matrix(backend.stack_blocks(blocks), *_bias_layout(bias, plan)[0])
    return ops.cast(joined[:, :, : plan.rows, : plan.columns], bias.dtype)


def _add_parameter_gradients(inputs, parameters, gradient, i, j):
    """Adds a block's gradients of what the position bias reads, by differentiating it again."""
    if not parameters:
        return parameters
    request, plan = inputs.request, inputs.plan
    query_positions = block_positions(request.query_positions, i * plan.row_length, plan.row_length)
    key_positions = block_positions(
        request.key_positions, j * plan.column_length, plan.column_length
    )
    if query_positions.shape[0] == key_positions.shape[0] == 1:
        gradient = ops.sum(gradient, axis=0, keepdims=True)
    added = backend.pull_back(
        lambda *each: request.position_bias(query_positions, key_positions, *each),
        request.position_parameters,
        gradient,
    )
    return tuple(
        total + ops.cast(each, "float32") for total, each in zip(parameters, added, strict=True)
    )


def _empty_like(tensor, count, length):
    shape = (ops.shape(tensor)[0], length, tensor.shape[2], tensor.shape[3])
    return backend.empty_blocks(count, shape, "float32")
