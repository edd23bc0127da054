"""Exact attention in O(n) memory: blocks of scores come and go, forward and backward.

The forward pass keeps, for each query, the highest score so far, the sum of exponentials and the
weighted sum of values, and rescales the sums when a higher score turns up (Milakov and Gimelshein
2018; Rabe and Staats 2021). It saves the logarithm of each row's sum, from which the backward pass
makes the weights of any block again (Dao et al. 2022, appendix B.2).

Blocks that no query may see are not visited: those above the diagonal of a causal mask, outside a
window, or between other packed sentences.

Letters: B batch, T queries, S keys, N query heads, M key/value heads (N = M G), H and W their widths;
t and s the lengths of a block of queries and of keys.
"""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.ops import backend
from keras_transformer.ops.attention_request import (
    bias_block,
    block_positions,
    slice_axis,
    visible_block,
)
from keras_transformer.ops.block_visits import block_visits
from keras_transformer.ops.blocks import (
    Blocks,
    filled,
    fold_groups,
    heads_last,
    joined_matrix,
    joined_rows,
    key_block,
    padded_request,
    query_block,
    unfold_groups,
)

LOWEST = float(np.finfo("float32").min)

# Fields of a request that are tensors: they pass through the custom gradient by name.
_TENSOR_FIELDS = (
    "bias",
    "key_mask",
    "attention_mask",
    "query_positions",
    "key_positions",
    "query_segments",
    "key_segments",
    "global_mask",
)


def blockwise_attention(query, key, value, request, block_size, rows_wanted=None):
    """Attends with one t x s block of the scores in memory at a time.

    Args:
        query: (B, T, N, H). key: (B, S, M, H). value: (B, S, M, W); M divides N.
        request: `AttentionRequest` that asks for no scores.
        block_size: int, the longest t and s.
        rows_wanted: bool (B|1, T), or None: rows whose output is needed; a block without one is not
            visited, and its output is zero.

    Returns:
        (B, T, N, W). A row that may attend to nothing is zero.
    """
    names = [name for name in _TENSOR_FIELDS if getattr(request, name) is not None]
    given = {name: getattr(request, name) for name in names}
    if rows_wanted is not None:
        given["rows_wanted"] = rows_wanted
    if request.dropout:
        given["seed"] = request.seed_generator.next()
    plan = Blocks.of(ops.shape(query)[1], ops.shape(key)[1], block_size)
    parameters = request.position_parameters

    def attend(query, key, value, *others):
        named = dict(zip(given, others[len(parameters) :], strict=True))
        passed = request._replace(position_parameters=others[: len(parameters)])
        inputs = _padded(query, key, value, passed, plan, named)
        output, normalizer = _forward(inputs)

        def pull_back(output_gradient):
            gradients = _backward(inputs, output, normalizer, output_gradient)
            rest = [gradients.bias if name == "bias" else None for name in given]
            return (*gradients[:3], *gradients.parameters, *rest)

        return output[:, : plan.rows], pull_back

    operation = backend.custom_gradient(attend)
    return operation(query, key, value, *parameters, *given.values())


class _Inputs(NamedTuple):
    """What every block reads: tensors padded to whole blocks, and which blocks to visit."""

    query: Any
    key: Any
    value: Any
    request: Any
    plan: Any
    seed: Any
    by_row: Any  # for each block of queries, the blocks of keys to visit
    by_column: Any  # for each block of keys, the blocks of queries


def _padded(query, key, value, request, plan, named):
    seed, rows_wanted = named.pop("seed", None), named.pop("rows_wanted", None)
    request = request._replace(**named)
    by_row, by_column = block_visits(request, plan, rows_wanted)
    return _Inputs(
        filled(query, 1, plan.rows, plan.padded_rows),
        filled(key, 1, plan.columns, plan.padded_columns),
        filled(value, 1, plan.columns, plan.padded_columns),
        padded_request(request, plan),
        plan,
        seed,
        by_row,
        by_column,
    )


def _forward(inputs):
    """Returns (output (B, T', N, W), log of each row's sum of exponentials (B, T', N, 1))."""
    plan = inputs.plan
    batch, heads, width = ops.shape(inputs.query)[0], inputs.query.shape[2], inputs.value.shape[3]
    rows = (batch, heads, plan.row_length)

    def visit_row(i, outputs, normalizers):
        query = _query_block(inputs, i)

        def visit(k, summed, highest, total):
            j = backend.entry(inputs.by_row.blocks, i, k)
            scores, _ = _scores(inputs, query, i, j)
            higher = ops.maximum(highest, ops.max(scores, axis=-1, keepdims=True))
            weights = ops.exp(scores - higher)  # (B, N, t, s)
            shrink = ops.exp(highest - higher)
            total = total * shrink + ops.sum(weights, axis=-1, keepdims=True)
            if inputs.seed is not None:
                weights = _drop(inputs, _keep_mask(inputs, weights, i, j), weights)
            values = _times_keys(weights, key_block(inputs.value, j, plan.column_length))
            return summed * shrink + values, higher, total

        summed, highest, total = backend.loop(
            backend.entry(inputs.by_row.counts, i),
            visit,
            (
                ops.zeros((*rows, width), "float32"),
                ops.full((*rows, 1), LOWEST, "float32"),
                ops.zeros((*rows, 1), "float32"),
            ),
        )
        alive = total > 0
        total = ops.where(alive, total, 1.0)
        normalizer = ops.where(alive, highest + ops.log(total), 0.0)
        output = ops.cast(summed / total, inputs.value.dtype)
        return (
            backend.put_block(outputs, i, heads_last(output)),
            backend.put_block(normalizers, i, heads_last(normalizer)),
        )

    block = (batch, plan.row_length, heads)
    outputs, normalizers = backend.loop(
        plan.row_count,
        visit_row,
        (
            backend.empty_blocks(plan.row_count, (*block, width), inputs.value.dtype),
            backend.empty_blocks(plan.row_count, (*block, 1), "float32"),
        ),
    )
    return joined_rows(backend.stack_blocks(outputs)), joined_rows(
        backend.stack_blocks(normalizers)
    )


