"""Draws clauses from the lexicon and writes them as pairs of sentences."""

from dataclasses import replace

from keras_transformer.text.captions import verbs
from keras_transformer.text.captions.clause import Clause, sentence
from keras_transformer.text.captions.nouns import ADJECTIVES, GROUPS
from keras_transformer.text.captions.phrases import (
    DETERMINERS,
    Coordination,
    Fixed,
    NounPhrase,
    PrepositionalPhrase,
    Pronoun,
    possessive,
)

_PEOPLE = GROUPS["people"]
_FAMILY = GROUPS["family"]
_ANIMALS = GROUPS["animals"]
_ANIMAL_VERBS = {
    name: tuple(verb for verb in getattr(verbs, name) if verb.animals)
    for name in ("TRANSITIVE", "INTRANSITIVE", "POSTURE", "MOTION", "LEAPING")
}
_PLAY = next(verb for verb in verbs.INTRANSITIVE if verb.base == "play")
_IN_COMPANY = ("play", "sing", "dance", "work")
_WEAR = next(verb for verb in verbs.TRANSITIVE if verb.base == "wear")


def _determiners(names):
    return tuple(DETERMINERS[name] for name in names.split(", "))


_SUBJECT = _determiners(
    "a, a, a, a, a, the, the, the, this, every, plural, the plural, these, both, two, two, two, "
    "three, three, four, some, many, several"
)
_OBJECT = _determiners("a, a, a, a, the, the, the, this, plural, two, three, some, the plural")
_THIS = DETERMINERS["this"]
_PLACE = _determiners("a, the, the, the")
_MASS = _determiners("mass, mass, the")


