"""Sentences and their translations, pair by pair."""

import codecs
import gzip
import os
import zlib

import numpy as np


class ParallelCorpus:
    """Pairs of sentences: the n-th source and the n-th target are translations of each other.

    A sequence: `len(corpus)`, `corpus[3]` is a `(source, target)` pair, a slice is a corpus, and
    iteration gives the pairs. Blank sentences are kept, so that pairs keep their line numbers.

    Files are UTF-8 (a byte order mark is dropped), plain or gzip (a name that ends in `.gz`). Lines
    end at a line feed alone, or at a carriage return with a line feed; other Unicode separators are
    part of the sentence.

    Args:
        sources: list of str.
        targets: list of str of the same length.

    Attributes:
        sources: list of str.
        targets: list of str.

    Raises:
        ValueError: if the lists are empty, differ in length or hold something else than strings.

    Example:

    >>> from keras_transformer.text import ParallelCorpus
    >>> corpus = ParallelCorpus(["A dog.", "A cat."], ["Ein Hund.", "Eine Katze."])
    >>> corpus[1]
    ('A cat.', 'Eine Katze.')
    """

    def __init__(self, sources, targets):
        for argument, sentences in (("sources", sources), ("targets", targets)):
            if isinstance(sentences, str | bytes):
                raise ValueError(f"`{argument}` must be a list of strings; got one string.")
        self.sources = list(sources)
        self.targets = list(targets)
        if len(self.sources) != len(self.targets):
            raise ValueError(
                "`sources` and `targets` must have the same length; got "
                f"{len(self.sources)} and {len(self.targets)} sentences."
            )
        if not self.sources:
            raise ValueError("`sources` and `targets` must not be empty; got 0 pairs.")
        for argument, sentences in (("sources", self.sources), ("targets", self.targets)):
            for number, sentence in enumerate(sentences):
                if not isinstance(sentence, str):
                    raise ValueError(
                        f"`{argument}` must hold strings; got {sentence!r} at index {number}."
                    )

    @classmethod
    def from_files(cls, source, target):
        """Reads two files, line n of one the translation of line n of the other.

        Args:
            source: path of the source sentences.
            target: path of the target sentences.

        Raises:
            ValueError: if a file is missing, empty, no gzip or no UTF-8 (with the line number), or
                if the numbers of lines differ.
        """
        sources = _read_lines(source, "source")
        targets = _read_lines(target, "target")
        if len(sources) != len(targets):
            raise ValueError(
                "`source` and `target` must have the same number of lines; got "
                f"{len(sources)} in {source} and {len(targets)} in {target}."
            )
        return cls(sources, targets)

    @classmethod
    def from_pairs(cls, path, source_column=0, target_column=1):
        """Reads one file of pairs, a line each, in columns that tabs separate.

        Further columns are ignored: collections such as Tatoeba's put the author there.

        Args:
            path: path of the file.
            source_column: int, the column of the source sentence, counted from 0.
            target_column: int, the column of the target sentence.

        Raises:
            ValueError: if the file is missing, empty, no gzip or no UTF-8, or if a line has too few
                columns (with the line number).
        """
        columns = (source_column, target_column)
        if min(columns) < 0 or source_column == target_column:
            raise ValueError(
                "`source_column` and `target_column` must be two different columns, counted from "
                f"0; got {source_column!r} and {target_column!r}."
            )
        sources, targets = [], []
        for number, line in enumerate(_read_lines(path, "path"), start=1):
            cells = line.split("\t")
            if len(cells) <= max(columns):
                raise ValueError(
                    f"`path` must have at least {max(columns) + 1} columns, separated by tabs, on "
                    f"every line; got {len(cells)} on line {number} of {path}: {line[:60]!r}."
                )
            sources.append(cells[source_column])
            targets.append(cells[target_column])
        return cls(sources, targets)

    def split(self, held_out, seed=0):
        """Splits by source sentence: no source sentence is in both parts.

        One sentence often has several translations, on several lines; a split by line would test a
        model on sentences that it has been trained on.

        Args:
            held_out: int, number of different source sentences to hold out, with all their pairs.
            seed: int, chooses them.

        Returns:
            Two corpora, the larger part and the held out one, each in this corpus's order.

        Raises:
            ValueError: if `held_out` leaves no source sentence on one of the sides.
        """
        distinct = list(dict.fromkeys(self.sources))
        if not 0 < held_out < len(distinct):
            raise ValueError(
                "`held_out` must be above 0 and below the number of different source sentences, "
                f"{len(distinct)}; got {held_out!r}."
            )
        chosen = np.random.default_rng(seed).permutation(len(distinct))[:held_out]
        chosen = {distinct[index] for index in chosen}
        kept = [pair for pair in self if pair[0] not in chosen]
        held = [pair for pair in self if pair[0] in chosen]
        return ParallelCorpus(*zip(*kept, strict=True)), ParallelCorpus(*zip(*held, strict=True))

    def __len__(self):
        return len(self.sources)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return ParallelCorpus(self.sources[index], self.targets[index])
        return self.sources[index], self.targets[index]

    def __iter__(self):
        return zip(self.sources, self.targets, strict=True)


def _read_lines(path, argument):
    """Returns the lines of a UTF-8 file, without their ends."""
    if not os.path.isfile(path):
        raise ValueError(f"`{argument}` must be a file; there is no file {path}.")
    opener = gzip.open if os.fspath(path).endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            content = file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"`{argument}` must be a whole gzip file; got {path}: {error}.") from error
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"`{argument}` must be UTF-8; line {number} of {path} is not: {error.reason}."
        ) from error
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise ValueError(f"`{argument}` must hold sentences; {path} is empty.")
    return [line.removesuffix("\r") for line in lines]
