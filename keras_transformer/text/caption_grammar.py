"""A synchronous grammar that writes captions in English and German side by side."""

import random
import zlib

from keras_transformer.arguments import check_positive, is_integer
from keras_transformer.text.captions.nouns import ADJECTIVES, GROUPS
from keras_transformer.text.captions.verbs import LOCATIONS, TRANSITIVE
from keras_transformer.text.captions.writer import Writer

SPLITS = ("train", "val", "test")
_TEST_PERCENT = 4
_VALIDATION_PERCENT = 4
_SHORTEST, _LONGEST = 5, 18  # words

_WITHOUT_ARTICLE = ("substances", "family")  # cold water, his brother
_PLAIN_ACCUSATIVE = tuple(
    verb
    for verb in TRANSITIVE
    if verb.case == "accusative" and not verb.preposition and verb.base != "wear"
)


class CaptionGrammar:
    """Endless parallel captions: an English sentence and its one German translation.

    The grammar is a function from English to German: a clause is drawn from a lexicon of about
    220 nouns and 130 verbs and written in both languages, with agreement of case, gender and
    number, adjective endings, verb-second and verb-final order, separable and reflexive verbs,
    relative clauses and the order time, manner, place.

    Every (subject noun, verb, complement noun) and every (adjective, noun) belongs to one
    split, by a hash that no seed changes. A training sentence holds only combinations of the
    training part; a test sentence holds at least one of the test part, so that no training set,
    whatever its seed, has seen it.

    Args:
        seed: int. Seed of `pairs` where the call gives none.

    Example:

    >>> from keras_transformer.text import CaptionGrammar
    >>> english, german = CaptionGrammar(seed=0).pairs(100, split="train")
    >>> len(english), len(german)
    (100, 100)
    """

    def __init__(self, seed=0):
        self.seed = _checked_seed(seed)

    def pairs(self, count, split="train", seed=None):
        """Distinct pairs of one split.

        Args:
            count: int, how many.
            split: "train", "val" or "test".
            seed: int. The grammar's own when None; the same seed gives the same pairs.

        Returns:
            Two lists of `count` strings, English and German, line by line translations.

        Raises:
            ValueError: an unknown split, a count below one, a seed that is no integer.
        """
        if split not in SPLITS:
            raise ValueError(f"`split` must be one of {SPLITS}; got {split!r}.")
        check_positive(count=count)
        seed = self.seed if seed is None else _checked_seed(seed)
        writer = Writer(random.Random(f"{split} {seed}"))
        found = {}
        while len(found) < count:
            english, german, combinations = writer.write()
            if split_of(combinations) != split:
                continue
            if all(_SHORTEST <= len(text.split()) <= _LONGEST for text in (english, german)):
                found.setdefault(english, german)
        return list(found), list(found.values())

    def count(self):
        """A lower bound on the number of distinct pairs, counted from the lexicon.

        It counts one pattern alone: "A (or the) ADJECTIVE PERSON is VERBing a (or the) OBJECT
        PREPOSITION a (or the) PLACE." No two choices of words read the same.
        """
        subjects = 2 * len(GROUPS["people"]) * len(ADJECTIVES["people"])
        objects = sum(
            2 * sum(noun.group not in _WITHOUT_ARTICLE for noun in verb.objects)
            for verb in _PLAIN_ACCUSATIVE
        )
        return subjects * objects * 2 * len(LOCATIONS)


def _checked_seed(seed):
    if not is_integer(seed):
        raise ValueError(f"`seed` must be an integer; got {seed!r}. Pass for example 0.")
    return seed


def split_of(combinations):
    """The split that a sentence with these word combinations belongs to.

    Args:
        combinations: iterable of strings.

    Returns:
        "test" if any is held out for testing, else "val" if any is held out for validation,
        else "train".
    """
    shares = [zlib.crc32(combination.encode()) % 100 for combination in combinations]
    lowest = min(shares)
    if lowest < _TEST_PERCENT:
        return "test"
    return "val" if lowest < _TEST_PERCENT + _VALIDATION_PERCENT else "train"
