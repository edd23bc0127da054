"""One call that checks a layer whole: shapes, specs, dtypes, masks, config, file, training."""

import inspect
import warnings

import keras
import numpy as np
from keras import ops

from keras_transformer.ops.backend import get_keras_mask, set_keras_mask

HALVES = ("mixed_bfloat16", "mixed_float16")


def check_layer(cls, arguments, inputs, output_shape, folder, call=None, keeps_mask=True):
    """Checks everything that every layer owes.

    Args:
        cls: the class. arguments: dict, of its `__init__`.
        inputs: numpy array (B, T, ...), int ids or float vectors.
        output_shape: tuple, of the (first) output.
        folder: path, for a file.
        call: function of (layer, inputs), `layer(inputs)` by default.
        keeps_mask: whether the output carries the mask of the input.
    """
    call = call or (lambda layer, inputs: layer(inputs))
    layer = cls(**arguments)
    check_config(layer)
    outputs = call(layer, ops.convert_to_tensor(inputs))
    assert tuple(outputs.shape) == output_shape
    check_symbolic(layer, call, inputs, output_shape)
    check_half_precision(cls, arguments, call, inputs)
    if keeps_mask:
        check_mask(layer, call, inputs)
    check_file(layer, call, inputs, folder)
    check_training(layer, call, inputs, output_shape)


def check_config(layer):
    """Every `__init__` argument is an attribute and in the config, which round-trips exactly."""
    config = layer.get_config()
    for name in init_arguments(type(layer)):
        assert hasattr(layer, name), f"{type(layer).__name__} has no attribute {name}"
        assert name in config, f"{type(layer).__name__} leaves {name} out of its config"
    again = type(layer).from_config(config)
    assert again.get_config() == config
    by_keras = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(by_keras) is type(layer) and by_keras.get_config() == config


def init_arguments(cls):
    """Returns the names of the arguments that a class adds to those of Keras's `Layer`."""
    if cls.__init__ is keras.layers.Layer.__init__:
        return []
    parameters = inspect.signature(cls.__init__).parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each.name for each in parameters if each.kind in named and each.name != "self"]


def check_symbolic(layer, call, inputs, output_shape):
    """Known sizes stay known and unknown ones unknown."""
    dtype = str(inputs.dtype)
    known = keras.KerasTensor(inputs.shape, dtype)
    assert call(layer, known).shape == output_shape
    unknown = keras.Input((None, *inputs.shape[2:]), dtype=dtype)
    assert call(layer, unknown).shape == (None, None, *output_shape[2:])


def check_half_precision(cls, arguments, call, inputs):
    for dtype in HALVES:
        layer = cls(**arguments, dtype=dtype)
        outputs = call(layer, ops.convert_to_tensor(inputs))
        assert keras.backend.standardize_dtype(outputs.dtype) == dtype.removeprefix("mixed_")
        assert np.all(np.isfinite(ops.convert_to_numpy(ops.cast(outputs, "float32"))))
        assert {each.dtype for each in layer.trainable_variables} <= {"float32"}


def check_mask(layer, call, inputs):
    tensor = ops.convert_to_tensor(inputs)
    mask = ops.convert_to_tensor(np.arange(inputs.shape[1]) < np.full((len(inputs), 1), 2))
    set_keras_mask(tensor, mask)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*mask.*")
        found = get_keras_mask(call(layer, tensor))
    assert found is not None
    np.testing.assert_array_equal(*map(ops.convert_to_numpy, (found, mask)))


def functional(layer, call, inputs):
    symbolic = keras.Input((None, *inputs.shape[2:]), dtype=str(inputs.dtype))
    return keras.Model(symbolic, call(layer, symbolic))


def check_file(layer, call, inputs, folder):
    model = functional(layer, call, inputs)
    path = folder / f"{layer.name}.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert [each.shape for each in loaded.variables] == [each.shape for each in model.variables]
    before, after = (
        ops.convert_to_numpy(each(ops.convert_to_tensor(inputs))) for each in (model, loaded)
    )
    np.testing.assert_array_equal(before, after)


def check_training(layer, call, inputs, output_shape):
    model = functional(layer, call, inputs)
    before = model.get_weights()
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=keras.config.backend() == "jax")
    targets = np.random.default_rng(0).normal(size=output_shape)
    loss = model.train_on_batch(inputs, targets)
    assert np.isfinite(loss)
    for weight, value in zip(model.weights, before, strict=True):
        if weight.trainable:
            after = ops.convert_to_numpy(weight.value)
            assert np.all(np.isfinite(after)), weight.path
            # What is added to all keys alike changes no attention.
            if not weight.path.endswith("key/bias"):
                assert not np.array_equal(after, value), f"{weight.path} was not trained"
