"""Ten steps of `fit` on some devices, in a process of its own: `distributed_fit.py DEVICES FILE`.

Weights, metrics and predictions go to FILE as .npz. Rows are ordered so that some replicas get the
long sentences: the tokens are spread unevenly. Ten rows are then scored and predicted by four, so
that the last batch is half one. JAX cannot cut two rows in four and says so: there they are eight.
"""

import os
import sys

DEVICES = int(sys.argv[1])
if os.environ["KERAS_BACKEND"] == "jax":
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={DEVICES}"

import keras  # noqa: E402  the devices are counted first
import numpy as np  # noqa: E402

from keras_transformer.models import Transformer  # noqa: E402
from keras_transformer.training import (  # noqa: E402
    Adam,
    Perplexity,
    SequenceCrossentropy,
    TokenAccuracy,
)


def build():
    keras.utils.set_random_seed(7)
    model = Transformer(31, 1, 8, 2, 16, dropout=0.0)
    # A regularizer, whose penalty no replica may count twice.
    embedding = model.get_layer("embedding")
    embedding.embeddings.regularizer = keras.regularizers.L2(1e-3)
    model.compile(
        Adam(0.1, epsilon=0.1),  # so great that rounding errors stay small
        SequenceCrossentropy(0.1),
        metrics=[TokenAccuracy(), Perplexity()],
    )
    return model


def batches():
    random = np.random.default_rng(3)
    source = random.integers(4, 31, (40, 5)).astype("int32")
    labels = random.integers(4, 31, (40, 7)).astype("int32")
    for row in range(40):
        # In a batch of 4, the first two rows are long and the last two short.
        labels[row, 7 if row % 4 < 2 else 1 + row % 3 :] = 0
    target = np.concatenate([np.full((40, 1), 2, "int32"), labels[:, :-1]], axis=1)
    return {"source": source, "target": target}, labels


def on_devices():
    if DEVICES == 1:
        return build()
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * DEVICES
        )
        names = [device.name for device in tf.config.list_logical_devices("CPU")]
        with tf.distribute.MirroredStrategy(names).scope():
            return build()
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    return build()


def first(rows, inputs, labels):
    return {name: each[:rows] for name, each in inputs.items()}, labels[:rows]


def refusal(model, inputs, labels):
    try:
        model.evaluate(inputs, labels, batch_size=4, verbose=0)
    except ValueError as error:
        return str(error)
    return ""


def main():
    model = on_devices()
    inputs, labels = batches()
    history = model.fit(inputs, labels, batch_size=4, epochs=1, shuffle=False, verbose=0).history
    numbers = {f"fit_{name}": values[-1] for name, values in history.items()}
    indivisible = DEVICES == 4 and keras.config.backend() == "jax"
    inputs, labels = first(8 if indivisible else 10, inputs, labels)
    scores = model.evaluate(inputs, labels, batch_size=4, verbose=0, return_dict=True)
    numbers |= {f"evaluate_{name}": value for name, value in scores.items()}
    numbers["predictions"] = model.predict(inputs, batch_size=4, verbose=0)
    weights = {
        f"weight_{index}": keras.ops.convert_to_numpy(variable.value)
        for index, variable in enumerate(model.trainable_variables)
    }
    if indivisible:  # last: Keras leaves a model without its weights where this fails
        numbers["refused"] = refusal(model, *first(10, *batches()))
    np.savez(sys.argv[2], **numbers, **weights)


if __name__ == "__main__":
    main()
