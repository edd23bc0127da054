"""The whole suite runs on the backend that KERAS_BACKEND names, one process a backend."""

import gc
import importlib
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# Tests compile much and run little: XLA's optimizations take longer than they save.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
# And the same again: JAX keeps what it compiled, for this run and the processes that it starts.
compilations = tempfile.TemporaryDirectory()
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", compilations.name)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import keras  # noqa: E402  the environment comes first
import pytest  # noqa: E402

BENCHMARKS = str(Path(__file__).parent.parent / "benchmarks")


@pytest.fixture(autouse=True)
def old_objects_at_rest():
    """Before a test what lives is taken out of the garbage collector's sight.

    A full collection looks at every object of every library and of all that was traced before,
    half a second late in a run, and Keras asks for one whenever a layer's attribute is deleted: it
    was a quarter of the run.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seeded():
    """Every test starts from the same random state and float32."""
    keras.utils.set_random_seed(1706)
    keras.config.set_dtype_policy("float32")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def gradients():
    """A function of (function of tensors, arrays, upstream) that returns (output, gradients).

    The gradients are those of sum(output x upstream) by each of the arrays.
    """
    return {"tensorflow": _by_tensorflow, "jax": _by_jax, "torch": _by_torch}[
        keras.config.backend()
    ]


def _by_tensorflow(function, arrays, upstream):
    import tensorflow as tf

    tensors = [tf.constant(array) for array in arrays]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        output = function(*tensors)
    found = tape.gradient(output, tensors, tf.constant(upstream))
    return output.numpy(), [tf.convert_to_tensor(each).numpy() for each in found]


def _by_jax(function, arrays, upstream):
    import jax

    # Tests compile much and run little.
    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def both(*arrays):
        output, pull_back = jax.vjp(function, *arrays)
        return output, pull_back(upstream)

    return both(*arrays)


def _by_torch(function, arrays, upstream):
    import torch

    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    output = function(*leaves)
    found = torch.autograd.grad(output, leaves, torch.tensor(upstream))
    return output.detach().numpy(), [each.numpy() for each in found]


@pytest.fixture
def benchmark(monkeypatch):
    """A function that imports a module of the benchmarks' folder by name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(BENCHMARKS):
            del sys.modules[name]