class Writer:
    """Draws clauses from the lexicon and writes them as sentences."""

    def __init__(self, rng):
        self._random = rng.random
        self._combinations = set()
        self._patterns = (
            *[self._plain] * 10,
            *[self._fronted] * 6,
            *[self._subject_relative] * 4,
            *[self._object_relative] * 3,
            *[self._while] * 4,
            *[self._because] * 4,
            *[self._two_predicates] * 3,
        )

    def write(self):
        """English sentence, German sentence, the combinations of words that they hold."""
        self._combinations = set()
        english, german = self._pick(self._patterns)()
        return sentence(english), sentence(german), self._combinations

    # Sentences.

    def _plain(self):
        subject = self._subject()
        clause = self._clause(subject, mood=self._mood())
        return clause.english(), clause.german_main()

    def _fronted(self):
        clause = self._clause(self._subject(), mood=self._mood())
        front = "place" if clause.place and self._chance(0.6) else "time"
        if not getattr(clause, front):
            clause = replace(clause, time=Fixed(*self._pick(verbs.TIMES)))
        return clause.english(front), clause.german_main(front)

    def _subject_relative(self):
        head = self._noun_subject()
        if head.noun.group == "people" and self._chance(0.3):
            worn = self._noun_phrase(_WEAR.objects, self._worn(head))
            inner = Clause(None, _WEAR, object=worn, gap="subject")
            self._note(head.noun, _WEAR, worn.noun.singular)
        else:
            inner = replace(self._bare_clause(head), subject=None, gap="subject")
        subject = replace(head, relative=inner)
        clause = self._bare_clause(subject)
        if self._chance(0.25):
            clause = replace(clause, time=Fixed(*self._pick(verbs.TIMES)))
            return clause.english("time"), clause.german_main("time")
        return clause.english(), clause.german_main()

    def _object_relative(self):
        """A relative clause on the object: what it does, or what another does to it."""
        subject = self._noun_subject()
        choices = self._verbs("TRANSITIVE", subject)
        verb = self._pick([verb for verb in choices if set(verb.objects) & set(_ANIMALS + _PEOPLE)])
        nouns = [noun for noun in verb.objects if noun.group in ("people", "animals")]
        head = self._noun_phrase(nouns, _SUBJECT)
        self._note(subject.noun, verb, head.noun.singular)
        if self._chance(0.6):
            inner = replace(self._bare_clause(head), subject=None, gap="subject")
        else:
            other = self._noun_subject()
            choices = [
                verb
                for verb in self._verbs("TRANSITIVE", other)
                if not verb.preposition and head.noun in verb.objects
            ]
            action = self._pick(choices)
            inner = Clause(other, action, object=head, gap="object")
            self._note(other.noun, action, head.noun.singular)
        clause = Clause(subject, verb, object=replace(head, relative=inner))
        return clause.english(), clause.german_main()

    def _while(self):
        main = self._bare_clause(self._subject())
        other = self._bare_clause(self._subject())
        if self._chance(0.5):
            opening = f"während {other.german_final()},"
            return f"while {other.english()}, {main.english()}", main.german_main(opening=opening)
        return (
            f"{main.english()} while {other.english()}",
            f"{main.german_main()}, während {other.german_final()}",
        )

    def _because(self):
        main = self._bare_clause(self._subject())
        english, german = self._pick((("because", "weil"), ("although", "obwohl")))
        reason, translation = self._reason(main.subject)
        return (
            f"{main.english()} {english} {reason}",
            f"{main.german_main()}, {german} {translation}",
        )

    def _reason(self, subject):
        kind = self._random()
        if kind < 0.2:
            return self._pick(verbs.WEATHER)
        pronoun = Pronoun(subject)
        if kind < 0.6:
            english, german = self._pick(verbs.STATES)
            be, sein = ("are", "sind") if subject.plural else ("is", "ist")
            return (
                f"{pronoun.english()} {be} {english}",
                f"{pronoun.german('nominative')} {german} {sein}",
            )
        clause = self._bare_clause(pronoun, mood=self._pick(("want", "can")))
        return clause.english(), clause.german_final()

    def _two_predicates(self):
        """One subject, a posture and an action: sits on a bench and reads."""
        subject = self._noun_subject()
        posture = self._pick(self._verbs("POSTURE", subject))
        place = self._prepositional(verbs.SEATS, _PLACE)
        self._note(subject.noun, posture, place.phrase.noun.singular)
        first = Clause(subject, posture, place=place)
        second = self._action(subject)
        return (
            f"{first.english()} and {second.english_predicate(subject, auxiliary=False)}",
            f"{first.german_main()} und {second.german_predicate()}",
        )

    # Clauses.

    def _clause(self, subject, mood="progressive"):
        """A clause with adverbials."""
        clause = self._bare_clause(subject, mood)
        changes = {}
        if not (clause.place or clause.direction) and self._chance(0.7):
            changes["place"] = self._prepositional(verbs.LOCATIONS, _PLACE)
        if mood != "try" and self._chance(0.3):
            changes["time"] = Fixed(*self._pick(verbs.TIMES))
        if self._chance(0.2) and not clause.verb.reflexive and clause.verb.base not in ("lie",):
            changes["manner"] = Fixed(*self._pick(verbs.MANNERS))
        return replace(clause, **changes) if changes else clause

    def _bare_clause(self, subject, mood="progressive"):
        """A clause with what its verb asks for."""
        kind = self._random()
        if kind < 0.5 or _animal(subject) and kind < 0.62:
            clause = self._action(subject)
        elif kind < 0.56:
            clause = self._giving(subject)
        elif kind < 0.62:
            clause = self._putting(subject)
        elif kind < 0.68 and not _animal(subject):
            idiom = Fixed(*self._pick(verbs.IDIOMS))
            clause = Clause(subject, _PLAY, idiom=idiom, companion=self._companion(subject, 0.3))
            self._note_all(subject, _PLAY, idiom.english())
        elif kind < 0.8:
            clause = self._moving(subject)
        elif kind < 0.88:
            verb = self._pick(self._verbs("POSTURE", subject))
            place = self._prepositional(verbs.SEATS, _PLACE)
            clause = Clause(subject, verb, place=place)
            self._note_all(subject, verb, place.phrase.noun.singular)
        else:
            verb = self._pick(self._verbs("INTRANSITIVE", subject))
            companion = self._companion(subject, 0.3) if verb.base in _IN_COMPANY else None
            clause = Clause(subject, verb, companion=companion)
            self._note_all(subject, verb, "")
        return clause if mood == "progressive" else replace(clause, mood=mood)

    def _action(self, subject):
        verb = self._pick(self._verbs("TRANSITIVE", subject))
        determiners = self._worn(subject) if verb is _WEAR else _OBJECT
        patient = self._noun_phrase(verb.objects, determiners, subject)
        self._note_all(subject, verb, patient.noun.singular)
        return Clause(subject, verb, object=patient)

    def _giving(self, subject):
        verb = self._pick(verbs.GIVING)
        patient = self._noun_phrase(verb.objects, _OBJECT, subject)
        recipient = self._noun_phrase(_PEOPLE + _FAMILY, _OBJECT, subject)
        self._note_all(subject, verb, patient.noun.singular)
        return Clause(subject, verb, object=patient, recipient=recipient)

    def _putting(self, subject):
        verb = self._pick(verbs.PUTTING)
        patient = self._noun_phrase(verb.objects, _OBJECT, subject)
        self._note_all(subject, verb, patient.noun.singular)
        direction = self._prepositional(verbs.TARGETS, _PLACE)
        return Clause(subject, verb, object=patient, direction=direction)

    def _moving(self, subject):
        name, table = (
            ("LEAPING", verbs.LEAPS) if self._chance(0.3) else ("MOTION", verbs.DIRECTIONS)
        )
        verb = self._pick(self._verbs(name, subject))
        direction = self._prepositional(table, _PLACE)
        self._note_all(subject, verb, direction.phrase.noun.singular)
        companion = self._companion(subject, 0.15) if name == "MOTION" else None
        return Clause(subject, verb, direction=direction, companion=companion)

    def _verbs(self, name, subject):
        return _ANIMAL_VERBS[name] if _animal(subject) else getattr(verbs, name)

    def _mood(self):
        kind = self._random()
        if kind < 0.76:
            return "progressive"
        return "want" if kind < 0.84 else "can" if kind < 0.92 else "try"

    # Phrases.

    def _subject(self):
        if self._chance(0.12):
            first, second = (self._noun_phrase(_PEOPLE, _OBJECT[:6]) for _ in range(2))
            if first.noun is not second.noun:
                return Coordination(first, second)
        return self._noun_subject()

    def _noun_subject(self):
        nouns = _PEOPLE if self._chance(0.8) else _ANIMALS
        phrase = self._noun_phrase(nouns, _SUBJECT)
        if nouns is _PEOPLE and self._chance(0.2):
            phrase = replace(phrase, modifier=self._looks(phrase))
        return phrase

    def _looks(self, phrase):
        """What someone wears or looks like: in a red jacket, with long hair."""
        kind = self._random()
        if kind < 0.2:
            english, stem = self._pick(ADJECTIVES["hair"])
            return Fixed(f"with {english} hair", f"mit {stem}en Haaren")
        group = "garments" if kind < 0.7 else "accessories"
        worn = self._noun_phrase(GROUPS[group], self._worn(phrase), adjective=0.7)
        prepositions = ("in", "in") if group == "garments" else ("with", "mit")
        return PrepositionalPhrase(*prepositions, "dative", worn)

    def _worn(self, subject):
        """Two men wear hats, one man a hat."""
        return (DETERMINERS["plural" if subject.plural else "a"],)

    def _companion(self, subject, probability):
        if _animal(subject) or not self._chance(probability):
            return None
        phrase = NounPhrase(self._pick(_FAMILY), possessive(subject, plural=self._chance(0.3)))
        return PrepositionalPhrase("with", "mit", "dative", phrase)

    def _prepositional(self, table, determiners):
        columns, noun = self._pick(table)
        english, german, case, particle = columns
        phrase = self._noun_phrase((noun,), determiners, adjective=0.2)
        return PrepositionalPhrase(english, german, case, phrase, particle)

    def _noun_phrase(self, nouns, determiners, owner=None, adjective=0.35):
        """A noun of a list; with an owner, relatives and some things are "his" or "her"."""
        noun = self._pick(nouns)
        determiner = self._pick(determiners)
        if noun.group == "substances":
            determiner = self._pick(_MASS)
        elif owner and (noun.group == "family" or determiner is _THIS and noun.group != "people"):
            determiner = possessive(owner, plural=self._chance(0.3))
        quality = None
        if self._chance(adjective):
            quality = self._pick(ADJECTIVES[noun.group])
            self._combinations.add(f"{quality[0]} {noun.singular}")
        return NounPhrase(noun, determiner, quality)

    def _note_all(self, subject, verb, complement):
        for noun in subject.nouns:
            self._note(noun, verb, complement)

    def _note(self, noun, verb, complement):
        self._combinations.add(f"{noun.singular} {verb.base} {complement}")

    def _chance(self, probability):
        return self._random() < probability

    def _pick(self, items):
        return items[int(self._random() * len(items))]


def _animal(subject):
    return subject.nouns[0].group == "animals"