class _Gradients(NamedTuple):
    """What a backward pass adds up: heads and bias in blocks, the parameters of a position bias."""

    query: Any
    key: Any
    value: Any
    bias: Any
    parameters: tuple


def _backward(inputs, output, normalizer, output_gradient):
    """Visits each block once more, and adds up what it gives to every gradient."""
    plan, request = inputs.plan, inputs.request
    output_gradient = filled(output_gradient, 1, plan.rows, plan.padded_rows)
    # sum_s weight_s dweight_s = output . doutput, whatever the length (Dao et al., appendix B.2).
    agreement = ops.sum(
        ops.cast(output_gradient, "float32") * ops.cast(output, "float32"), axis=-1, keepdims=True
    )
    rows = _Rows(output_gradient, normalizer, agreement)

    def visit_column(j, *gradients):
        return _visit_column(inputs, rows, j, _Gradients(*gradients))

    gradients = _Gradients(
        query=_empty_like(inputs.query, plan.row_count, plan.row_length),
        key=_empty_like(inputs.key, plan.column_count, plan.column_length),
        value=_empty_like(inputs.value, plan.column_count, plan.column_length),
        bias=_empty_bias(request.bias, plan),
        parameters=tuple(ops.zeros_like(each, "float32") for each in request.position_parameters),
    )
    gradients = _Gradients(*backend.loop(plan.column_count, visit_column, gradients))
    query, key, value = (
        joined_rows(backend.stack_blocks(blocks))
        for blocks in (gradients.query, gradients.key, gradients.value)
    )
    return _Gradients(
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
        query = _query_block(inputs, i)
        upstream = query_block(rows.output_gradient, i, plan.row_length, value.shape[1])
        block = _block_gradient(inputs, rows, query, upstream, value, i, j)
        query_sum = heads_last(_times_keys(block.products, key))
        return (
            key_sum + _times_queries(block.products, query),
            value_sum + _times_queries(block.weights, upstream),
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
    return _Gradients(
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
    scores, slope = _scores(inputs, query, i, j)
    weights = ops.exp(scores - normalizer)
    gradient = ops.einsum("bmtw,bmsw->bmts", upstream, value)
    gradient = unfold_groups(gradient, inputs.query.shape[2])
    gradient = ops.cast(gradient, "float32")  # of the dropped weights
    kept = weights
    if inputs.seed is not None:
        keep = _keep_mask(inputs, weights, i, j)
        kept, gradient = _drop(inputs, keep, weights), _drop(inputs, keep, gradient)
    gradient = weights * (gradient - agreement)
    products = gradient if slope is None else gradient * slope
    return _BlockGradient(gradient, products, kept)


def _scores(inputs, query, i, j):
    """Returns (scores float32 (B, N, t, s), -inf where hidden; the slope of the soft cap or None)."""
    plan, request = inputs.plan, inputs.request
    key = key_block(inputs.key, j, plan.column_length)
    scores = ops.cast(ops.einsum("bmth,bmsh->bmts", query, key), "float32")  # (B, M, G t, s)
    scores = unfold_groups(scores, inputs.query.shape[2])
    slope = None
    if request.logit_soft_cap is not None:
        bent = ops.tanh(scores / request.logit_soft_cap)
        scores, slope = bent * request.logit_soft_cap, 1.0 - bent * bent
    place = (i * plan.row_length, plan.row_length, j * plan.column_length, plan.column_length)
    bias = bias_block(request, *place)
    if bias is not None:
        scores = scores + bias
    visible = visible_block(request, *place)
    if visible is not None:
        scores = ops.where(visible, scores, -np.inf)
    return scores, slope


def _query_block(inputs, i):
    """Returns (B, M, G t, H), multiplied by the scale."""
    query = query_block(inputs.query, i, inputs.plan.row_length, inputs.key.shape[2])
    return query * ops.cast(inputs.request.scale, query.dtype)


def _times_keys(weights, block):
    """Returns float32 (B, N, t, X): weights (B, N, t, s) times keys or values (B, M, s, X)."""
    folded = ops.cast(fold_groups(weights, block.shape[1]), block.dtype)
    return unfold_groups(ops.cast(ops.matmul(folded, block), "float32"), weights.shape[1])


def _times_queries(weights, block):
    """Returns float32 (B, M, s, X): sums over queries of weights (B, N, t, s) x (B, M, G t, X)."""
    folded = ops.cast(fold_groups(weights, block.shape[1]), block.dtype)
    return ops.cast(ops.einsum("bmts,bmtx->bmsx", folded, block), "float32")


def _keep_mask(inputs, weights, i, j):
    """Returns bool (B, N, t, s): what dropout leaves of a block, the same in both passes."""
    index = i * inputs.plan.column_count + j
    return backend.block_keep_mask(inputs.seed, index, ops.shape(weights), inputs.request.dropout)


def _drop(inputs, keep, weights):
    return ops.where(keep, weights / (1.0 - inputs.request.dropout), 0.0)


def _add_bias_gradient(inputs, blocks, gradient, i, j):
    """Adds a block's gradient (B, N, t, s), summed over the axes along which the bias is the same."""
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
