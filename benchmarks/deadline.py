"""The same time for every contender."""

import time

import keras


class Deadline(keras.callbacks.Callback):
    """Ends training after some seconds, counted from the end of the first step, which compiles."""

    def __init__(self, name, seconds, log_every=15.0):
        super().__init__()
        self.name = name
        self.seconds = seconds
        self.log_every = log_every
        self.steps = -1  # after the first
        self.spent = self.shown = 0.0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if not self.steps:
            self.started = time.perf_counter()
        self.spent = time.perf_counter() - self.started
        self.model.stop_training = self.steps > 0 and self.spent >= self.seconds
        if self.model.stop_training or self.spent >= self.shown + self.log_every:
            self.shown = self.spent
            left = max(self.seconds - self.spent, 0)
            print(
                f"{self.name}: step {self.steps}, loss {logs['loss']:.3f}, {left:.0f} s left",
                flush=True,
            )
