"""One abstract clause, written out in English and in German.

A clause names words and their roles; both texts follow from it alone. German asks for more than
English: the finite verb stands second in a main clause and last in a subordinate one, separable
particles part from their verb, and adverbials come in the order time, manner, place.
"""

from dataclasses import dataclass

from keras_transformer.text.captions.phrases import (
    RELATIVE_PRONOUNS,
    Coordination,
    Fixed,
    NounPhrase,
    PrepositionalPhrase,
    Pronoun,
)
from keras_transformer.text.captions.verbs import Verb

_MODALS = {
    # English singular and plural, German singular and plural.
    "want": ("wants to", "want to", "will", "wollen"),
    "can": ("can", "can", "kann", "können"),
}


@dataclass(frozen=True, slots=True)
class Clause:
    """A verb with its subject, objects and adverbials.

    `mood` is "progressive" (is reading, liest), "want", "can" (wants to read, will lesen) or
    "try" (is trying to read, versucht zu lesen). `gap` names the role that a relative clause
    leaves empty: "subject" or "object".
    """

    subject: NounPhrase | Coordination | Pronoun | None
    verb: Verb
    object: NounPhrase | None = None
    recipient: NounPhrase | None = None
    idiom: Fixed | None = None
    companion: PrepositionalPhrase | None = None
    direction: PrepositionalPhrase | None = None
    place: PrepositionalPhrase | None = None
    time: Fixed | None = None
    manner: Fixed | None = None
    mood: str = "progressive"
    gap: str | None = None

    def english(self, front=None):
        """The clause; `front` ("place" or "time") moves that adverbial before the subject."""
        text = f"{self.subject.english()} {self.english_predicate(self.subject, front)}"
        return f"{getattr(self, front).english()}, {text}" if front else text

    def english_relative(self, head):
        pronoun = "who" if head.noun.group in ("people", "family") else "that"
        subject = head if self.gap == "subject" else self.subject
        words = [pronoun] if self.gap == "subject" else [pronoun, subject.english()]
        return " ".join([*words, self.english_predicate(subject)])

    def english_predicate(self, subject, front=None, auxiliary=True):
        words = [self._english_verb(subject.plural, auxiliary)]
        for role in ("recipient", "object", "idiom", "companion", "direction", "place", "time"):
            phrase = getattr(self, role)
            if phrase and role not in (front, self.gap):
                words.append(phrase.english())
        return " ".join(words)

    def _english_verb(self, plural, auxiliary):
        manner = self.manner.english() if self.manner else ""
        if self.mood in _MODALS:
            return _join([_MODALS[self.mood][plural], manner, self.verb.base])
        be = ("are" if plural else "is") if auxiliary else ""
        if self.mood == "try":
            return _join([be, "trying to", manner, self.verb.base])
        return _join([be, manner, self.verb.ing])

    def german_main(self, front=None, opening=""):
        """Verb second: after the subject, or after whatever was moved before it."""
        opening = getattr(self, front).german() if front else opening
        subject = self.subject.german("nominative") + self.subject.german_relative()
        finite, closing = self._german_verb(self.subject.plural)
        first, inverted = (opening, subject) if opening else (subject, "")
        if self.mood == "try":
            rest = [inverted, ",", self._reflexive(), self._middle(front), self._zu_infinitive()]
        else:
            rest = [self._reflexive(), inverted, self._middle(front), closing]
        return _join([first, finite, *rest, self._extraposed()])

    def german_predicate(self):
        """What follows "und" when the subject is shared."""
        finite, closing = self._german_verb(self.subject.plural)
        return _join([finite, self._reflexive(), self._middle(), closing])

    def german_final(self):
        """Verb last, as after "während": sich goes before a noun and after a pronoun."""
        subject = self.subject.german("nominative")
        reflexive = self._reflexive()
        pair = [subject, reflexive] if isinstance(self.subject, Pronoun) else [reflexive, subject]
        return _join([*pair, self._middle(), self._final_verb(self.subject.plural)])

    def german_relative(self, head):
        if self.gap == "subject":
            opening = [RELATIVE_PRONOUNS["nominative"][head.gender]]
            plural = head.plural
        else:
            opening = [
                RELATIVE_PRONOUNS[self.verb.case][head.gender],
                self._reflexive(),
                self.subject.german("nominative"),
            ]
            plural = self.subject.plural
        reflexive = self._reflexive() if self.gap == "subject" else ""
        return _join([*opening, reflexive, self._middle(), self._final_verb(plural)])

    def _german_verb(self, plural):
        """The finite verb and what closes the clause: a particle or an infinitive."""
        if self.mood in _MODALS:
            return _MODALS[self.mood][2 + plural], self._particle() + self.verb.infinitive
        if self.mood == "try":
            return ("versuchen" if plural else "versucht"), ""
        return (self.verb.infinitive if plural else self.verb.third), self._particle()

    def _final_verb(self, plural):
        finite, closing = self._german_verb(plural)
        return f"{closing} {finite}" if self.mood in _MODALS else closing + finite

    def _zu_infinitive(self):
        particle = self._particle()
        return f"{particle}zu{self.verb.infinitive}" if particle else f"zu {self.verb.infinitive}"

    def _particle(self):
        return self.verb.particle or (self.direction.particle if self.direction else "")

    def _reflexive(self):
        return "sich" if self.verb.reflexive else ""

    def _extraposed(self):
        return self.object.german_relative() if self.object else ""

    def _middle(self, front=None):
        """Time, what is known, manner, what is new, place, direction."""
        shown = None if self.gap == "object" else self.object
        known = shown and (self.verb.case == "dative" or shown.determiner.definite)
        governed = shown and self.verb.preposition
        plain = "" if not shown or governed else shown.german(self.verb.case)
        phrases = [
            self.time.german() if self.time and front != "time" else "",
            self.recipient.german("dative") if self.recipient else "",
            plain if known else "",
            self.companion.german() if self.companion else "",
            self.manner.german() if self.manner else "",
            plain if not known else "",
            self.place.german() if self.place and front != "place" else "",
            self._governed_object() if governed else "",
            self.direction.german() if self.direction else "",
            self.idiom.german() if self.idiom else "",
        ]
        return _join(phrases)

    def _governed_object(self):
        return PrepositionalPhrase("", self.verb.preposition, self.verb.case, self.object).german()


def _join(parts):
    return " ".join([part for part in parts if part])


def sentence(text):
    """Commas set once, the first letter capital, a full stop."""
    text = text.replace(" ,", ",").replace(",,", ",").rstrip(",")
    return text[0].upper() + text[1:] + "."
