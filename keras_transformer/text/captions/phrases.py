"""Noun phrases of the caption grammar, in English and in German.

German determiner, adjective and noun agree in case, gender and number: the determiner's kind
chooses the adjective's declension (weak after der, mixed after ein, strong alone or after zwei).
"""

from dataclasses import dataclass
from functools import cache

from keras_transformer.text.captions.nouns import Noun

GENDERS = ("m", "f", "n", "p")  # German plural has no gender: "p" stands beside the three


def _table(nominative, accusative, dative):
    rows = {"nominative": nominative, "accusative": accusative, "dative": dative}
    return {
        case: dict(zip(GENDERS, row.replace("-", "").split(" "), strict=True))
        for case, row in rows.items()
    }


_DEFINITE = _table("der die das die", "den die das die", "dem der dem den")
RELATIVE_PRONOUNS = _table("der die das die", "den die das die", "dem der dem denen")
_INDEFINITE = _table("- e - e", "en e - e", "em er em en")  # after ein-, sein-, ihr-
_POINTING = _table("er e es e", "en e es e", "em er em en")  # after dies-, viel-
_ENDINGS = {
    "weak": _table("e e e en", "en e e en", "en en en en"),
    "mixed": _table("er e es en", "en e es en", "en en en en"),
    "strong": _table("er e es e", "en e es e", "em er em en"),
}
_PRONOUNS = {"m": "er", "f": "sie", "n": "es", "p": "sie"}
_CONTRACTIONS = {
    "in dem": "im",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "in das": "ins",
    "an das": "ans",
}
_NOT_VOWELS = ("uniform",)  # spelled with a vowel, spoken with a consonant


class Determiner:
    """A determiner: its English word, its German forms and the declension it asks for."""

    def __init__(self, english, stem, endings, declension, plural, definite):
        self.english = english
        self.declension = declension
        self.plural = plural
        self.definite = definite
        self._forms = {
            (case, gender): stem + endings[case][gender] for case in _DEFINITE for gender in GENDERS
        }

    def german(self, case, gender):
        return self._forms[case, gender]


_BARE = _table("- - - -", "- - - -", "- - - -")
DETERMINERS = {
    "a": Determiner("a", "ein", _INDEFINITE, "mixed", False, False),
    "the": Determiner("the", "", _DEFINITE, "weak", False, True),
    "this": Determiner("this", "dies", _POINTING, "weak", False, True),
    "every": Determiner("every", "jed", _POINTING, "weak", False, True),
    "mass": Determiner("", "", _BARE, "strong", False, False),
    "plural": Determiner("", "", _BARE, "strong", True, False),
    "the plural": Determiner("the", "", _DEFINITE, "weak", True, True),
    "these": Determiner("these", "dies", _POINTING, "weak", True, True),
    "both": Determiner("both", "beid", _POINTING, "weak", True, True),
    "two": Determiner("two", "zwei", _BARE, "strong", True, False),
    "three": Determiner("three", "drei", _BARE, "strong", True, False),
    "four": Determiner("four", "vier", _BARE, "strong", True, False),
    "some": Determiner("some", "einig", _POINTING, "strong", True, False),
    "many": Determiner("many", "viel", _POINTING, "strong", True, False),
    "several": Determiner("several", "mehrer", _POINTING, "strong", True, False),
}


@cache
def _possessive(english, stem, plural):
    return Determiner(english, stem, _INDEFINITE, "mixed", plural, True)


def possessive(owner, plural=False):
    """The determiner "his, her, its, their" that belongs to a subject.

    English looks at the person (the girl: her), German at the noun (das Mädchen: sein).
    """
    english = {"he": "his", "she": "her", "it": "its", "they": "their"}[owner.pronoun]
    return _possessive(english, "ihr" if owner.gender in "fp" else "sein", plural)


