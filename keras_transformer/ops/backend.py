"""What differs between TensorFlow, JAX and PyTorch; the rest of the library is `keras.ops`."""

import functools
import math

import keras
import numpy as np
from keras import ops
from keras.src.backend import (
    AutocastScope,
    get_keras_mask,
    random_seed_dtype,
    set_keras_mask,
)
from keras.src.trainers.data_adapters import get_data_adapter

__all__ = [
    "add_block",
    "Unrecordable",
    "add_product",
    "add_rows",
    "as_matrix",
    "at_least",
    "check_ids",
    "compiled",
    "concrete",
    "custom_gradient",
    "exponentials",
    "empty_blocks",
    "entry",
    "fewest_rows",
    "forget_gradients",
    "fused_adam",
    "fused_attention",
    "get_keras_mask",
    "has_fused_adam",
    "has_fused_attention",
    "is_recorded",
    "lookup_table",
    "matrix_product",
    "loop",
    "needs_known_rows",
    "no_autocast",
    "prompt_pipelines",
    "put_block",
    "pull_back",
    "replica_count",
    "rows_inside",
    "scaled_at_random",
    "scaled_where",
    "scan",
    "set_keras_mask",
    "shapes_may_depend_on_values",
    "stack_blocks",
    "sum_over_replicas",
    "uniform",
    "write",
]


# Rows of a decoding step's products with the vocabulary, up to which they are made another way.
FEW_ROWS = {"tensorflow": 8, "jax": 8, "torch": 64}
# Rows that a search should have at the least: XLA in TensorFlow multiplies matrices by one vector
# on one core, and by two in less time.
FEWEST_ROWS = {"tensorflow": 2, "jax": 1, "torch": 1}


def concrete(tensor):
    """Returns the values as a numpy array, or None where they are not known yet (in a trace)."""
    if isinstance(tensor, np.ndarray | np.generic | int | float | list | tuple):
        return np.asarray(tensor)
    if isinstance(tensor, keras.KerasTensor):
        return None
    backend = keras.config.backend()
    if backend == "jax":
        import jax

        return None if isinstance(tensor, jax.core.Tracer) else np.asarray(tensor)
    if backend == "tensorflow":
        import tensorflow as tf

        if isinstance(tensor, tf.Tensor) and not hasattr(tensor, "numpy"):
            return None
        return np.asarray(tensor) if tf.executing_eagerly() else None
    if tensor.device.type == "meta" or is_recorded():
        return None
    return tensor.detach().cpu().numpy()


class Unrecordable(RuntimeError):
    """A step that looks at the values of its tensors cannot be taken down."""


