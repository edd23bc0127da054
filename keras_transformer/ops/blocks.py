"""Cutting queries and keys into blocks of equal length, and joining what was written by block."""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.ops.attention_request import slice_axis


class Blocks(NamedTuple):
    """How many blocks there are and how long: T queries, S keys. Ints, or tensors if unknown."""

    rows: Any
    columns: Any
    row_count: Any
    row_length: Any
    column_count: Any
    column_length: Any

    @classmethod
    def of(cls, rows, columns, longest):
        """Blocks of at most `longest`, as even as can be, so that little is filled up."""
        row_count, column_count = -(-rows // longest), -(-columns // longest)
        return cls(
            rows,
            columns,
            row_count,
            -(-rows // row_count),
            column_count,
            -(-columns // column_count),
        )

    @property
    def padded_rows(self):
        return self.row_count * self.row_length

    @property
    def padded_columns(self):
        return self.column_count * self.column_length


def filled(tensor, axis, length, padded, value=0):
    """Returns the tensor with one axis of `length` filled up to `padded` with a value."""
    if tensor.shape[axis] == 1 or (isinstance(padded, int) and padded == length):
        return tensor
    widths = [(0, padded - length if each == axis else 0) for each in range(len(tensor.shape))]
    return ops.pad(tensor, widths, constant_values=value)


def repeated_last(tensor, length, padded):
    """Returns (A, padded) from (A, length): the last column repeated."""
    if isinstance(padded, int) and padded == length:
        return tensor
    return ops.take(tensor, ops.minimum(ops.arange(padded, dtype="int32"), length - 1), axis=1)


def padded_request(request, plan):
    """Returns the request with its tensors filled up to whole blocks; keys so added are hidden."""

    def rows(tensor, axis, value=0):
        return None if tensor is None else filled(tensor, axis, plan.rows, plan.padded_rows, value)

    def columns(tensor, axis, value=0):
        if tensor is None:
            return None
        return filled(tensor, axis, plan.columns, plan.padded_columns, value)

    key_positions = request.key_positions
    ragged = not isinstance(plan.columns, int) or plan.columns != plan.padded_columns
    if key_positions is None and ragged:
        key_positions = ops.arange(plan.columns, dtype="int32")[None]
    return request._replace(
        query_positions=rows(request.query_positions, 1),
        key_positions=columns(key_positions, 1, -1),
        key_mask=columns(request.key_mask, 1, False),
        query_segments=rows(request.query_segments, 1),
        key_segments=columns(request.key_segments, 1),
        global_mask=rows(request.global_mask, 1, False),
        attention_mask=columns(rows(request.attention_mask, 2, False), 3, False),
        bias=columns(rows(request.bias, 2), 3),
    )


def query_block(tensor, index, length, groups):
    """Returns (B, M, G t, H): one block of queries (B, T, N, H), heads first, a group together."""
    block = slice_axis(tensor, 1, index * length, length)  # (B, t, N, H)
    return fold_groups(ops.transpose(block, (0, 2, 1, 3)), groups)


def key_block(tensor, index, length):
    """Returns (B, M, s, H): one block of keys or values (B, S, M, H), heads first."""
    return ops.transpose(slice_axis(tensor, 1, index * length, length), (0, 2, 1, 3))


def fold_groups(tensor, groups):
    """Returns (B, M, G t, X) from (B, N, t, X): the queries that one key/value head serves."""
    if tensor.shape[1] == groups:
        return tensor
    shape = ops.shape(tensor)
    return ops.reshape(tensor, (shape[0], groups, tensor.shape[1] // groups * shape[2], shape[3]))


def unfold_groups(tensor, heads):
    """Returns (B, N, t, X) from (B, M, G t, X)."""
    if tensor.shape[1] == heads:
        return tensor
    shape = ops.shape(tensor)
    return ops.reshape(tensor, (shape[0], heads, shape[2] // (heads // tensor.shape[1]), shape[3]))


def heads_last(tensor):
    """Returns (B, t, N, X) from (B, N, t, X)."""
    return ops.transpose(tensor, (0, 2, 1, 3))


def joined_rows(blocks):
    """Returns (B, T', N, X) from (count, B, t, N, X)."""
    shape = ops.shape(blocks)
    joined = ops.transpose(blocks, (1, 0, 2, 3, 4))
    return ops.reshape(joined, (shape[1], shape[0] * shape[2], blocks.shape[3], blocks.shape[4]))


def joined_matrix(blocks, rows, columns):
    """Returns (B, N, rows t, columns s) from (rows columns, B, N, t, s)."""
    shape = ops.shape(blocks)
    blocks = ops.reshape(blocks, (rows, columns, *shape[1:]))
    joined = ops.transpose(blocks, (2, 3, 0, 4, 1, 5))
    return ops.reshape(joined, (shape[1], shape[2], rows * shape[3], columns * shape[4]))
