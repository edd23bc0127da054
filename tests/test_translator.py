import json
import warnings

import keras
import numpy as np
import pytest
from tiny_translators import (
    AWKWARD,
    SENTENCES,
    CopyModel,
    random_transformer,
    random_translator,
    run_python,
    subword_tokenizer,
)

from keras_transformer import Translator
from keras_transformer.decoding import BeamSearch, GreedySearch, Sampling
from keras_transformer.layers import LearnedPositionEncoding
from keras_transformer.translator import source_widths

SHORT = ["a dog", "eine Frau", "Bank", "Park"]  # of one source width, so compiled once


def copier(**options):
    tokenizer = subword_tokenizer()
    return Translator(CopyModel(tokenizer), tokenizer, GreedySearch(), **options)


def round_trip(sentences):
    tokenizer = subword_tokenizer()
    return tokenizer.detokenize(tokenizer.tokenize(list(sentences)))


def test_answers_stand_in_the_places_of_their_sentences():
    sentences = AWKWARD + SENTENCES[::-1] + AWKWARD
    assert copier().translate(sentences, batch_size=4) == round_trip(sentences)


def test_beam_search_is_the_default():
    assert copier().search.get_config() == GreedySearch().get_config()
    tokenizer = subword_tokenizer()
    translator = Translator(CopyModel(tokenizer), tokenizer)
    assert translator.search.get_config() == BeamSearch().get_config()
    assert translator.translate(SENTENCES[:2]) == SENTENCES[:2]


def test_blank_sentences_do_not_run_the_model():
    translator = copier()
    texts, scores = translator.translate_with_scores(["", " ", "\t\n\u3000", "\u2028"])
    assert texts == [""] * 4
    np.testing.assert_array_equal(scores, np.zeros(4, "float32"))
    assert translator.translate([]) == []
    assert translator.model.calls == 0


def test_long_lines_are_cut_and_counted():
    translator = copier(max_source_length=40)
    long = "a dog runs " * 910  # 10,010 characters
    with pytest.warns(UserWarning, match="2 of 3 sentences have more than 40 pieces"):
        texts = translator.translate([long, "a dog", "🙂 " * 5000])
    tokenizer = subword_tokenizer()
    cut = [tokenizer.detokenize(tokenizer.tokenize(line)[:39]) for line in (long, "🙂 " * 5000)]
    assert texts == [cut[0], "a dog", cut[1]]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert copier().translate(SENTENCES) == SENTENCES


def test_translation_depends_on_its_sentence_alone():
    # Law 2 and case 25. No `max_length`: the limit is the source's padded width + 50.
    tokenizer = subword_tokenizer()
    translator = Translator(random_transformer(tokenizer), tokenizer, GreedySearch())
    sentences = ["Bank", "a woman reads", "eine Frau liest"]
    together = translator.translate_with_scores(sentences)
    assert len(set(together.texts)) == 3 and max(map(len, together.texts)) > 58
    texts, scores = translator.translate_with_scores(sentences[::-1], batch_size=1)
    assert texts[::-1] == together.texts
    np.testing.assert_allclose(scores[::-1], together.scores, atol=1e-4)


@pytest.mark.any_backend
def test_source_widths():
    assert source_widths(1) == source_widths(8) == (8,)
    assert source_widths(9) == (8, 16)
    widths = np.array(source_widths(1000))
    assert widths[-2] < 1000 <= widths[-1]
    assert (widths % 8 == 0).all()
    assert (widths[1:] * 8 >= widths[:-1] * 9).all()


@pytest.mark.parametrize(
    ("sentences", "message"),
    [("a dog", "list of strings; got 'a dog'"), (["a", 7], "got 7 at index 1"), (7, "list")],
)
def test_sentences_that_are_none(sentences, message):
    with pytest.raises(ValueError, match=message):
        copier().translate(sentences)


def test_batch_size_must_be_positive():
    with pytest.raises(ValueError, match="`batch_size` must be a positive integer; got 0"):
        copier().translate(["a"], batch_size=0)


@pytest.mark.parametrize("name", ["vocabulary_size", "pad_id", "start_id", "end_id"])
def test_model_and_tokenizer_must_fit(name):
    tokenizer = subword_tokenizer()
    model = CopyModel(tokenizer)
    setattr(model, name, 53)
    theirs = getattr(tokenizer, name)
    with pytest.raises(ValueError, match=f"same `{name}`; got 53 of the model and {theirs} of"):
        Translator(model, tokenizer)


def test_wrong_parts():
    tokenizer = subword_tokenizer()
    with pytest.raises(ValueError, match="`model` must have start, step"):
        Translator(object(), tokenizer)
    with pytest.raises(ValueError, match="`search` must be a `decoding.Search`; got 4"):
        Translator(CopyModel(tokenizer), tokenizer, search=4)
    with pytest.raises(ValueError, match="`max_source_length` must be a positive integer"):
        Translator(CopyModel(tokenizer), tokenizer, max_source_length=0)
    with pytest.raises(ValueError, match="got 97 of the model and None of the tokenizer"):
        Translator(CopyModel(tokenizer), object())


