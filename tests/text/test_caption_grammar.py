from collections import defaultdict

import pytest

from keras_transformer.text.caption_grammar import SPLITS, CaptionGrammar, split_of
from keras_transformer.text.captions import verbs
from keras_transformer.text.captions.clause import Clause, sentence
from keras_transformer.text.captions.nouns import ADJECTIVES, NOUNS
from keras_transformer.text.captions.phrases import (
    DETERMINERS,
    Coordination,
    Fixed,
    NounPhrase,
    PrepositionalPhrase,
    Pronoun,
    possessive,
)

pytestmark = pytest.mark.any_backend

TABLES = ("TRANSITIVE", "INTRANSITIVE", "POSTURE", "MOTION", "LEAPING", "GIVING", "PUTTING")
VERBS = {
    (name, verb.base, verb.infinitive, verb.particle): verb
    for name in TABLES
    for verb in getattr(verbs, name)
}
STEMS = {english: stem for table in ADJECTIVES.values() for english, stem in table}


def verb(base, particle="", table="TRANSITIVE"):
    (found,) = (
        candidate
        for (name, words, _, part), candidate in VERBS.items()
        if (name, words, part) == (table, base, particle)
    )
    return found


def phrase(determiner, noun, adjective=None, **extra):
    quality = (adjective, STEMS[adjective]) if adjective else None
    return NounPhrase(NOUNS[noun], DETERMINERS[determiner], quality, **extra)


def at(english, german, noun_phrase, case="dative", particle=""):
    return PrepositionalPhrase(english, german, case, noun_phrase, particle)


@pytest.fixture(scope="module")
def parts():
    grammar = CaptionGrammar(seed=3)
    return {split: grammar.pairs(4001 if split == "train" else 401, split) for split in SPLITS}


def test_separable_verb_after_a_modifier():
    jacket = at("in", "in", phrase("a", "jacket", "red"))
    clause = Clause(
        phrase("a", "woman", "young", modifier=jacket),
        verb("slice", "auf"),
        object=phrase("the", "bread"),
        place=at("on", "auf", phrase("the", "table")),
    )
    assert (
        sentence(clause.english())
        == "A young woman in a red jacket is slicing the bread on the table."
    )
    assert (
        sentence(clause.german_main())
        == "Eine junge Frau in einer roten Jacke schneidet das Brot auf dem Tisch auf."
    )
    assert (
        clause.german_final()
        == "eine junge Frau in einer roten Jacke das Brot auf dem Tisch aufschneidet"
    )


def test_fronted_place_inverts_and_contracts():
    clause = Clause(
        phrase("two", "boy", "small"),
        verb("play", table="INTRANSITIVE"),
        idiom=Fixed("football", "Fußball"),
        place=at("in", "in", phrase("the", "park", "big")),
        time=Fixed("in the evening", "am Abend"),
    )
    assert (
        sentence(clause.english("place"))
        == "In the big park, two small boys are playing football in the evening."
    )
    assert (
        sentence(clause.german_main("place"))
        == "Im großen Park spielen zwei kleine Jungen am Abend Fußball."
    )


def test_time_manner_place_around_objects():
    common = dict(
        place=at("in", "in", phrase("the", "kitchen")),
        time=Fixed("today", "heute"),
        manner=Fixed("slowly", "langsam"),
    )
    girl = phrase("the", "girl", "tired")
    known = Clause(girl, verb("eat"), object=phrase("the", "apple", "sweet"), **common)
    new = Clause(girl, verb("eat"), object=phrase("a", "apple", "sweet"), **common)
    assert known.english() == (
        "the tired girl is slowly eating the sweet apple in the kitchen today"
    )
    assert known.german_main() == (
        "das müde Mädchen isst heute den süßen Apfel langsam in der Küche"
    )
    assert new.german_main() == "das müde Mädchen isst heute langsam einen süßen Apfel in der Küche"


def test_ditransitive_takes_dative_before_accusative():
    boy = phrase("this", "boy")
    clause = Clause(
        boy,
        verb("give", table="GIVING"),
        recipient=phrase("several", "child", "hungry"),
        object=NounPhrase(NOUNS["apple"], possessive(boy, plural=True), ("fresh", "frisch")),
    )
    assert clause.english() == "this boy is giving several hungry children his fresh apples"
    assert clause.german_main() == (
        "dieser Junge gibt mehreren hungrigen Kindern seine frischen Äpfel"
    )


@pytest.mark.parametrize(
    ("noun", "english", "german"),
    [
        ("man", "with his brother", "mit seinem Bruder"),
        ("woman", "with her brother", "mit ihrem Bruder"),
        ("girl", "with her brother", "mit seinem Bruder"),
        ("cat", "with its brother", "mit ihrem Bruder"),
    ],
)
def test_possessive_agrees_with_the_german_noun(noun, english, german):
    companion = at("with", "mit", NounPhrase(NOUNS["brother"], possessive(phrase("the", noun))))
    assert (companion.english(), companion.german()) == (english, german)


