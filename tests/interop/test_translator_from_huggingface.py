"""A translator of a Marian checkpoint: it translates as `transformers` does, saves and loads."""

import sys
import types

import numpy as np
import pytest
from tiny_translators import SENTENCES, marian_tokenizer

from keras_transformer import Translator
from keras_transformer.decoding import GreedySearch
from keras_transformer.interop import huggingface


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tiny_checkpoints = pytest.importorskip("tiny_checkpoints")
    folder = tmp_path_factory.mktemp("opus")
    tokenizer = marian_tokenizer()
    tokenizer.save(folder)
    model = tiny_checkpoints.marian(
        vocab_size=tokenizer.vocabulary_size,
        pad_token_id=tokenizer.pad_id,
        decoder_start_token_id=tokenizer.pad_id,
        eos_token_id=tokenizer.end_id,
    )
    model.save_pretrained(folder)
    path = folder / "config.json"
    suppressed = f'"bad_words_ids": [[{tokenizer.pad_id}]], "model_type"'
    path.write_text(path.read_text().replace('"model_type"', suppressed, 1))
    return folder, model


def test_it_translates_as_transformers_does(folder):
    import torch

    folder, theirs = folder
    translator = Translator.from_huggingface(folder, GreedySearch(max_length=9))
    sentences = SENTENCES[:3]
    found = translator.translate(sentences)
    tokenizer = translator.tokenizer
    for sentence, translation in zip(sentences, found, strict=True):
        ids = torch.tensor([[*tokenizer.tokenize(sentence), tokenizer.end_id]])
        expected = theirs.generate(
            ids, do_sample=False, max_new_tokens=9, bad_words_ids=[[tokenizer.pad_id]]
        )
        assert translation == tokenizer.detokenize(expected[0].tolist())
    assert len(set(found)) > 1


def test_the_padding_is_never_picked_and_stays_so_when_saved(folder, tmp_path):
    model = huggingface.load_model(folder[0])
    assert model.suppressed_ids == [model.pad_id]
    state = model.start(np.array([[5, 7, model.end_id]], "int32"), 3)
    logits, _ = model.step(np.array([[model.start_id]], "int32"), state)
    assert float(logits[0, model.pad_id]) == -float("inf")
    huggingface.save_model(model, tmp_path / "saved", "marian")
    assert huggingface.load_model(tmp_path / "saved").suppressed_ids == [model.pad_id]


def test_a_name_on_the_hub_is_its_folder(folder, monkeypatch):
    hub = types.SimpleNamespace(snapshot_download=lambda name, allow_patterns: str(folder[0]))
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    translator = Translator.from_huggingface("someone/opus-mt", GreedySearch(max_length=9))
    assert translator.tokenizer.vocabulary == marian_tokenizer().vocabulary


def test_it_is_saved_and_loaded(folder, tmp_path):
    translator = Translator.from_huggingface(folder[0], GreedySearch(max_length=9))
    translator.save(tmp_path / "saved")
    loaded = Translator.load(tmp_path / "saved")
    assert loaded.translate(SENTENCES[:2]) == translator.translate(SENTENCES[:2])