def test_learned_positions_must_reach_as_far_as_the_search():
    # Case 19.
    tokenizer = subword_tokenizer()
    model = random_transformer(tokenizer, position=LearnedPositionEncoding(max_length=24))
    for search, longest, name in (
        (BeamSearch(2), 24, "max_length"),
        (BeamSearch(2, max_length=25), 24, "max_length"),
        (BeamSearch(2, max_length=24), 25, "source"),
    ):
        with pytest.raises(ValueError, match=f"`{name}` must be at most 24.*learned positions"):
            Translator(model, tokenizer, search, max_source_length=longest)
    translator = Translator(model, tokenizer, BeamSearch(2, max_length=24), max_source_length=24)
    with pytest.warns(UserWarning, match="1 of 1 sentences have more than 24 pieces"):
        assert translator.translate(["a dog " * 20]) != [""]


def test_saves_and_loads(tmp_path):
    translator = random_translator()
    expected = translator.translate_with_scores(SHORT)
    translator.save(tmp_path / "new" / "en-de")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["en-de"]
    loaded = Translator.load(tmp_path / "new" / "en-de")
    found = loaded.translate_with_scores(SHORT)
    assert found.texts == expected.texts
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert loaded.search.get_config() == translator.search.get_config()
    assert loaded.max_source_length == 40


def test_loads_in_a_fresh_process_on_another_backend(tmp_path):
    # Laws 8 and 9.
    random_translator().save(tmp_path / "en-de")
    code = """if True:
        import json, sys
        from keras_transformer import Translator
        print(json.dumps(Translator.load(sys.argv[1]).translate(json.loads(sys.argv[2]))))
    """
    other = {"tensorflow": "jax", "jax": "torch", "torch": "tensorflow"}[keras.config.backend()]
    output = run_python(code, tmp_path / "en-de", json.dumps(SHORT), KERAS_BACKEND=other)
    assert json.loads(output) == random_translator().translate(SHORT)


@pytest.mark.parametrize("search", [GreedySearch(7), Sampling(0.5, top_k=5, seed=3, max_length=7)])
def test_search_is_kept(tmp_path, search):
    translator = random_translator()
    Translator(translator.model, translator.tokenizer, search).save(tmp_path / "en-de")
    loaded = Translator.load(tmp_path / "en-de").search
    assert type(loaded) is type(search) and loaded.get_config() == search.get_config()


def test_nothing_is_overwritten_unasked(tmp_path):
    translator = random_translator()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="must not exist yet"):
        translator.save(tmp_path / "notes")
    with pytest.raises(ValueError, match="translator.json to be replaced; got .*notes"):
        translator.save(tmp_path / "notes", overwrite=True)
    assert (tmp_path / "notes" / "thesis.txt").read_text() == "years of work"
    translator.save(tmp_path / "en-de")
    with pytest.raises(ValueError, match="overwrite=True"):
        translator.save(tmp_path / "en-de")
    translator.save(tmp_path / "en-de", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["en-de", "notes"]


def test_a_failure_while_saving_leaves_what_was_there(tmp_path, monkeypatch):
    translator = random_translator()
    translator.save(tmp_path / "en-de")

    def fail(path):
        raise OSError("no space left on device")

    monkeypatch.setattr(translator.tokenizer, "save", fail)
    with pytest.raises(OSError, match="no space left"):
        translator.save(tmp_path / "en-de", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["en-de"]
    assert Translator.load(tmp_path / "en-de").max_source_length == 40


def test_tokenizer_that_cannot_be_saved(tmp_path):
    class Words:
        vocabulary_size, pad_id, start_id, end_id = 7, 0, 1, 2

    with pytest.raises(ValueError, match="`tokenizer` must be .* to be saved; got Words"):
        Translator(CopyModel(Words()), Words()).save(tmp_path / "en-de")
    assert not list(tmp_path.iterdir())


def test_missing_and_damaged_parts_are_named(tmp_path):
    path = tmp_path / "en-de"
    with pytest.raises(ValueError, match="en-de has no translator.json"):
        Translator.load(path)
    random_translator().save(path)
    config = (path / "translator.json").read_text()
    (path / "translator.json").write_text(config.replace('"format": 1', '"format": 2'))
    with pytest.raises(ValueError, match="translator of format 1; got 2"):
        Translator.load(path)
    for damaged in (config[:40], "[]"):
        (path / "translator.json").write_text(damaged)
        with pytest.raises(ValueError, match="translator.json is damaged"):
            Translator.load(path)
    (path / "translator.json").write_text(config)
    model = (path / "model.keras").read_bytes()
    (path / "model.keras").write_bytes(model[: len(model) // 2])
    with pytest.raises(ValueError, match="model.keras is damaged"):
        Translator.load(path)
    (path / "model.keras").write_bytes(model)
    (path / "tokenizer.model").unlink()
    with pytest.raises(ValueError, match="lacks its tokenizer.model"):
        Translator.load(path)