def test_relative_clauses_of_subject_and_object():
    waited = Clause(None, verb("wear"), object=phrase("a", "hat", "blue"), gap="subject")
    head = phrase("a", "man", relative=waited)
    clause = Clause(head, verb("approach"), object=phrase("the", "boy"))
    assert sentence(clause.english()) == "A man who is wearing a blue hat is approaching the boy."
    assert (
        sentence(clause.german_main())
        == "Ein Mann, der einen blauen Hut trägt, nähert sich dem Jungen."
    )
    helped = Clause(phrase("the", "nurse"), verb("help"), object=phrase("two", "man"), gap="object")
    called = phrase("two", "man", relative=helped)
    clause = Clause(phrase("a", "chef"), verb("call", "an"), object=called)
    assert sentence(clause.english()) == "A chef is calling two men who the nurse is helping."
    assert (
        sentence(clause.german_main())
        == "Ein Koch ruft zwei Männer an, denen die Krankenschwester hilft."
    )


def test_reflexive_moves_with_the_verb():
    rest = verb("rest", "aus", table="INTRANSITIVE")
    hunter = phrase("every", "hunter")
    place = at("under", "unter", phrase("a", "tree"))
    clause = Clause(hunter, rest, place=place)
    assert clause.german_main() == "jeder Jäger ruht sich unter einem Baum aus"
    assert clause.german_main("place") == "unter einem Baum ruht sich jeder Jäger aus"
    assert clause.german_final() == "sich jeder Jäger unter einem Baum ausruht"
    wanting = Clause(Pronoun(phrase("the", "cat")), rest, mood="want")
    assert wanting.english() == "it wants to rest"
    assert wanting.german_final() == "sie sich ausruhen will"
    trying = Clause(phrase("many", "guest", "old"), rest, mood="try")
    assert trying.english() == "many old guests are trying to rest"
    assert sentence(trying.german_main()) == "Viele alte Gäste versuchen, sich auszuruhen."


def test_modal_and_zu_infinitive():
    clause = Clause(
        phrase("the plural", "student"),
        verb("open"),
        object=phrase("some", "window", "dirty"),
        mood="try",
    )
    assert sentence(clause.english()) == "The students are trying to open some dirty windows."
    assert (
        sentence(clause.german_main())
        == "Die Studenten versuchen, einige schmutzige Fenster zu öffnen."
    )
    clause = Clause(
        phrase("a", "farmer"),
        verb("look after", "auf"),
        mood="can",
        object=phrase("these", "monkey", "wild"),
    )
    assert clause.english() == "a farmer can look after these wild monkeys"
    assert clause.german_main() == "ein Bauer kann auf diese wilden Affen aufpassen"


def test_motion_and_rest_differ_in_case():
    dog = phrase("a", "dog", "black")
    into = at("into", "in", phrase("the", "forest"), "accusative")
    past = at("past", "an", phrase("the", "church", "famous"), "dative", "vorbei")
    run = verb("run", table="MOTION")
    assert Clause(dog, run, direction=into).german_main() == (
        "ein schwarzer Hund läuft in den Wald"
    )
    assert Clause(dog, run, direction=past).german_main() == (
        "ein schwarzer Hund läuft an der berühmten Kirche vorbei"
    )
    assert Clause(dog, run, direction=past).german_final() == (
        "ein schwarzer Hund an der berühmten Kirche vorbeiläuft"
    )
    station = at("to", "zu", phrase("the", "station"))
    assert Clause(dog, run, direction=station).german_main() == (
        "ein schwarzer Hund läuft zum Bahnhof"
    )


def test_coordination_and_object_dependent_verbs():
    couple = Coordination(phrase("a", "bride"), phrase("the", "uncle"))
    hat = Clause(couple, verb("put on", "auf"), object=phrase("plural", "hat", "pink"))
    coat = Clause(couple, verb("put on", "an"), object=phrase("plural", "coat", "dark"))
    assert hat.english() == "a bride and the uncle are putting on pink hats"
    assert hat.german_main() == "eine Braut und der Onkel setzen rosa Hüte auf"
    assert coat.german_main() == "eine Braut und der Onkel ziehen dunkle Mäntel an"


@pytest.mark.parametrize(
    ("determiner", "adjective", "noun", "english", "cases"),
    [
        ("a", "old", "umbrella", "an old umbrella",
         ("ein alter Regenschirm", "einen alten Regenschirm", "einem alten Regenschirm")),
        ("a", None, "uniform", "a uniform", ("eine Uniform", "eine Uniform", "einer Uniform")),
        ("mass", "cold", "water", "cold water",
         ("kaltes Wasser", "kaltes Wasser", "kaltem Wasser")),
        ("mass", "hot", "tea", "hot tea", ("heißer Tee", "heißen Tee", "heißem Tee")),
        ("mass", "fresh", "milk", "fresh milk",
         ("frische Milch", "frische Milch", "frischer Milch")),
        ("both", "tall", "brother", "both tall brothers",
         ("beide großen Brüder", "beide großen Brüder", "beiden großen Brüdern")),
        ("three", "expensive", "car", "three expensive cars",
         ("drei teure Autos", "drei teure Autos", "drei teuren Autos")),
        ("the", "clever", "student", "the clever student",
         ("der kluge Student", "den klugen Studenten", "dem klugen Studenten")),
        ("the plural", None, "teacher", "the teachers",
         ("die Lehrerinnen", "die Lehrerinnen", "den Lehrerinnen")),
        ("a", "purple", "dress", "a purple dress",
         ("ein lila Kleid", "ein lila Kleid", "einem lila Kleid")),
    ],
)  # fmt: skip
def test_declension(determiner, adjective, noun, english, cases):
    words = phrase(determiner, noun, adjective)
    assert words.english() == english
    assert tuple(words.german(case) for case in ("nominative", "accusative", "dative")) == cases


