"""Marian's tokenizer: two SentencePiece models over one vocabulary."""

import json

import pytest
from tiny_translators import SENTENCES, marian_tokenizer

from keras_transformer.text import MarianTokenizer

pytestmark = pytest.mark.any_backend


def test_source_pieces_are_numbered_by_the_vocabulary():
    tokenizer = marian_tokenizer()
    ids = tokenizer.tokenize("a dog reads")
    pieces = [tokenizer._pieces[token] for token in ids]
    assert "".join(pieces).replace("\u2581", " ").strip() == "a dog reads"
    assert tokenizer.tokenize(["a dog reads", ""]) == [ids, []]
    assert tokenizer.start_id == tokenizer.pad_id == tokenizer.vocabulary_size - 1


def test_what_the_vocabulary_lacks_is_unknown():
    tokenizer = marian_tokenizer()
    assert tokenizer.unk_id in tokenizer.tokenize("\u3053")
    assert tokenizer.tokenize("\ud800 a")  # half a surrogate pair is no error


def test_a_language_code_is_one_piece():
    tokenizer = marian_tokenizer()
    code = tokenizer.vocabulary[">>deu<<"]
    assert tokenizer.tokenize(">>deu<< a dog") == [code, *tokenizer.tokenize("a dog")]
    assert tokenizer.tokenize(">>xxx<< a dog")[0] == tokenizer.unk_id


def test_target_ids_become_a_sentence_without_special_ids():
    tokenizer = marian_tokenizer()
    german = SENTENCES[4]
    ids = [tokenizer.vocabulary[piece] for piece in tokenizer._target.encode(german, out_type=str)]
    special = [tokenizer.pad_id, *ids, tokenizer.end_id, tokenizer.pad_id]
    assert tokenizer.detokenize(special) == german
    assert tokenizer.detokenize([special, []]) == [german, ""]
    with pytest.raises(ValueError, match="`ids`"):
        tokenizer.detokenize([tokenizer.vocabulary_size])


def test_it_agrees_with_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = marian_tokenizer()
    tokenizer.save(tmp_path)
    files = [str(tmp_path / name) for name in ("source.spm", "target.spm", "vocab.json")]
    theirs = transformers.MarianTokenizer(*files, source_lang="en", target_lang="de")
    for sentence in [*SENTENCES, ">>deu<< a dog", "\u3053 a"]:
        assert [*tokenizer.tokenize(sentence), tokenizer.end_id] == theirs(sentence).input_ids


def test_a_folder_keeps_it_and_a_damaged_one_is_an_error(tmp_path):
    tokenizer = marian_tokenizer()
    tokenizer.save(tmp_path)
    loaded = MarianTokenizer.load(tmp_path)
    assert loaded.vocabulary == tokenizer.vocabulary
    assert loaded.tokenize(SENTENCES) == tokenizer.tokenize(SENTENCES)
    (tmp_path / "vocab.json").write_text(json.dumps({"<pad>": 0, "a": 2}))
    with pytest.raises(ValueError, match="`vocabulary`"):
        MarianTokenizer.load(tmp_path)
    (tmp_path / "target.spm").write_bytes(tokenizer.target_proto[:50])
    tokenizer_vocabulary = json.dumps(tokenizer.vocabulary)
    (tmp_path / "vocab.json").write_text(tokenizer_vocabulary)
    with pytest.raises(ValueError, match="`target_proto`"):
        MarianTokenizer.load(tmp_path)
    (tmp_path / "source.spm").unlink()
    with pytest.raises(ValueError, match="source.spm"):
        MarianTokenizer.load(tmp_path)
