"""Cross-entropy of a vocabulary head without the full matrix of logits.

The head's logits x E^T are R x V numbers, the largest tensor of a small model. Here they are made
in blocks of rows that stay in cache, reduced to a few numbers a row, and used for the gradients in
the same visit. Rows of weight zero (padding) are gathered at the end and never visited.

Letters: R rows (tokens), D model width, V vocabulary.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.ops import backend

# A block of logits of this many numbers (float32: 8 MB) stays in a processor's cache on common
# machines; with half of them the products of small models are less full.
BLOCK_ELEMENTS = 2**21


class TokenStatistics(NamedTuple):
    """What loss and metrics need to know of each target token, all float32 (B, T).

    Attributes:
        loss: label-smoothed cross-entropy, nats.
        negative_log_likelihood: of the target, nats.
        correct: 1.0 where the target has the highest logit.
        weight: how much the token counts, 0 for padding.
    """

    loss: Any
    negative_log_likelihood: Any
    correct: Any
    weight: Any


def token_statistics(logits, targets, label_smoothing):
    """Returns (loss, negative log-likelihood, correct), float32 (..., ), from logits (..., V).

    Label smoothing e puts 1 - e on the target plus e / V on every class (section 5.4).

    Args:
        logits: (..., V). targets: int32 (...).
    """
    logits = ops.cast(logits, "float32")
    normalizer = ops.logsumexp(logits, axis=-1)
    target_logits = ops.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    likelihood = ops.subtract(normalizer, target_logits)
    correct = ops.cast(ops.greater_equal(target_logits, ops.max(logits, axis=-1)), "float32")
    if not label_smoothing:
        return likelihood, likelihood, correct
    uniform = ops.subtract(normalizer, ops.mean(logits, axis=-1))
    loss = (1.0 - label_smoothing) * likelihood + label_smoothing * uniform
    return loss, likelihood, correct


def head_statistics(features, kernel, targets, weights, label_smoothing=0.0, gradient=True):
    """Token statistics of the head logits = features kernel^T, in blocks of rows.

    Args:
        features: float (R, D). kernel: float (V, D). targets: int32 (R,).
        weights: float32 (R,), 0 for padding, whose statistics are then 0.
        label_smoothing: float in [0, 1). gradient: whether gradients will be asked for.

    Returns:
        (total, loss, negative log-likelihood, correct): the weighted sum of the losses, a scalar
        with a gradient to features and kernel, and three float32 (R,) without one.
    """
    if not gradient:
        total, rows, _, _ = _visit_blocks(
            features, kernel, targets, weights, label_smoothing, gradient=False
        )
        return total, *ops.unstack(rows, axis=1)

    def with_gradient(features, kernel, targets, weights):
        total, rows, feature_gradient, kernel_gradient = _visit_blocks(
            features, kernel, targets, weights, label_smoothing, gradient=True
        )

        def pull_back(upstream, *_):
            return (
                ops.cast(feature_gradient * upstream, features.dtype),
                ops.cast(kernel_gradient * upstream, kernel.dtype),
                None,
                None,
            )

        return (total, rows), pull_back

    operation = backend.custom_gradient(with_gradient)
    total, rows = operation(features, kernel, targets, weights)
    return total, *ops.unstack(ops.stop_gradient(rows), axis=1)


def _visit_blocks(features, kernel, targets, weights, label_smoothing, gradient):
    """Returns (total, rows (R, 3), gradients to features (R, D) and kernel (V, D)), all float32."""
    count = ops.shape(features)[0]
    visited = ops.sum(ops.cast(weights > 0, "int32"))
    known = backend.concrete(visited)
    visited = visited if known is None else int(known)
    block = _rows_in_block(count, *kernel.shape)
    if backend.shapes_may_depend_on_values(features):  # the last block is then as full
        block = _equal_blocks(visited, block)
    order = _real_rows_first(weights, count, block)
    inverse = ops.argsort(order[:count])
    kernel_cast = ops.cast(kernel, features.dtype)
    tables = _Tables(
        features=ops.take(features, order, axis=0),
        kernel=kernel_cast,
        # TensorFlow multiplies by a matrix that it reads transposed at 0.7 of its rate.
        transposed_kernel=ops.transpose(kernel_cast),
        mean_kernel=ops.mean(ops.cast(kernel, "float32"), axis=0),
        targets=ops.take(targets, order),
        # The rows that fill the last block repeat row 0 and weigh nothing.
        weights=ops.where(ops.arange(ops.shape(order)[0]) < count, ops.take(weights, order), 0.0),
    )
    blocks = _at_least_one(ops.shape(order)[0] // block)
    width = features.shape[1] if gradient else 0
    state = backend.loop(
        -(-visited // block),
        lambda i, *state: _visit(i, _Visit(*state), tables, block, label_smoothing, gradient),
        _Visit(
            rows=backend.empty_blocks(blocks, (block, 3), "float32"),
            feature_gradient=backend.empty_blocks(blocks, (block, width), "float32"),
            kernel_gradient=_first_kernel_gradient(tables, label_smoothing, gradient),
        ),
    )
    state = _Visit(
        rows=ops.reshape(backend.stack_blocks(state[0]), (-1, 3)),
        feature_gradient=ops.reshape(backend.stack_blocks(state[1]), (blocks * block, width)),
        kernel_gradient=state[2],
    )
    rows = ops.take(state.rows, inverse, axis=0)
    total = ops.sum(rows[:, 0] * weights)
    if not gradient:
        return total, rows, None, None
    gradients = _smoothed_gradients(state, tables, label_smoothing)
    return total, rows, ops.take(gradients[0], inverse, axis=0), gradients[1]


class _Tables(NamedTuple):
    """What every block reads: rows in visiting order, and the head."""

    features: Any
    kernel: Any
    transposed_kernel: Any
    mean_kernel: Any
    targets: Any
    weights: Any


class _Visit(NamedTuple):
    """What the loop over blocks carries: the first two in blocks, see `backend.empty_blocks`."""

    rows: Any
    feature_gradient: Any
    kernel_gradient: Any


def _rows_in_block(count, vocabulary_size, width):
    # Each block reads the V x D kernel twice and adds to its gradient: with fewer rows than that,
    # those passes over memory take longer than what stays in cache saves.
    rows = max(64, width // 2, BLOCK_ELEMENTS // vocabulary_size)
    return _at_least_one(min(rows, count) if isinstance(count, int) else ops.minimum(rows, count))


def _at_least_one(number):
    """Returns the number, or 1: a replica's share of a batch may be empty, a block may not."""
    return max(1, number) if isinstance(number, int) else ops.maximum(1, number)