def test_same_seed_same_pairs(parts):
    assert CaptionGrammar(seed=3).pairs(4001, "train") == parts["train"]
    assert CaptionGrammar().pairs(4001, "train", seed=3) == parts["train"]
    assert CaptionGrammar(seed=4).pairs(4001, "train") != parts["train"]


def test_english_decides_german():
    """Under several seeds and parts, no English sentence has two translations."""
    translations = defaultdict(set)
    for seed in range(3):
        for split, count in zip(SPLITS, (13000, 503, 503), strict=True):
            for english, german in zip(*CaptionGrammar(seed).pairs(count, split), strict=True):
                translations[english].add(german)
    assert all(len(found) == 1 for found in translations.values())


def test_lexicon_decides_german():
    """What a sampling may miss: no verb with the same object, no place, is translated twice."""
    for table in TABLES:
        seen = set()
        for entry in getattr(verbs, table):
            for complement in entry.objects or ("",):
                assert (entry.base, complement) not in seen
                seen.add((entry.base, complement))
    for table in ("LOCATIONS", "SEATS", "DIRECTIONS", "LEAPS", "TARGETS"):
        keys = [(columns[0], noun) for columns, noun in getattr(verbs, table)]
        assert len(set(keys)) == len(keys)
    for group, table in ADJECTIVES.items():
        assert len(dict(table)) == len(table), group


def test_parts_share_no_sentence_and_tests_hold_unseen_words_together(parts):
    english = {split: set(sources) for split, (sources, _) in parts.items()}
    assert not english["train"] & english["test"]
    assert not english["train"] & english["val"]
    assert not english["val"] & english["test"]
    held_out = next(
        f"{adjective} {noun.singular}"
        for noun in NOUNS.values()
        if noun.group == "people"
        for adjective, _ in ADJECTIVES["people"]
        if split_of({f"{adjective} {noun.singular}"}) == "test"
    )
    assert not any(f" {held_out} " in f" {text.lower()} " for text in english["train"])


def test_held_out_adjective_noun_pairs_never_occur_in_training(parts):
    held_out = {
        f"{adjective} {noun.singular}"
        for noun in NOUNS.values()
        if noun.group in ADJECTIVES
        for adjective, _ in ADJECTIVES[noun.group]
        if split_of({f"{adjective} {noun.singular}"}) == "test"
    }
    assert len(held_out) > 50

    def held(text):
        words = text.rstrip(".").lower().replace(",", "").split()
        return any(" ".join(pair) in held_out for pair in zip(words, words[1:], strict=False))

    assert not any(held(text) for text in parts["train"][0])
    assert any(held(text) for text in parts["test"][0])


def test_split_of_prefers_the_test_part():
    found = {split: None for split in SPLITS}
    for number in range(1000):
        found[split_of([str(number)])] = str(number)
    assert all(found.values())
    assert split_of([found["train"], found["val"]]) == "val"
    assert split_of([found["val"], found["test"], found["train"]]) == "test"


def test_test_words_are_known_from_training(parts):
    sources, targets = CaptionGrammar(seed=5).pairs(20000)
    for language, known in enumerate((sources, targets)):
        words = {
            word for text in known for word in text.lower().strip(".").replace(",", "").split()
        }
        assert len(words) > 700
        unseen = {
            word
            for text in parts["test"][language]
            for word in text.lower().strip(".").replace(",", "").split()
        } - words
        assert len(unseen) <= 1


def test_spelling(parts):
    for sources, targets in parts.values():
        assert len(set(sources)) == len(sources) == len(targets)
        for text in (*sources, *targets):
            assert text[0].isupper() and text.endswith(".") and text.count(".") == 1
            assert "  " not in text and " ," not in text and ",," not in text and ",." not in text
            assert 5 <= len(text.split()) <= 18


def test_count_is_a_lower_bound_in_the_millions():
    grammar = CaptionGrammar()
    assert grammar.count() > 10_000_000
    sources, _ = grammar.pairs(20000)
    assert len(set(sources)) == 20000


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"count": 0}, "`count`"),
        ({"count": 2.5}, "`count`"),
        ({"count": 3, "split": "dev"}, "`split`"),
        ({"count": 3, "seed": "one"}, "`seed`"),
    ],
)
def test_wrong_arguments_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        CaptionGrammar().pairs(**arguments)


def test_wrong_seed():
    with pytest.raises(ValueError, match="`seed` must be an integer"):
        CaptionGrammar(seed=None)
