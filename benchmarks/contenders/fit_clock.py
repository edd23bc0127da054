"""How long the steps of a Keras `fit` take."""

import time

import keras


class FitClock(keras.callbacks.Callback):
    """Times a `fit` from its begin to the end of its last step.

    On TensorFlow an epoch of a Keras model ends later, when the tuner of its data pipeline next
    wakes: 10, 20, 40, ... ms after one another. A `SequenceModel` has no such tuner; in a turn of a
    few steps the wait would be counted to the other library's.

    Attributes:
        seconds: of the last `fit`.
    """

    def on_train_begin(self, logs=None):
        self._begin = time.perf_counter()

    def on_train_end(self, logs=None):
        self.seconds = time.perf_counter() - self._begin