def is_recorded():
    """Returns whether torch is taking down the operations of a step, see `RecordedModel`."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return get_proxy_mode() is not None


def check_ids(ids, limit, message):
    """Raises ValueError(message) where an id is outside [0, limit), as far as the backend can look.

    Eager calls check the values. A TensorFlow graph carries an assertion. XLA, and so JAX's traces
    and TensorFlow's `jit_compile=True`, can raise nothing: see `rows_inside`.
    """
    values = concrete(ids)
    if values is not None:
        if values.size and (values.min() < 0 or values.max() >= limit):
            raise ValueError(f"{message}; got {values.min()} to {values.max()}.")
        return ids
    if keras.config.backend() == "tensorflow" and not isinstance(ids, keras.KerasTensor):
        import tensorflow as tf

        inside = tf.reduce_all((ids >= 0) & (ids < limit))
        with tf.control_dependencies([tf.debugging.Assert(inside, [message])]):
            return tf.identity(ids)
    if keras.config.backend() == "jax" and not isinstance(ids, keras.KerasTensor):
        return ops.where(ids < 0, limit, ids)  # negative ones would count from the end
    return ids


def rows_inside(rows, ids, limit):
    """Returns the rows (..., D) that were looked up by ids (...), NaN where XLA had none.

    Keras's `take` fills such a row with NaN on JAX, which no later step can hide. On TensorFlow XLA
    drops the assertion of `check_ids` and reads the last row instead; here it becomes NaN too.
    """
    if keras.config.backend() != "tensorflow" or concrete(ids) is not None:
        return rows
    if isinstance(ids, keras.KerasTensor):
        return rows
    inside = ops.logical_and(ids >= 0, ids < limit)
    return ops.where(inside[..., None], rows, ops.cast(float("nan"), rows.dtype))


def shapes_may_depend_on_values(tensor):
    """Returns whether the backend takes tensors whose size is known only when they are there.

    XLA does not. A GPU would have to be waited for.
    """
    backend = keras.config.backend()
    if backend == "torch":
        return tensor.device.type == "cpu"
    if backend == "jax":
        return False
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

    graph = tf.compat.v1.get_default_graph()
    compiled = control_flow_util.GraphOrParentsInXlaContext(graph)
    return not compiled and not tf.config.list_logical_devices("GPU")


def no_autocast():
    """Returns a context in which variables are read in their own dtype, under any policy."""
    return AutocastScope(None)


def as_matrix(tensor, rows):
    """Returns (rows, 1) from (rows,), and a matrix of so many rows as it is.

    A TensorFlow function that was called with both forgets the rank; then the numbers tell.
    """
    if keras.config.backend() == "tensorflow" and tensor.shape.rank is None:
        import tensorflow as tf

        return tf.reshape(tensor, [rows, tf.size(tensor) // tf.maximum(rows, 1)])
    return tensor[:, None] if len(tensor.shape) == 1 else tensor


def replica_count():
    """Returns the number of replicas that share one TensorFlow training step (1 elsewhere)."""
    if keras.config.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def fewest_rows():
    """Returns how many rows a decoding step should have at the least."""
    return FEWEST_ROWS[keras.config.backend()]


def forget_gradients(model):
    """Frees the gradients of a step that is done.

    Torch would keep them beside all that the next forward pass keeps, until its backward pass.
    """
    if keras.config.backend() == "torch":
        model.zero_grad()


def prompt_pipelines(given):
    """Returns the arguments of a `fit`, by name, with data whose epochs end with the last batch.

    On TensorFlow an epoch else ends up to a minute later: a thread tunes its data pipeline, sleeps
    longer each time, and the pipeline is not given up before it has woken. Batches that take no
    time to make have nothing to tune. A `tf.data.Dataset` has options of its own and keeps them.
    """
    if keras.config.backend() != "tensorflow":
        return given
    given = dict(given)
    batch_size, validation = given.get("batch_size"), given.get("validation_data")
    if not given.get("validation_split"):  # else Keras has to slice the arrays
        given["x"] = _prompt_data(
            *(given.pop(name, None) for name in ("x", "y", "sample_weight")),
            batch_size=batch_size,
            steps_per_epoch=given.get("steps_per_epoch"),
            shuffle=given.get("shuffle", True),
            class_weight=given.pop("class_weight", None),
        )
    if validation is not None:
        given["validation_data"] = _prompt_data(
            *keras.utils.unpack_x_y_sample_weight(validation),
            batch_size=given.get("validation_batch_size") or batch_size,
            steps_per_epoch=given.get("validation_steps"),
        )
    return given


def _prompt_data(x, y, sample_weight, **options):
    """Returns Keras's own adapter of the data, whose pipeline is not tuned."""
    import tensorflow as tf

    adapter = get_data_adapter(x, y, sample_weight, **options)
    if isinstance(x, tf.data.Dataset | tf.distribute.DistributedDataset):
        return adapter
    make_dataset = adapter.get_tf_dataset
    untuned = tf.data.Options()
    untuned.autotune.enabled = False
    adapter.get_tf_dataset = lambda: make_dataset().with_options(untuned)
    return adapter


def needs_known_rows(jit_compile):
    """Returns whether a step compiled so needs shapes that TensorFlow's trace does not know."""
    return bool(jit_compile) and keras.config.backend() == "tensorflow"


def sum_over_replicas(value):
    """Returns the sum of `value` over the replicas of a `tf.distribute` strategy.

    On JAX a distributed array is one global array and its sum is global already.
    """
    if replica_count() == 1:
        return value
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return value if context is None else context.all_reduce(tf.distribute.ReduceOp.SUM, value)


