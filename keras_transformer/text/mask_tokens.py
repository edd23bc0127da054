"""Hiding tokens for a masked language model to guess (Devlin et al. 2019, section 3.1)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from keras_transformer.arguments import check_from_zero, check_number, check_positive, is_integer


class MaskedTokens(NamedTuple):
    """A batch for `models.MaskedLanguageModel`.

    Attributes:
        tokens: int32 (B, T), with some tokens hidden.
        labels: int32 (B, T), the tokens as they were.
        weights: float32 (B, T), 1 where the model is asked, 0 elsewhere.
    """

    tokens: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


def mask_tokens(
    tokens,
    *,
    mask_id,
    vocabulary_size,
    special_ids,
    seed,
    probability=0.15,
    mask_share=0.8,
    random_share=0.1,
    word_starts=None,
):
    """Chooses tokens to guess, and hides them: most by the mask, some by a random token.

    Of the n tokens of a row that are not special, round(probability n) are chosen, at least one
    unless the probability is 0. A chosen one becomes `mask_id` with probability `mask_share`, a
    random token that is not special with `random_share`, and otherwise stays, so that the model
    cannot trust what it sees.

    Args:
        tokens: int (B, T).
        mask_id: int, the id that hides. vocabulary_size: int.
        special_ids: ids that are neither chosen nor put in at random: padding, start, end, ...
        seed: int; the same seed gives the same choice.
        probability, mask_share, random_share: floats in [0, 1]; 0.15, 0.8 and 0.1 in BERT.
        word_starts: bool (B, T), True where a token begins a word: then words are chosen whole,
            until there are as many tokens or, with the last word, some more. None chooses single
            tokens.

    Returns:
        `MaskedTokens`

    Raises:
        ValueError: if an argument is outside its rule.

    >>> masked = mask_tokens([[2, 7, 8, 9, 3, 0]], mask_id=4, vocabulary_size=11,
    ...                      special_ids=[0, 1, 2, 3, 4], seed=1)
    >>> float(masked.weights.sum())
    1.0

    Reference: Devlin et al. 2019, section 3.1 and appendix A.1.
    """
    tokens = _matrix("tokens", tokens, "iu", "integers")
    _check(tokens, vocabulary_size, mask_id)
    _check_shares(probability, mask_share, random_share)
    check_from_zero(seed=seed)
    special_ids = _checked_special_ids(special_ids, mask_id, vocabulary_size)
    random = np.random.default_rng(seed)
    maskable = ~np.isin(tokens, special_ids)
    starts = _word_starts(word_starts, tokens.shape)
    chosen = np.zeros_like(maskable)
    for row, of_row in enumerate(maskable):
        chosen[row] = _chosen_in_row(random, of_row, starts[row], probability)
    ordinary = np.setdiff1d(np.arange(vocabulary_size), special_ids)
    fate = random.random(tokens.shape)
    hidden = np.where(chosen & (fate < mask_share), mask_id, tokens)
    swapped = chosen & (fate >= mask_share) & (fate < mask_share + random_share)
    hidden = np.where(swapped, random.choice(ordinary, tokens.shape), hidden)
    return MaskedTokens(hidden.astype("int32"), tokens.astype("int32"), chosen.astype("float32"))


def _chosen_in_row(random, maskable, starts, probability):
    """Returns bool (T,): which tokens of a row are chosen, words whole."""
    count = maskable.sum()
    wanted = max(1, round(probability * count)) if probability else 0
    words = np.cumsum(starts | ~maskable)  # a special token ends a word
    numbers, sizes = np.unique(words[maskable], return_counts=True)
    order = random.permutation(len(numbers))
    before = np.cumsum(sizes[order]) - sizes[order]
    return maskable & np.isin(words, numbers[order[before < wanted]])


def _matrix(name, rows, kinds, what):
    """Returns rows as an array; raises ValueError where they are no matrix of those kinds."""
    try:
        array = np.asarray(rows)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if array.ndim != 2 or array.dtype.kind not in kinds:
        raise ValueError(
            f"`{name}` must be {what} of shape (batch, length); got {rows!r:.60}. Pass such "
            "rows, padded to one length."
        )
    return array


def _word_starts(word_starts, shape):
    if word_starts is None:
        return np.ones(shape, "bool")
    starts = _matrix("word_starts", word_starts, "b", "booleans")
    if starts.shape != shape:
        raise ValueError(
            f"`word_starts` must have the shape of `tokens`, {shape}; got {starts.shape}. Give one "
            "for each token."
        )
    return starts


def _check(tokens, vocabulary_size, mask_id):
    check_positive(vocabulary_size=vocabulary_size)
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < vocabulary_size:
        raise ValueError(
            f"`tokens` must be in [0, vocabulary_size); got {tokens.min()} to {tokens.max()} with "
            f"{vocabulary_size}. Pass the tokenizer's size."
        )
    if not is_integer(mask_id) or not 0 <= mask_id < vocabulary_size:
        raise ValueError(
            f"`mask_id` must be in [0, {vocabulary_size}); got {mask_id}. Give the tokenizer a "
            "piece for it."
        )


def _checked_special_ids(special_ids, mask_id, vocabulary_size):
    """Returns the special ids and the mask's."""
    is_list = isinstance(special_ids, Iterable) and getattr(special_ids, "ndim", 1) == 1
    if not is_list or isinstance(special_ids, str | bytes):
        raise ValueError(
            f"`special_ids` must be integers in [0, {vocabulary_size}); got {special_ids!r}. Pass "
            "a list of them."
        )
    special_ids = [*special_ids, mask_id]
    for special in special_ids:
        if not is_integer(special) or not 0 <= special < vocabulary_size:
            raise ValueError(
                f"`special_ids` must be in [0, {vocabulary_size}); got {special!r}. Leave out what "
                "the tokenizer does not have."
            )
    if len(set(special_ids)) == vocabulary_size:
        raise ValueError(
            f"`special_ids` must leave some of the {vocabulary_size} ids of the vocabulary; got "
            "all of them. Name padding, start, end and the like alone."
        )
    return special_ids


def _check_shares(probability, mask_share, random_share):
    shares = {"probability": probability, "mask_share": mask_share, "random_share": random_share}
    for name, value in shares.items():
        check_number(name, value, "in [0, 1]", lambda share: 0 <= share <= 1)
    if mask_share + random_share > 1:
        raise ValueError(
            f"`mask_share` + `random_share` must be at most 1; got {mask_share} + {random_share}. "
            "The rest of the chosen tokens stay as they are."
        )
