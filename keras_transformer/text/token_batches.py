"""Batches of about the same number of tokens, from sentences of like length."""

import numbers

import keras
import numpy as np

from keras_transformer.arguments import check_from_zero, check_positive, is_integer
from keras_transformer.text.epoch_remainder import EpochRemainder
from keras_transformer.text.keras_hub_tokenizer import as_tokenizer
from keras_transformer.text.length_buckets import epoch_order, make_buckets
from keras_transformer.text.ragged_ids import encode_pairs


class TokenBatches(keras.utils.PyDataset):
    """Batches of sentence pairs for `fit`, with a budget in tokens that counts padding.

    Sentences of like length come together, as in the paper (section 5.1): a batch of width W has R
    rows of source and of target, with `R * W <= tokens_per_batch`. There are few widths, and every
    batch of a width has the same number of rows, so that a compiled training step is reused; the
    last batch of a width may have empty rows (padding alone, weight 0). Every pair comes once an
    epoch. A batch is

        ({"source": source, "target": target}, labels, weights)

    of int32 arrays (weights: float32), all (R, W): a source row is `ids + [end]`, a target row
    `[start] + ids`, its labels `ids + [end]`, and weights are 1 on labels and 0 on padding. Of an
    empty sentence, `end` or `start` alone remains.

    The order is a pure function of seed and epoch: `batches.at(epoch, index)` gives any batch, and
    `batches[index]` one of the present `epoch`, which goes up by one at the end of a pass in which
    every batch was asked for. Pass `shuffle=False` to `fit`: Keras else shuffles the batches once
    more, by the global random state.

    Args:
        corpus: `ParallelCorpus`, or an iterable of `(source, target)` pairs, of strings or of
            sequences of ids (without special ids).
        tokenizer: `SubwordTokenizer`; one of KerasHub's, in a `KerasHubTokenizer` unless it names
            its special ids itself; or an object with `tokenize`, `vocabulary_size`, `pad_id`,
            `start_id` and `end_id`.
        tokens_per_batch: int, the budget of source tokens and, apart, of target tokens.
        max_length: optional int, the longest source or target row, counting `start` or `end`. By
            default what the budget allows, `tokens_per_batch // rows_multiple`.
        length_step: int, widths are multiples of it, and each is at least an eighth above the one
            before. Less makes for less padding and more shapes.
        rows_multiple: int, rows are a multiple of it: the number of devices that share a batch.
        shuffle: bool, whether epochs differ in order; else the order of the corpus within a width,
            from narrow to wide (the second batch may stand out of line, see `epoch_order`).
        seed: int, seeds the order.
        too_long: "skip" leaves out pairs longer than `max_length` and counts them in `skipped`;
            "error" raises a ValueError for the first one.

    Attributes:
        epoch: int, the epoch that `batches[index]` is of; set it to start from another one.
        num_sentences: int, pairs in an epoch.
        num_tokens: int, real target tokens (labels) in an epoch, with one end a sentence.
        skipped: int, pairs that were left out as too long.
        distinct_shapes: tuple of `(rows, width)`, narrow to wide.
        padding_share: float, the share of source and target positions that is padding.

    Raises:
        ValueError: for a wrong argument, an empty corpus, ids that are not in the vocabulary, or
            when every pair is too long.

    Example:

    >>> from keras_transformer.text import ParallelCorpus, SubwordTokenizer, TokenBatches
    >>> corpus = ParallelCorpus(["a dog runs", "a cat"], ["ein Hund rennt", "eine Katze"])
    >>> tokenizer = SubwordTokenizer.train(corpus.sources + corpus.targets, vocabulary_size=25)
    >>> batches = TokenBatches(corpus, tokenizer, tokens_per_batch=64)
    >>> inputs, labels, weights = batches[0]
    >>> inputs["source"].shape == labels.shape
    True
    """

    def __init__(
        self,
        corpus,
        tokenizer,
        tokens_per_batch=4096,
        *,
        max_length=None,
        length_step=4,
        rows_multiple=1,
        shuffle=True,
        seed=0,
        too_long="skip",
    ):
        super().__init__()
        check_positive(tokens_per_batch=tokens_per_batch, length_step=length_step)
        _check_within("rows_multiple", rows_multiple, 1, tokens_per_batch)
        check_from_zero(seed=seed)
        limit = tokens_per_batch // rows_multiple
        if max_length is not None:
            _check_within("max_length", max_length, 1, limit)
            limit = max_length
        if too_long not in ("skip", "error"):
            raise ValueError(f'`too_long` must be "skip" or "error"; got {too_long!r}.')
        self.tokenizer = tokenizer = as_tokenizer(tokenizer)
        _check_tokenizer(tokenizer)
        self.tokens_per_batch = tokens_per_batch
        self.max_length = limit
        self.length_step = length_step
        self.rows_multiple = rows_multiple
        self.shuffle = shuffle
        self.seed = seed
        self.too_long = too_long
        self._sources, self._targets = encode_pairs(corpus, tokenizer)
        lengths = np.maximum(self._sources.lengths, self._targets.lengths - 1)
        self._kept = self._fitting(lengths)
        self._buckets = make_buckets(
            lengths[self._kept], tokens_per_batch, length_step, rows_multiple, limit
        )
        self._order = (None, None, None)
        self._in_pass = False
        self.epoch = 0

    @property
    def epoch(self):
        return self._epoch

    @epoch.setter
    def epoch(self, epoch):
        check_from_zero(epoch=epoch)
        self._epoch = epoch
        self._asked_for = set()

    @property
    def num_sentences(self):
        return len(self._kept)

    @property
    def num_tokens(self):
        return int(self._targets.lengths[self._kept].sum()) - self.num_sentences

    @property
    def skipped(self):
        return len(self._sources) - self.num_sentences

    @property
    def distinct_shapes(self):
        rows, widths = self._buckets.rows.tolist(), self._buckets.widths.tolist()
        return tuple(zip(rows, widths, strict=True))

    @property
    def padding_share(self):
        buckets = self._buckets
        positions = 2 * int((buckets.num_batches * buckets.rows * buckets.widths).sum())
        return 1 - (self.num_tokens + int(self._sources.lengths[self._kept].sum())) / positions

    def summary(self):
        """Returns a few lines on what an epoch holds and what was left out."""
        skipped = f", {self.skipped} skipped (longer than {self.max_length} tokens)"
        return "\n".join(
            [
                f"{self.num_sentences} sentence pairs{skipped if self.skipped else ''}",
                f"{self.num_tokens} target tokens an epoch, in {len(self)} batches of at most "
                f"{self.tokens_per_batch}, {100 * self.padding_share:.1f} % padding",
                f"{len(self.distinct_shapes)} shapes, rows x width: "
                + ", ".join(f"{rows} x {width}" for rows, width in self.distinct_shapes),
            ]
        )

    def __len__(self):
        return int(self._buckets.num_batches.sum())

    def __getitem__(self, index):
        batch = self.at(self._epoch, index)
        if self._in_pass:
            self._asked_for.add(index)
        return batch

    def at(self, epoch, index):
        """Returns batch `index` of epoch `epoch`."""
        index = range(len(self))[index]
        sentences, order = self._order_of(epoch)
        buckets = self._buckets
        last = np.cumsum(buckets.num_batches)
        bucket = int(np.searchsorted(last, order[index], side="right"))
        rows, width = int(buckets.rows[bucket]), int(buckets.widths[bucket])
        end = int(buckets.counts[: bucket + 1].sum())
        start = end - int(buckets.counts[bucket])
        start += int(order[index] - last[bucket] + buckets.num_batches[bucket]) * rows
        return self._batch(self._kept[sentences[start : min(start + rows, end)]], rows, width)

    def remainder(self, epoch, start):
        """Returns the batches of an epoch from number `start` on, a dataset for one pass of `fit`.

        A run that stopped in epoch 3 after 250 batches goes on with

            model.fit(batches.remainder(3, 250), initial_epoch=3, epochs=4, shuffle=False)
            batches.epoch = 4
            model.fit(batches, initial_epoch=4, epochs=10, shuffle=False)

        Raises:
            ValueError: if the epoch has no batch `start`.
        """
        check_from_zero(epoch=epoch)
        _check_within("start", start, 0, len(self) - 1)
        return EpochRemainder(self, epoch, start)

    def on_epoch_begin(self):
        self._in_pass = True

    def on_epoch_end(self):
        # Keras also calls this before the first pass, and after a single batch that builds a model.
        if self._in_pass and len(self._asked_for) == len(self):
            self.epoch += 1
        self._in_pass = False

    def _fitting(self, lengths):
        """Returns the numbers of the pairs that are not too long."""
        kept = np.flatnonzero(lengths <= self.max_length)
        if len(kept) == len(lengths):
            return kept
        longest = np.flatnonzero(lengths > self.max_length)
        if self.too_long == "error" or not len(kept):
            raise ValueError(
                f"`max_length` must be at least the length of the sentences; got {len(longest)} of "
                f"{len(lengths)} pairs with more than {self.max_length} tokens, the first at index "
                f"{longest[0]} with {lengths[longest[0]]}. Raise `max_length` or "
                "`tokens_per_batch`"
                + (', or pass too_long="skip".' if len(kept) else ": no sentence fits.")
            )
        return kept

    def _order_of(self, epoch):
        known, sentences, order = self._order
        if known != epoch:
            sentences, order = epoch_order(
                self._buckets, self.seed if self.shuffle else None, epoch
            )
            self._order = (epoch, sentences, order)
        return sentences, order

    def _batch(self, pairs, rows, width):
        pad = self.tokenizer.pad_id
        count = len(pairs)
        source, target, labels = np.full((3, rows, width), pad, np.int32)
        weights = np.zeros((rows, width), np.float32)
        columns = np.arange(width)
        real = columns < self._sources.lengths[pairs][:, None]
        source[:count][real] = self._sources.matrix(pairs, width)[real]
        real = columns < self._targets.lengths[pairs][:, None] - 1
        tokens = self._targets.matrix(pairs, width + 1)
        target[:count][real] = tokens[:, :-1][real]
        labels[:count][real] = tokens[:, 1:][real]
        weights[:count] = real
        return {"source": source, "target": target}, labels, weights


def _check_within(argument, value, least, most):
    if not is_integer(value) or not least <= value <= most:
        raise ValueError(
            f"`{argument}` must be an integer from {least} to {most}; got {value!r}. Pass one of "
            "them."
        )


def _check_tokenizer(tokenizer):
    names = ("vocabulary_size", "pad_id", "start_id", "end_id")
    wrong = [n for n in names if not isinstance(getattr(tokenizer, n, None), numbers.Integral)]
    if wrong or not callable(getattr(tokenizer, "tokenize", None)):
        raise ValueError(
            "`tokenizer` must have `tokenize` and the integers "
            f"{', '.join(names)}; got {type(tokenizer).__name__} without "
            f"{', '.join(wrong) or 'tokenize'}. Use a `SubwordTokenizer`."
        )