def custom_gradient(function):
    """Wraps `function(*tensors) -> (outputs, pull_back)`, where `pull_back(*output_gradients)`
    returns one gradient a tensor (None for those without), as an operation with that gradient.

    Unlike `keras.ops.custom_gradient` it takes several outputs and the same form on every backend.
    """
    backend = keras.config.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        operation = tf.custom_gradient(function)
        # A variable passed as it is would have to be differentiated apart from the tensors.
        return lambda *tensors: operation(*map(tf.convert_to_tensor, tensors))
    if backend == "jax":
        return _jax_custom_gradient(function)
    return _torch_custom_gradient(function)


def _jax_custom_gradient(function):
    import jax

    def zeros_for_none(gradient, tensor):
        if gradient is not None:
            return gradient
        if jax.numpy.issubdtype(tensor.dtype, jax.numpy.inexact):
            return jax.numpy.zeros_like(tensor)
        return np.zeros(tensor.shape, jax.dtypes.float0)

    @jax.custom_gradient
    def operation(*tensors):
        outputs, pull_back = function(*tensors)

        def gradient(output_gradients):
            if not isinstance(output_gradients, tuple):
                output_gradients = (output_gradients,)
            gradients = pull_back(*output_gradients)
            return tuple(map(zeros_for_none, gradients, tensors))

        return outputs, gradient

    return operation


def _torch_custom_gradient(function):
    import torch

    class Operation(torch.autograd.Function):
        @staticmethod
        def forward(context, *tensors):
            outputs, context.pull_back = function(*tensors)
            return outputs

        @staticmethod
        def backward(context, *output_gradients):
            return context.pull_back(*output_gradients)

    return Operation.apply


def add_product(total, left, right):
    """Returns total + left right in float32, in place where the backend works eagerly.

    Args:
        total: float32 (I, J), not to be used afterwards. left: (I, K). right: (K, J).
    """
    if keras.config.backend() == "torch":
        if left.dtype == total.dtype:
            return total.addmm_(left, right)
        return total.add_(left @ right)
    return total + ops.cast(ops.matmul(left, right), total.dtype)


def add_rows(total, places, rows):
    """Returns total with rows added at places, in place where the backend works eagerly.

    Args:
        total: float32 (I, J), not to be used afterwards. places: int32 (K,). rows: (K, J).
    """
    backend = keras.config.backend()
    if backend == "torch":
        return total.index_add_(0, places, rows)
    if backend == "jax":
        return total.at[places].add(rows)
    import tensorflow as tf

    return tf.tensor_scatter_nd_add(total, places[:, None], rows)


def matrix_product(left, right, transpose_left=False, transpose_right=False):
    """Returns left right over the last two axes, either read transposed without a copy of it."""
    backend = keras.config.backend()
    if transpose_right and not transpose_left and len(right.shape) == 2 and _has_few_rows(left):
        return _few_rows_product(left, right)
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.matmul(left, right, transpose_a=transpose_left, transpose_b=transpose_right)
    left = ops.swapaxes(left, -1, -2) if transpose_left else left
    return ops.matmul(left, ops.swapaxes(right, -1, -2) if transpose_right else right)


def _has_few_rows(left):
    """Returns whether a product with a matrix has no more rows than a decoding step."""
    rows = left.shape[:-1]
    return None not in rows and math.prod(rows) <= FEW_ROWS[keras.config.backend()]


def _few_rows_product(left, right):
    """Returns left (..., D) times right (V, D) transposed, (..., V).

    The right matrix is the left one here. XLA and torch on a CPU transpose or pack a right one in
    memory for each product, which for few rows takes longer than the product, and a decoding step
    would do so with the whole vocabulary's.
    """
    rows = ops.reshape(left, (-1, left.shape[-1]))
    count = rows.shape[0]
    if count == 1 and keras.config.backend() == "torch":
        # A product with a vector reads the matrix at a third of the speed that two rows do.
        rows = ops.concatenate([rows, rows])
    product = ops.transpose(ops.matmul(right, ops.transpose(rows)))[:count]
    return ops.reshape(product, (*left.shape[:-1], right.shape[0]))


