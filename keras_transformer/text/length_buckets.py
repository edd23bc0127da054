"""Which sentences share a batch shape: arithmetic of lengths, widths and rows."""

from typing import NamedTuple

import numpy as np


class Buckets(NamedTuple):
    """Groups of sentences that are padded to one width, narrow to wide.

    Attributes:
        widths: int array, tokens in a padded row.
        rows: int array, rows of every batch of the bucket.
        counts: int array, sentences of the bucket.
        assignment: int16 array, the bucket of each sentence.
    """

    widths: np.ndarray
    rows: np.ndarray
    counts: np.ndarray
    assignment: np.ndarray

    @property
    def num_batches(self):
        """int array, batches of each bucket."""
        return -(-self.counts // self.rows)


def make_buckets(lengths, tokens_per_batch, length_step, rows_multiple, limit):
    """Groups sentences so that few shapes, few batches and little padding are needed.

    Widths are multiples of `length_step` (but never above `limit`), each at least an eighth above
    the one before as far as the longest sentence needs it. A width whose sentences can join those
    of the next wider one without one batch more does so: rare lengths get no shape of their own.
    The sentences of a bucket are spread evenly over as few batches as the budget allows, so that
    `rows * width <= tokens_per_batch` and few rows are empty.

    Args:
        lengths: int array, tokens of each sentence, between 1 and `limit`.
        tokens_per_batch: int.
        length_step: int.
        rows_multiple: int, every batch has a multiple of this number of rows.
        limit: int, longest width, at most `tokens_per_batch // rows_multiple`.

    Returns:
        `Buckets`.
    """
    grid = np.array(_width_grid(int(lengths.max()), length_step, limit))
    assignment = np.searchsorted(grid, lengths)
    capacity = tokens_per_batch // grid // rows_multiple * rows_multiple
    counts = np.bincount(assignment, minlength=len(grid))
    wider = _merge(counts, capacity)
    kept = np.unique(wider[counts > 0])
    assignment = np.searchsorted(kept, wider[assignment]).astype(np.int16)
    counts = np.bincount(assignment)
    num_batches = -(-counts // capacity[kept])
    rows = -(-counts // (num_batches * rows_multiple)) * rows_multiple
    return Buckets(grid[kept], rows, counts, assignment)


def epoch_order(buckets, seed, epoch):
    """Returns the order of an epoch, a pure function of seed and epoch.

    Args:
        buckets: `Buckets`.
        seed: int, or None for the order of the corpus, narrow buckets first.
        epoch: int.

    Returns:
        Two int arrays: the sentences, bucket after bucket, and the numbers of the batches (counted
        bucket after bucket) in the order in which they come. The first two batches differ in width
        if any do: Keras's TensorFlow adapter takes the shapes of all batches from these two.
    """
    num_sentences, num_batches = len(buckets.assignment), int(buckets.num_batches.sum())
    if seed is None:
        sentences, batches = np.arange(num_sentences), np.arange(num_batches)
    else:
        generator = np.random.default_rng([seed, epoch])
        sentences = generator.permutation(num_sentences)
        batches = generator.permutation(num_batches)
    sentences = sentences[np.argsort(buckets.assignment[sentences], kind="stable")]
    bucket = np.repeat(np.arange(len(buckets.widths)), buckets.num_batches)[batches]
    other = int((bucket != bucket[0]).argmax())
    if other > 1:
        batches[[1, other]] = batches[[other, 1]]
    return sentences, batches


def _width_grid(longest, step, limit):
    """Returns widths from `step` up to the first that holds `longest`."""
    top = min(-(-longest // step) * step, limit)
    widths = [min(step, top)]
    while widths[-1] < top:
        grown = -(-widths[-1] * 9 // (8 * step)) * step
        widths.append(min(max(grown, widths[-1] + step), top))
    return widths


def _merge(counts, capacity):
    """Returns, for each width, the index of the width whose batches its sentences join."""
    wider = np.arange(len(counts))
    used = np.flatnonzero(counts)
    carried = 0
    for here, after in zip(used[:-1], used[1:], strict=True):
        carried += counts[here]
        apart = -(-carried // capacity[here]) - (-counts[after] // capacity[after])
        joined = -(-(carried + counts[after]) // capacity[after])
        if joined <= apart:
            wider[wider == here] = after
        else:
            carried = 0
    return wider
