"""What a person watching a training run sees."""

import sys
import time

import keras


class ProgressLine(keras.callbacks.Callback):
    """One line that tells where training is: epoch, loss, tokens per second, time left.

    On a terminal the line is rewritten in place; elsewhere (a log file) a new one is written every
    `log_every` seconds. Every epoch leaves one line with all its numbers, the tokens per second of
    its training and the time with validation. Take `fit(verbose=0)`.

    Args:
        tokens_per_epoch: int, real target tokens in an epoch (`TokenBatches.num_tokens`).
        log_every: float, seconds between lines where the output is no terminal.
        stream: text file, standard output by default.

    >>> progress = ProgressLine(tokens_per_epoch=400_000)
    """

    def __init__(self, tokens_per_epoch, log_every=30.0, stream=None):
        super().__init__()
        if not tokens_per_epoch > 0:
            raise ValueError(
                f"`tokens_per_epoch` must be above 0; got {tokens_per_epoch!r}. "
                "Pass `batches.num_tokens`."
            )
        self.tokens_per_epoch = tokens_per_epoch
        self.log_every = log_every
        self.stream = stream or sys.stdout
        self.on_terminal = self.stream.isatty()

    def on_train_begin(self, logs=None):
        self.epochs_done = 0
        self.training_seconds = 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        self.started = self.shown = self.last_batch = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        now = self.last_batch = time.perf_counter()
        if now - self.shown < (0.5 if self.on_terminal else self.log_every):
            return
        self.shown = now
        steps = self.params["steps"] or batch + 1
        share = (batch + 1) / steps
        spent = now - self.started
        rate = self.tokens_per_epoch * share / spent
        epochs = self.params["epochs"]
        left = (self.training_seconds + spent) / (self.epochs_done + share)
        left *= epochs - self.epoch - share
        self._write(
            f"epoch {self.epoch + 1}/{epochs}  batch {batch + 1}/{steps}  {self._numbers(logs)}  "
            f"{rate:,.0f} tokens/s  {clock(left)} left",
            passing=True,
        )

    def on_epoch_end(self, epoch, logs=None):
        spent = time.perf_counter() - self.started
        self.epochs_done += 1
        self.training_seconds += spent
        left = self.training_seconds / self.epochs_done * (self.params["epochs"] - epoch - 1)
        if logs is not None:
            # What validation took, after the last batch, trained nothing.
            trained = self.last_batch - self.started or spent
            logs["tokens_per_second"] = self.tokens_per_epoch / trained
        self._write(
            f"epoch {epoch + 1}/{self.params['epochs']}  {self._numbers(logs)}  "
            f"{clock(spent)}, {clock(left)} left",
            passing=False,
        )

    @staticmethod
    def _numbers(logs):
        return "  ".join(
            f"{name} {value:,.0f}" if name == "tokens_per_second" else f"{name} {value:.3f}"
            for name, value in (logs or {}).items()
        )

    def _write(self, line, passing):
        if self.on_terminal:
            self.stream.write("\r\x1b[K" + line + ("" if passing else "\n"))
        else:
            self.stream.write(line + "\n")
        self.stream.flush()


def clock(seconds):
    """Returns seconds as h:mm:ss, or m:ss below an hour."""
    minutes, seconds = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