def pull_back(function, tensors, output_gradient):
    """Returns the gradients of sum(function(*tensors) x output_gradient) by each of the tensors."""
    backend = keras.config.backend()
    if backend == "jax":
        import jax

        return jax.vjp(function, *tensors)[1](output_gradient)
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(tensors)
            output = function(*tensors)
        gradients = tape.gradient(output, tensors, output_gradient)
        return tuple(tf.convert_to_tensor(gradient) for gradient in gradients)
    import torch

    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        return torch.autograd.grad(function(*leaves), leaves, output_gradient)


def loop(count, body, carry):
    """Returns the carry, a tuple, after body(i, *carry) for i = 0 .. count - 1, one at a time.

    Nothing is kept for a backward pass: it is a loop for the inside of a `custom_gradient`.
    """
    backend = keras.config.backend()
    if backend == "jax":
        import jax

        return jax.lax.fori_loop(0, count, lambda i, carry: tuple(body(i, *carry)), tuple(carry))
    if backend == "tensorflow":
        import tensorflow as tf

        # Iterations that ran ahead would each hold their own block of scores.
        return tf.while_loop(
            lambda i, *_: i < count,
            lambda i, *carry: (i + 1, *body(i, *carry)),
            (tf.constant(0), *carry),
            parallel_iterations=1,
        )[1:]
    for i in range(count):
        carry = body(i, *carry)
    return carry


def scan(body, carry, inputs):
    """Returns (carry, outputs float32 (C, ...)) of carry, output = body(carry, slices) in turn.

    Like `keras.ops.scan`, whose outputs on TensorFlow must have the shapes of the carry.

    Args:
        body: function of (tuple carry, tuple of slices of the inputs).
        carry: tuple of tensors. inputs: tuple of tensors with the same leading axis C.
    """
    backend = keras.config.backend()
    if backend == "jax":
        import jax

        return jax.lax.scan(body, carry, inputs)
    if backend == "tensorflow":
        return _tensorflow_scan(body, carry, inputs)
    outputs = []
    for slices in zip(*inputs, strict=True):
        carry, output = body(carry, slices)
        outputs.append(output)
    return carry, ops.stack(outputs)


def _tensorflow_scan(body, carry, inputs):
    import tensorflow as tf

    count = inputs[0].shape[0]  # known, XLA can differentiate the loop
    size = tf.shape(inputs[0])[0] if count is None else count
    arrays = [tf.TensorArray(each.dtype, size=size).unstack(each) for each in inputs]

    def step(i, carry, outputs):
        carry, output = body(carry, tuple(array.read(i) for array in arrays))
        return i + 1, carry, outputs.write(i, output)

    _, carry, outputs = tf.while_loop(
        lambda i, *_: i < size,
        step,
        (tf.constant(0), carry, tf.TensorArray("float32", size=size)),
        maximum_iterations=count,
    )
    return carry, outputs.stack()


def lookup_table(tensor):
    """Returns an int tensor in the form that `entry` reads: where loops are Python's, an array.

    Raises:
        Unrecordable: where the operations of torch are taken down, of which it would be none.
    """
    if keras.config.backend() != "torch":
        return tensor
    if is_recorded():
        raise Unrecordable
    return tensor.cpu().numpy()


def entry(table, *index):
    """Returns one number of a `lookup_table`."""
    if isinstance(table, np.ndarray):
        return int(table[index])
    for each in index:
        table = ops.take(table, each, axis=0)
    return table


def empty_blocks(count, shape, dtype):
    """Returns `count` blocks of zeros of one shape; a `loop` writes into them without a copy."""
    zeros = ops.zeros((count, *shape), dtype)
    if keras.config.backend() != "tensorflow":
        return zeros
    import tensorflow as tf

    return tf.TensorArray(dtype, size=count, clear_after_read=False).unstack(zeros)


def put_block(blocks, index, block):
    """Returns the blocks with one replaced; the blocks passed are not to be used afterwards."""
    backend = keras.config.backend()
    if backend == "jax":
        return blocks.at[index].set(block)
    if backend == "tensorflow":
        return blocks.write(index, block)
    blocks[index] = block
    return blocks