@cache
def _english_phrase(noun, determiner, adjective):
    head = noun.plural if determiner.plural else noun.singular
    words = [word for word in (adjective and adjective[0], head) if word]
    if determiner.english == "a":
        vowel = words[0][0] in "aeiou" and words[0] not in _NOT_VOWELS
        words.insert(0, "an" if vowel else "a")
    elif determiner.english:
        words.insert(0, determiner.english)
    return " ".join(words)


def _german_noun(noun, plural, case):
    if not plural:
        return noun.german_singular if case == "nominative" else noun.german_oblique
    if case == "dative" and noun.german_plural[-1] not in "ns":
        return noun.german_plural + "n"
    return noun.german_plural


@cache
def _german_phrase(noun, determiner, adjective, case):
    gender = "p" if determiner.plural else noun.gender
    words = [determiner.german(case, gender)]
    if adjective:
        stem = adjective[1]
        ending = _ENDINGS[determiner.declension][case][gender]
        words.append(stem[:-1] if stem.endswith("!") else stem + ending)
    words.append(_german_noun(noun, determiner.plural, case))
    return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """Determiner, adjective (English, German stem) and noun; perhaps a "with" phrase after it,
    and a relative clause whose gap is this noun."""

    noun: Noun
    determiner: Determiner
    adjective: tuple | None = None
    modifier: "PrepositionalPhrase | Fixed | None" = None
    relative: object = None  # a Clause with a gap

    @property
    def nouns(self):
        return (self.noun,)

    @property
    def plural(self):
        return self.determiner.plural

    @property
    def gender(self):
        return "p" if self.plural else self.noun.gender

    @property
    def pronoun(self):
        return "they" if self.plural else self.noun.pronoun

    def english(self):
        text = _english_phrase(self.noun, self.determiner, self.adjective)
        if self.modifier:
            text += " " + self.modifier.english()
        if self.relative:
            text += " " + self.relative.english_relative(self)
        return text

    def german(self, case):
        """The phrase without its relative clause, whose place the clause decides."""
        text = _german_phrase(self.noun, self.determiner, self.adjective, case)
        return f"{text} {self.modifier.german()}" if self.modifier else text

    def german_relative(self):
        return f", {self.relative.german_relative(self)}," if self.relative else ""


@dataclass(frozen=True, slots=True)
class Coordination:
    """Two noun phrases joined by "and"."""

    first: NounPhrase
    second: NounPhrase

    plural = True
    gender = "p"
    pronoun = "they"

    @property
    def nouns(self):
        return (self.first.noun, self.second.noun)

    def english(self):
        return f"{self.first.english()} and {self.second.english()}"

    def german(self, case):
        return f"{self.first.german(case)} und {self.second.german(case)}"

    def german_relative(self):
        return ""


@dataclass(frozen=True, slots=True)
class Pronoun:
    """The pronoun of an earlier subject; German takes the gender of the noun."""

    antecedent: NounPhrase | Coordination

    @property
    def nouns(self):
        return self.antecedent.nouns

    @property
    def plural(self):
        return self.antecedent.plural

    @property
    def gender(self):
        return self.antecedent.gender

    @property
    def pronoun(self):
        return self.antecedent.pronoun

    def english(self):
        return self.pronoun

    def german(self, case):
        return _PRONOUNS[self.gender]

    def german_relative(self):
        return ""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A phrase that does not inflect: a time, a manner, the guitar one plays."""

    english_text: str
    german_text: str

    def english(self):
        return self.english_text

    def german(self):
        return self.german_text


@dataclass(frozen=True, slots=True)
class PrepositionalPhrase:
    """A preposition of each language, the German case it governs, and a noun phrase."""

    english_preposition: str
    german_preposition: str
    case: str
    phrase: NounPhrase
    particle: str = ""  # closes the clause: an der Kirche vorbei

    def english(self):
        return f"{self.english_preposition} {self.phrase.english()}"

    def german(self):
        text = f"{self.german_preposition} {self.phrase.german(self.case)}"
        preposition, article, *rest = text.split(" ", 2)
        contracted = _CONTRACTIONS.get(f"{preposition} {article}")
        return " ".join([contracted, *rest]) if contracted else text
