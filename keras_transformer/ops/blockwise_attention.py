"""Exact attention in O(n) memory: blocks of scores come and go, forward and backward.

The forward pass keeps, for each query, the highest score so far, the sum of exponentials and the
weighted sum of values, and rescales the sums when a higher score turns up (Milakov and Gimelshein
2018; Rabe and Staats 2021). It saves the logarithm of each row's sum, from which the backward pass
makes the weights of any block again (Dao et al. 2022, appendix B.2).

Blocks that no query may see are not visited: those above the diagonal of a causal mask, outside a
window, or between other packed sentences.

Letters: B batch, T queries, S keys, N query heads, M key/value heads (N = M G), H and W their
widths; t and s the lengths of a block of queries and of keys.
"""

from keras import ops

from keras_transformer.ops import backend
from keras_transformer.ops.attention import LOWEST
from keras_transformer.ops.blocks import Blocks, heads_last, joined_rows, key_block
from keras_transformer.ops.blockwise_gradient import blockwise_gradients
from keras_transformer.ops.score_blocks import (
    block_inputs,
    drop,
    keep_mask,
    scaled_query_block,
    score_block,
    times_keys,
)

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
        inputs = block_inputs(query, key, value, passed, plan, named)
        output, normalizer = _forward(inputs)

        def pull_back(output_gradient):
            gradients = blockwise_gradients(inputs, output, normalizer, output_gradient)
            rest = [gradients.bias if name == "bias" else None for name in given]
            return (*gradients[:3], *gradients.parameters, *rest)

        return output[:, : plan.rows], pull_back

    operation = backend.custom_gradient(attend)
    return operation(query, key, value, *parameters, *given.values())


def _forward(inputs):
    """Returns (output (B, T', N, W), log of each row's sum of exponentials (B, T', N, 1))."""
    plan = inputs.plan
    batch, heads, width = ops.shape(inputs.query)[0], inputs.query.shape[2], inputs.value.shape[3]
    rows = (batch, heads, plan.row_length)

    def visit_row(i, outputs, normalizers):
        query = scaled_query_block(inputs, i)

        def visit(k, summed, highest, total):
            j = backend.entry(inputs.by_row.blocks, i, k)
            scores, _ = score_block(inputs, query, i, j)
            higher = ops.maximum(highest, ops.max(scores, axis=-1, keepdims=True))
            weights = ops.exp(scores - higher)  # (B, N, t, s)
            shrink = ops.exp(highest - higher)
            total = total * shrink + ops.sum(weights, axis=-1, keepdims=True)
            if inputs.seed is not None:
                weights = drop(inputs, keep_mask(inputs, weights, i, j), weights)
            values = times_keys(weights, key_block(inputs.value, j, plan.column_length))
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
