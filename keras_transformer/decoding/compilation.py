"""Compiles a pure function over a model, once a choice of settings and a shape of arguments.

What is compiled is kept beside the model, not in it, for as long as the model lives.
"""

import weakref

import keras
from keras import ops

from keras_transformer.decoding.recorded_steps import RecordedModel

_functions = weakref.WeakKeyDictionary()


def compiled(model, function, **choices):
    """Returns `function(model, *arguments, **choices)` compiled, a callable of the arguments.

    Args:
        model: object that the function reads. Its weights are those in `model.variables`, where it
            has them; the function sees the values that they have at the time of each call.
        function: pure function of tensors.
        **choices: hashable settings that change what is computed, not only with which numbers.
    """
    functions = _functions.setdefault(model, {})
    key = (function, tuple(sorted(choices.items())))
    if key not in functions:
        functions[key] = CompiledFunction(model, function, choices)
    return functions[key]


def count_traces(model):
    """Returns how many times functions over `model` were traced, each of which is a compilation."""
    return sum(function.traces for function in _functions.get(model, {}).values())


def _is_no_warning_of_traces(record):
    return "CompiledFunction._trace" not in record.getMessage()


class CompiledFunction:
    """A callable of nested arrays, compiled once for each set of shapes.

    `tf.function` through XLA on TensorFlow, `jax.jit` on JAX with the model's variables as
    arguments; on torch the plain function without gradients, over the model's recorded steps. It
    does not keep the model alive.
    """

    def __init__(self, model, function, choices):
        self.traces = 0
        self._model = weakref.ref(model)
        self._function = function
        self._choices = choices
        backend = {
            "tensorflow": self._for_tensorflow,
            "jax": self._for_jax,
            "torch": self._for_torch,
        }
        self._compiled = backend[keras.config.backend()]()

    def __call__(self, *arguments):
        return self._compiled(*keras.tree.map_structure(ops.convert_to_tensor, arguments))

    def _run(self, *arguments):
        return self._function(self._model(), *arguments, **self._choices)

    def _trace(self, *arguments):
        self.traces += 1
        return self._run(*arguments)

    def _for_tensorflow(self):
        import tensorflow as tf

        # A trace for each shape is what is meant; TensorFlow would warn of the fifth.
        tf.get_logger().addFilter(_is_no_warning_of_traces)
        read, function = None, None

        def run(*arguments):
            nonlocal read, function
            variables = list(self._variables())
            # Values are looked up at each call, but the variables were at the trace; `quantize`
            # puts others in their place.
            if function is None or [*map(id, read)] != [*map(id, variables)]:
                jit_compile = getattr(self._model(), "supports_jit", True)
                function = tf.function(self._trace, autograph=False, jit_compile=jit_compile)
                read = variables
            return function(*arguments)

        return run

    def _for_jax(self):
        import jax

        @jax.jit
        def run(values, arguments):
            mapping = list(zip(self._variables(), values, strict=True))
            with keras.StatelessScope(state_mapping=mapping):
                return self._trace(*arguments)

        return lambda *arguments: run([each.value for each in self._variables()], arguments)

    def _variables(self):
        return getattr(self._model(), "variables", ())

    def _for_torch(self):
        import torch

        records = {}

        def count():
            self.traces += 1

        @torch.no_grad()
        def run(*arguments):
            model = RecordedModel(self._model(), records, count)
            return self._function(model, *arguments, **self._choices)

        return run
