"""Checkpoints of a run, and the average of the last of them (section 6.1)."""

import os
import re
from pathlib import Path

import keras
import numpy as np

from keras_transformer.arguments import check_positive


class LastCheckpoints(keras.callbacks.Callback):
    """Writes the weights after every epoch and keeps the last ones, to average or go back to.

    The files are `epoch-0007.weights.h5` and so on; each is written under another name and renamed,
    so that a run that is killed leaves no half file.

    Args:
        folder: path, made if missing.
        keep: int, how many files to keep; the paper averages 5 of the base model and 20 of the big.

    Raises:
        ValueError: if `keep` is not a positive integer; when training begins, if the folder holds
            checkpoints of epochs that are still to come, for they are another run's.

    >>> checkpoints = LastCheckpoints("runs/captions", keep=10)   # doctest: +SKIP
    """

    def __init__(self, folder, keep=5):
        super().__init__()
        check_positive(keep=keep)
        self.folder = Path(folder)
        self.keep = keep

    def on_epoch_begin(self, epoch, logs=None):
        later = [path for path in self.paths() if epoch_of(path) > epoch]
        if later:
            raise ValueError(
                f"`folder` must hold no checkpoint of an epoch after {epoch}, where training "
                f"begins; {self.folder} holds {later[0].name}, of another run. Take another "
                "folder, or pass the run's `initial_epoch` to `fit` to go on with it."
            )

    def on_epoch_end(self, epoch, logs=None):
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"epoch-{epoch + 1:04}.weights.h5"
        unfinished = self.folder / f".unfinished-{os.getpid()}.weights.h5"
        self.model.save_weights(unfinished)
        unfinished.replace(path)
        for old in self.paths()[: -self.keep]:
            old.unlink()

    def paths(self):
        """Returns the files that are kept, oldest first."""
        return checkpoint_paths(self.folder)


def checkpoint_paths(folder):
    """Returns the checkpoints in a folder, oldest first."""
    return sorted(
        path
        for path in Path(folder).glob("epoch-*.weights.h5")
        if re.fullmatch(r"epoch-\d+\.weights\.h5", path.name)
    )


def epoch_of(path):
    """Returns the epoch, counted from 1, after which a checkpoint was written."""
    return int(path.name.split("-")[1].split(".")[0])


def average_checkpoints(model, paths):
    """Sets a model's weights to the mean of those in several files (section 6.1).

    The mean is taken in float64. Non-trainable state (seeds) is that of the last file.

    Args:
        model: a built `keras.Model` of the checkpoints' architecture. Its optimizer is left alone.
        paths: list of `.weights.h5` files, oldest first.

    Returns:
        The model.

    Raises:
        ValueError: if there is no path, or a file is missing.
    """
    paths = [Path(path) for path in paths]
    if not paths:
        raise ValueError("`paths` must name one checkpoint or more; got none.")
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise ValueError(f"`paths` must be files that exist; missing: {', '.join(missing)}.")
    variables = model.trainable_variables
    sums = [np.zeros(variable.shape, "float64") for variable in variables]
    for path in paths:
        model.load_weights(path)
        for total, variable in zip(sums, variables, strict=True):
            total += keras.ops.convert_to_numpy(variable)
    for total, variable in zip(sums, variables, strict=True):
        variable.assign(total / len(paths))
    return model
