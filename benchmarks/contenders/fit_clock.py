"""How long the steps of a Keras `fit` take."""

import time

import keras


class FitClock(keras.callbacks.Callback):
    """Times a `fit` from its begin to the end of its last step.

    On TensorFlow `fit` returns later: the tuner of the data pipeline looks at it 10, 20, 40, ... ms
    after one another and is not woken to end, so that a `fit` of 1.5 s returns after 2.56 s. It
    happens once a `fit`, to every Keras model, and would be counted to each of a few steps.

    Attributes:
        seconds: of the last `fit`.
    """

    def on_train_begin(self, logs=None):
        self._begin = time.perf_counter()

    def on_train_end(self, logs=None):
        self.seconds = time.perf_counter() - self._begin