def add_block(blocks, index, block):
    """Like `put_block`, but adds."""
    backend = keras.config.backend()
    if backend == "jax":
        return blocks.at[index].add(block)
    if backend == "tensorflow":
        return blocks.write(index, blocks.read(index) + block)
    blocks[index] += block
    return blocks


def stack_blocks(blocks):
    """Returns the blocks as one tensor (count, ...)."""
    return blocks.stack() if keras.config.backend() == "tensorflow" else blocks


def write(tensor, block, start):
    """Returns the tensor with a block written into it from `start` on, a tuple of int or int32.

    In place where the backend works eagerly: the tensor passed is not to be used afterwards.
    """
    if keras.config.backend() != "torch":
        return ops.slice_update(tensor, start, block)
    import torch

    moved = [axis for axis, first in enumerate(start) if torch.is_tensor(first)]
    place = tensor
    for axis, (first, count) in enumerate(zip(start, block.shape, strict=True)):
        if axis not in moved:
            place = place.narrow(axis, int(first), count)
    if not moved:
        place.copy_(block)
        return tensor
    (axis,) = moved  # a start that is looked at could not be recorded
    count = block.shape[axis]
    place.index_copy_(axis, start[axis] + torch.arange(count, device=block.device), block)
    return tensor


def at_least(seed, shape, threshold, block=None):
    """Returns bool of a shape: whether a random integer of 16 bits is at least the threshold.

    Args:
        seed: integer (2,). block: optional int or int32 scalar that makes another seed of it.
    """
    backend = keras.config.backend()
    if backend in ("jax", "tensorflow"):
        return compiled(_hash_is_at_least)(*_hash_keys(seed, block), shape, threshold)
    import torch

    seeds = [*(word % 2**32 for word in seed.tolist()), 0 if block is None else 1 + block]
    if seed.device.type != "cpu":
        generator = torch.Generator(seed.device).manual_seed(hash(tuple(seeds)) % 2**63)
        return torch.rand(shape, generator=generator, device=seed.device) >= threshold / 2**16
    # NumPy draws four times as fast as torch on a CPU, and compares integers of 16 bits.
    count = math.prod(shape)
    bits = np.random.SFC64(seeds).random_raw(-(-count // 4)).view(np.uint16)[:count]
    return torch.from_numpy((bits >= threshold).reshape(shape))


def scaled_at_random(inputs, seed, threshold, scale):
    """Returns inputs * scale where a random integer is `at_least` the threshold, zero elsewhere.

    TensorFlow draws the same integers again for the gradient, as that takes less time than to keep
    them.
    """
    if keras.config.backend() != "tensorflow":
        return scaled_where(at_least(seed, ops.shape(inputs), threshold), inputs, scale)
    keys = _hash_keys(seed)

    def scaled(tensor):
        return compiled(_scaled_by_hash)(tensor, *keys, threshold, scale)

    return custom_gradient(lambda tensor: (scaled(tensor), lambda upstream: (scaled(upstream),)))(
        inputs
    )


def scaled_where(keep, inputs, scale):
    """Returns inputs * scale where `keep`, and zero elsewhere.

    XLA fuses the choice into what reads it and keeps only `keep` for the gradient. Torch makes the
    fewest passes, there and back, by one product with a factor that is kept.
    """
    scale = ops.cast(scale, inputs.dtype)
    if keras.config.backend() == "torch":
        return inputs * (ops.cast(keep, inputs.dtype) * scale)
    return ops.where(keep, inputs * scale, ops.zeros((), inputs.dtype))


def compiled(function):
    """Returns a pure function of tensors as one kernel where it is part of a TensorFlow graph.

    A graph makes a pass over memory for each elementwise operation, XLA one for a chain of them;
    XLA does so for the whole step on JAX. Worth it for elementwise chains alone: TensorFlow's own
    products are faster. Arguments that are no tensors are constants of the kernel.
    """
    if keras.config.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return _compiled_by_xla(function) if tf.inside_function() else function


@functools.cache
def _compiled_by_xla(function):
    import tensorflow as tf

    return tf.function(function, jit_compile=True)


def _hash_keys(seed, block=None):
    """Returns two uint32 scalars that are random under a seed (2,) and the number of a block."""
    if keras.config.backend() == "jax":
        import jax

        key = jax.random.wrap_key_data(seed.astype("uint32"))
        return jax.random.bits(key if block is None else jax.random.fold_in(key, block), (2,))
    import tensorflow as tf

    seed = tf.cast(seed, "int32")
    if block is not None:
        seed = tf.random.experimental.stateless_fold_in(seed, block)
    return tf.unstack(tf.random.stateless_uniform([2], seed, None, None, "uint32"))


def _hash_is_at_least(first, second, shape, threshold):
    return _hashed(shape, first, second) >= np.uint32(threshold << 16)


def _scaled_by_hash(inputs, first, second, threshold, scale):
    keep = _hash_is_at_least(first, second, ops.shape(inputs), threshold)
    return scaled_where(keep, inputs, scale)


def _hashed(shape, first, second):
    """Returns uint32 of a shape: a hash of each entry's number, under two random keys.

    The frameworks' own bits (threefry, philox: ten rounds or twenty) take several times as long,
    and a hash is computed where it is read. The rounds are those of a published search for 32-bit
    mixers of low bias ("lowbias32", Wellons 2018).
    """
    numbers = ops.cast(ops.arange(math.prod(shape), dtype="int32"), "uint32")
    bits = ops.bitwise_xor(ops.reshape(numbers, shape), first)
    bits = _folded(bits, 16) * np.uint32(0x7FEB352D)
    bits = _folded(bits, 15) + second
    bits = _folded(bits, 16) * np.uint32(0x846CA68B)
    return _folded(bits, 16)


def uniform(shape, seed, step):
    """Returns float32 between 0 and 1, both left out, random under a seed and a step, int32.

    The same in a loop as outside of it and, on TensorFlow, by XLA or not: its own generators differ
    there.
    """
    if keras.config.backend() != "tensorflow":
        tiny = np.finfo("float32").tiny
        return keras.random.uniform(shape, tiny, dtype="float32", seed=_StepSeed(seed, step))
    first, second = (ops.cast(part, "uint32") for part in (seed, step))
    first = _hashed((1,), first, second)
    second = _hashed((1,), second, first)
    bits = _hashed(shape, first, second)
    # With the half that keeps 0 out 24 bits are set, and float32 holds no more.
    whole = ops.cast(ops.bitwise_right_shift(bits, np.uint32(9)), "float32")
    return (whole + 0.5) * np.float32(2**-23)


class _StepSeed(keras.random.SeedGenerator):
    """A seed generator without a variable: always the pair of a seed and a step, traced or not.

    A loop in a compiled function can neither assign a variable on JAX nor draw anew in Python.
    """

    def __init__(self, seed, step):
        self._pair = ops.cast(ops.stack([seed, step]), random_seed_dtype())

    def next(self, ordered=True):
        return self._pair


def _folded(bits, places):
    return ops.bitwise_xor(bits, ops.bitwise_right_shift(bits, np.uint32(places)))


def exponentials(logits, highest):
    """Returns exp(logits - highest), in place where the backend works eagerly.

    Args:
        logits: float32 (R, V), not to be used afterwards. highest: float32 (R, 1).
    """
    if keras.config.backend() == "torch":
        return logits.sub_(highest).exp_()
    return ops.exp(logits - highest)


def has_fused_attention():
    """Returns whether the backend has a fused attention that is worth taking on this machine."""
    return keras.config.backend() == "torch" or (
        keras.config.backend() == "jax" and _jax_platform() == "gpu"
    )


def _jax_platform():
    import jax

    return jax.default_backend()


def fused_attention(query, key, value, mask, bias, scale, is_causal):
    """Attention by the backend's own fused operation.

    Args:
        query: (B, T, N, H); key: (B, S, M, H); value: (B, S, M, W); M divides N.
        mask: bool (B|1, N|1, T|1, S) or None, no row empty; bias: like it, float32, or None.
        scale: float, multiplies the scores; is_causal: whether query i sees keys 0..i only.

    Returns:
        (B, T, N, W)
    """
    if keras.config.backend() == "jax":
        import jax

        width = value.shape[-1]
        query, key, value = _widened(query, key, value)
        output = jax.nn.dot_product_attention(
            query, key, value, bias=bias, mask=mask, scale=scale, is_causal=is_causal
        )
        return output[..., :width]
    import torch

    if is_causal and (mask is not None or bias is not None):
        rows, columns = query.shape[1], key.shape[1]
        causal = torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril()
        mask, is_causal = causal if mask is None else mask & causal, False
    dtype = value.dtype
    if bias is not None:
        # The kernel takes a bias in the dtype of the queries, which may be too coarse for it.
        query, key, value = (each.float() for each in (query, key, value))
        mask = bias if mask is None else torch.where(mask, bias, torch.finfo(bias.dtype).min)
    heads_first = [tensor.transpose(1, 2) for tensor in (query, key, value)]
    output = torch.nn.functional.scaled_dot_product_attention(
        *heads_first,
        attn_mask=mask,
        scale=scale,
        is_causal=is_causal,
        enable_gqa=query.shape[2] != key.shape[2],
    )
    return ops.transpose(output, (0, 2, 1, 3)).to(dtype)


def _widened(*tensors):
    """Returns the tensors with zeros at the end of the last axis, so that all are as wide.

    JAX's kernel takes one width alone. Zeros change no product, and in the values only columns of
    zeros come out.
    """
    widest = max(tensor.shape[-1] for tensor in tensors)
    return [
        ops.pad(tensor, [(0, 0)] * 3 + [(0, widest - tensor.shape[-1])])
        if tensor.shape[-1] < widest
        else tensor
        for tensor in tensors
    ]


def has_fused_adam(dtype):
    """Returns whether the backend has Adam as one operation; JAX makes its own of Keras's.

    TensorFlow's computes in the weight's dtype, in which 0.999 may be 1.
    """
    backend = keras.config.backend()
    return backend == "torch" or (backend == "tensorflow" and dtype == "float32")


def fused_adam(variables, momentums, velocities, gradients, rate, beta_1, beta_2, epsilon):
    """Updates variables and moments in place, each read and written once.

    Args:
        variables: list of what is trained, Keras variables or the backend's own.
        momentums, velocities: lists of the Keras variables of their moments.
        gradients: list of tensors. rate: float32 scalar, the moments' corrections included.
        beta_1, beta_2, epsilon: float.
    """
    values = [each.value if isinstance(each, keras.Variable) else each for each in variables]
    momentums = [momentum.value for momentum in momentums]
    velocities = [velocity.value for velocity in velocities]
    update = _torch_adam if keras.config.backend() == "torch" else _tensorflow_adam
    update(values, momentums, velocities, gradients, rate, beta_1, beta_2, epsilon)


def _tensorflow_adam(variables, momentums, velocities, gradients, rate, beta_1, beta_2, epsilon):
    import tensorflow as tf

    for variable, momentum, velocity, gradient in zip(
        variables, momentums, velocities, gradients, strict=True
    ):
        dtype = variable.dtype
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=momentum.handle,
            v=velocity.handle,
            beta1_power=tf.zeros((), dtype),  # `rate` has the corrections
            beta2_power=tf.zeros((), dtype),
            lr=tf.cast(rate, dtype),
            beta1=tf.constant(beta_1, dtype),
            beta2=tf.constant(beta_2, dtype),
            epsilon=tf.constant(epsilon, dtype),
            grad=tf.cast(tf.convert_to_tensor(gradient), dtype),
        )


def _torch_adam(variables, momentums, velocities, gradients, rate, beta_1, beta_2, epsilon):
    import torch
    from torch.optim.adam import adam

    # So late a step has no corrections of its own: `rate` has them.
    late = torch.full((), 1e9, device=variables[0].device)
    with torch.no_grad():
        adam(
            variables,
            [
                gradient.to(variable.dtype).contiguous()
                for gradient, variable in zip(gradients, variables, strict=True)
            ],
            momentums,
            velocities,
            [],
            [late.clone() for _ in variables],
            fused=True,
            amsgrad=False,
            beta1=beta_1,
            beta2=beta_2,
            lr=rate,
            weight_decay=0.0,
            eps=epsilon,
            maximize=False,
        )