def _equal_blocks(visited, block):
    """Returns the rows in a block so that as many blocks of equal size hold the real rows."""
    count = _at_least_one(-(-visited // block))
    return _at_least_one(-(-visited // count))


def _real_rows_first(weights, count, block):
    """Returns the order of the rows (R',): R' is R rounded up to whole blocks."""
    order = ops.argsort(ops.where(weights > 0, 0, 1))
    fill = ops.zeros(((-count) % block,), order.dtype)
    return ops.cast(ops.concatenate([order, fill]), "int32")


def _visit(i, state, tables, block, label_smoothing, gradient):
    """One block of rows: its statistics, and its share of the gradient of sum(weight logsumexp)."""
    start, width = i * block, tables.kernel.shape[1]
    features = ops.slice(tables.features, (start, 0), (block, width))  # (b, D)
    targets = ops.slice(tables.targets, (start,), (block,))
    weights = ops.slice(tables.weights, (start,), (block,))
    logits = ops.cast(ops.matmul(features, tables.transposed_kernel), "float32")  # (b, V)
    highest = ops.max(logits, axis=-1, keepdims=True)
    target_logits = ops.take_along_axis(logits, targets[:, None], axis=-1)
    exponentials = backend.exponentials(logits, highest)  # of `logits`, no longer read
    sums = ops.sum(exponentials, axis=-1, keepdims=True)
    normalizer = ops.log(sums) + highest  # (b, 1)
    likelihood = normalizer - target_logits
    # The mean of the logits is the logit of the mean: no pass over (b, V).
    mean_logits = ops.matmul(ops.cast(features, "float32"), tables.mean_kernel[:, None])
    uniform = normalizer - mean_logits
    loss = (1.0 - label_smoothing) * likelihood + label_smoothing * uniform
    correct = ops.cast(target_logits >= highest, "float32")
    rows = ops.concatenate([loss, likelihood, correct], axis=-1)  # (b, 3)
    rows = backend.put_block(state.rows, i, rows)
    if not gradient:
        return _Visit(rows, state.feature_gradient, state.kernel_gradient)
    # softmax = exponentials / sums; the division and the weight go to the products' narrow side.
    scale = weights[:, None] / sums
    exponentials = ops.cast(exponentials, features.dtype)
    feature_gradient = ops.cast(ops.matmul(exponentials, tables.kernel), "float32") * scale
    scaled = ops.cast(ops.cast(features, "float32") * scale, features.dtype)
    return _Visit(
        rows,
        backend.put_block(state.feature_gradient, i, feature_gradient),
        backend.add_product(state.kernel_gradient, ops.transpose(exponentials), scaled),
    )


def _first_kernel_gradient(tables, label_smoothing, gradient):
    """Returns float32 (V, D): what smoothing takes from every word, to which the blocks add."""
    vocabulary_size, width = tables.kernel.shape
    if not gradient:
        return ops.zeros((0, width), "float32")
    everywhere = ops.sum(_weighted_features(tables), axis=0, keepdims=True)  # (1, D)
    return ops.tile(everywhere * (-label_smoothing / vocabulary_size), (vocabulary_size, 1))


def _smoothed_gradients(state, tables, label_smoothing):
    """Subtracts the smoothed targets' part: gradients of the whole loss, rows in visiting order."""
    weights = tables.weights[:, None]
    kernel_rows = ops.cast(ops.take(tables.kernel, tables.targets, axis=0), "float32")
    hit, spread = 1.0 - label_smoothing, label_smoothing
    feature_gradient = state.feature_gradient - weights * (
        hit * kernel_rows + spread * tables.mean_kernel
    )
    at_targets = -hit * _weighted_features(tables)
    return feature_gradient, backend.add_rows(state.kernel_gradient, tables.targets, at_targets)


def _weighted_features(tables):
    return ops.cast(tables.features, "float32") * tables.weights[:, None]
