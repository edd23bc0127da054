"""The rest of an epoch, for a run that goes on where it was stopped."""

import keras


class EpochRemainder(keras.utils.PyDataset):
    """The batches of one epoch from a given one on: what `TokenBatches.remainder` returns.

    For one pass of `fit`. While a pass runs, item `i` is batch `start + i` of the epoch. Before it
    runs, Keras's TensorFlow adapter looks at items 0 and 1 to learn which axes vary, and would
    refuse later batches of another width if these two happened to have the same. Outside a pass
    the two items therefore are the first two of the whole epoch, which differ if any do.

    Args:
        batches: `TokenBatches`.
        epoch: int, the epoch.
        start: int, the first batch that is left.
    """

    def __init__(self, batches, epoch, start):
        super().__init__()
        self.batches = batches
        self.epoch = epoch
        self.start = start
        self._in_pass = False

    def __len__(self):
        return len(self.batches) - self.start

    def __getitem__(self, index):
        index = range(len(self))[index]
        if self._in_pass or len(self) == 1:
            index += self.start
        return self.batches.at(self.epoch, index)

    def __iter__(self):
        for index in range(self.start, len(self.batches)):
            yield self.batches.at(self.epoch, index)

    def on_epoch_begin(self):
        self._in_pass = True

    def on_epoch_end(self):
        self._in_pass = False
