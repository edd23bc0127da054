"""Sentences of ids of any length, kept end to end in one array."""

import itertools

import numpy as np

# Pairs that are lists of ids at a time. Small: Python's garbage collector walks through such lists.
_CHUNK = 1024


class RaggedIds:
    """Rows of ids of unequal length: one int32 array of all ids, and where each row starts.

    Args:
        chunks: iterable of `(values, lengths)` arrays, some rows each.
    """

    def __init__(self, chunks):
        values, lengths = zip(*chunks, strict=True)
        self.values = np.concatenate(values)
        self.lengths = np.concatenate(lengths)
        self.starts = np.cumsum(self.lengths) - self.lengths

    def __len__(self):
        return len(self.lengths)

    def matrix(self, rows, width):
        """Returns rows side by side, (len(rows), width); beyond a row's end come any ids."""
        positions = self.starts[rows][:, None] + np.arange(width)
        return self.values.take(positions, mode="clip")


def encode_pairs(pairs, tokenizer):
    """Turns pairs of sentences into ids with their special ids.

    Args:
        pairs: iterable of `(source, target)`, both strings or both sequences of ids.
        tokenizer: has `tokenize`, `vocabulary_size`, `pad_id`, `start_id` and `end_id`.

    Returns:
        Two `RaggedIds`: sources as `ids + [end]`, targets as `[start] + ids + [end]`.
    """
    if isinstance(pairs, str) or not hasattr(pairs, "__iter__"):
        raise ValueError(f"`corpus` must be a ParallelCorpus or iterable of pairs; got {pairs!r}.")
    sources, targets = [], []
    pairs = iter(pairs)
    count = 0
    while chunk := list(itertools.islice(pairs, _CHUNK)):
        source, target = _columns(chunk, count)
        sources.append(_encode(source, tokenizer, [], count))
        targets.append(_encode(target, tokenizer, [tokenizer.start_id], count))
        count += len(chunk)
    if not count:
        raise ValueError("`corpus` must hold at least one pair of sentences; got none.")
    return RaggedIds(sources), RaggedIds(targets)


def _columns(chunk, first):
    for number, pair in enumerate(chunk, start=first):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(
                f"`corpus` must hold (source, target) pairs; got {pair!r:.80} at index {number}."
            )
    return zip(*chunk, strict=True)


def _encode(sentences, tokenizer, prefix, first):
    """Returns (values, lengths) of `prefix + ids + [end]` for each sentence."""
    if isinstance(sentences[0], str):
        sentences = tokenizer.tokenize(list(sentences))
    else:
        _check_ids(sentences, tokenizer, first)
    rows = [[*prefix, *ids, tokenizer.end_id] for ids in sentences]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    values = np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(lengths.sum()))
    return values, lengths


def _check_ids(sentences, tokenizer, first):
    """Raises a ValueError that names the first sentence with an id that is none."""
    for number, ids in enumerate(sentences, start=first):
        if not hasattr(ids, "__len__"):
            raise ValueError(
                f"`corpus` must hold strings or sequences of ids; got {ids!r} in pair {number}."
            )
    values = np.asarray(list(itertools.chain.from_iterable(sentences)))
    size, pad = tokenizer.vocabulary_size, tokenizer.pad_id
    if not values.size:
        return
    if values.dtype.kind not in "iu":
        raise ValueError(f"`corpus` must hold strings or integer ids; got {values.dtype} values.")
    wrong = (values < 0) | (values >= size) | (values == pad)
    if wrong.any():
        position = int(wrong.argmax())
        ends = np.cumsum([len(ids) for ids in sentences])
        number = first + int(np.searchsorted(ends, position, side="right"))
        raise ValueError(
            f"ids in `corpus` must be in [0, {size}), the vocabulary, and not the padding {pad}; "
            f"got {values[position]} in pair {number}. Does the tokenizer belong to these ids?"
        )
