import importlib.util
import json
import shutil
import sys

import keras
import numpy as np
import pytest
from tiny_translators import (
    AWKWARD,
    SENTENCES,
    CopyModel,
    marian_tokenizer,
    random_transformer,
    random_translator,
    run_python,
    subword_tokenizer,
)

from keras_transformer import Translator
from keras_transformer.decoding import BeamSearch, GreedySearch, Sampling

on_tensorflow = pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="about the graph, which TensorFlow alone makes"
)
TEXTS = [*AWKWARD, *SENTENCES, "a dog " * 1700]

# A server that has neither Keras nor this package: importing them fails. (tensorflow_text as a
# Python package imports Keras; its operations do not.)
SERVER = """if True:
    import importlib.util, json, pathlib, sys
    sys.modules["keras"] = sys.modules["keras_transformer"] = None
    import tensorflow as tf

    package = pathlib.Path(importlib.util.find_spec("tensorflow_text").origin).parent
    for library in sorted((package / "python" / "ops").glob("*.so")):
        tf.load_op_library(str(library))
    translate = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
    answers = []
    for batch in json.loads(sys.argv[2]):
        answer = translate(text=tf.constant(batch, tf.string))
        texts = [text.decode() for text in answer["translation"].numpy()]
        answers.append([texts, answer["score"].numpy().tolist()])
    print(json.dumps(answers))
    assert not [name for name in sys.modules if name.startswith(("keras.", "keras_transformer."))]
"""

C_CLIENT = """if True:
    import json, runpy, sys
    server = runpy.run_path(sys.argv[1])["TranslationServer"](sys.argv[2])
    print(json.dumps([server.translate(batch) for batch in json.loads(sys.argv[3])]))
    python = {"tensorflow", "tensorflow_text", "keras", "keras_transformer", "numpy"}
    assert not python & set(sys.modules)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The folder of the exported random translator."""
    path = tmp_path_factory.mktemp("served") / "new" / "en-de"
    random_translator().export(path)
    return path


def assert_same(answers, batches, translator):
    for (texts, scores), batch in zip(answers, batches, strict=True):
        expected = translator.translate_with_scores(batch)
        assert texts == expected.texts
        np.testing.assert_allclose(scores, expected.scores, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*were cut there")
def test_serves_without_keras_the_translations_of_python(served):
    # Case 63: three numbers of sentences, and of pieces.
    batches = [TEXTS, TEXTS[1:2], [], TEXTS[9:12]]
    answers = json.loads(run_python(SERVER, served, json.dumps(batches)))
    assert_same(answers, batches, random_translator())


@pytest.mark.filterwarnings("ignore:.*were cut there")
@pytest.mark.skipif(sys.platform != "linux", reason="the libraries have other names elsewhere")
def test_serves_through_the_c_library(served, request):
    client = request.config.rootpath / "examples" / "serve_from_c.py"
    batches = [TEXTS, TEXTS[1:2], []]
    answers = json.loads(run_python(C_CLIENT, client, served, json.dumps(batches)))
    assert_same(answers, batches, random_translator())


@pytest.mark.skipif(sys.platform != "linux", reason="the libraries have other names elsewhere")
def test_xla_serves_the_same(tmp_path, request):
    # In Python without Keras, and through the C library.
    tokenizer = subword_tokenizer()
    translator = Translator(random_transformer(tokenizer), tokenizer, GreedySearch(max_length=7))
    translator.export(tmp_path / "served", jit_compile=True)
    batches = [[SENTENCES[0], "", SENTENCES[0].upper(), SENTENCES[0]], SENTENCES[:1]]
    answers = json.loads(run_python(SERVER, tmp_path / "served", json.dumps(batches)))
    assert_same(answers, batches, translator)
    client = request.config.rootpath / "examples" / "serve_from_c.py"
    answers = json.loads(run_python(C_CLIENT, client, tmp_path / "served", json.dumps(batches)))
    assert_same(answers, batches, translator)


@on_tensorflow
def test_a_request_may_hold_more_than_are_searched_at_once():
    import tensorflow as tf

    from keras_transformer.serving.translation_module import BATCH_SIZE, translation_module

    translator = random_translator()
    batch = [*SENTENCES[:2], ""] * BATCH_SIZE  # two batches of each width at the least
    answer = translation_module(translator).translate(tf.constant(batch))
    texts = [text.decode() for text in answer["translation"].numpy()]
    assert_same([[texts, answer["score"].numpy()]], [batch], translator)


@on_tensorflow
def test_word_pieces_need_no_vocabulary_file(tmp_path):
    # Case 61.
    hub = pytest.importorskip("keras_hub").tokenizers
    from keras_transformer.text import KerasHubTokenizer

    words = ["[PAD]", "[UNK]", "[START]", "[END]", "a", "dog", "run", "##s", "the", "cat", "."]
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "vocabulary.txt").write_text("\n".join(words))
    pieces = hub.WordPieceTokenizer(str(tmp_path / "made" / "vocabulary.txt"), lowercase=True)
    tokenizer = KerasHubTokenizer(pieces, pad_id=0, start_id=2, end_id=3)
    search = BeamSearch(2, max_length=7)
    translator = Translator(random_transformer(tokenizer), tokenizer, search)
    translator.export(tmp_path / "made" / "served")
    shutil.move(tmp_path / "made" / "served", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "made")
    batches = [["A dog runs.", "", " \u3000", "🙂", "the cats"], ["dogs"]]
    answers = json.loads(run_python(SERVER, tmp_path / "elsewhere", json.dumps(batches)))
    assert_same(answers, batches, translator)


@on_tensorflow
@pytest.mark.parametrize("search", [GreedySearch(), Sampling(seed=5, num_samples=2)])
def test_greatest_length_is_that_of_python(search):
    # Of a search without `max_length`: the source's padded width + 50, in any company.
    import tensorflow as tf

    from keras_transformer.serving.translation_module import translation_module

    tokenizer = subword_tokenizer()
    translator = Translator(random_transformer(tokenizer), tokenizer, search)
    answer = translation_module(translator).translate(tf.constant(SENTENCES))
    texts = [text.decode() for text in answer["translation"].numpy()]
    assert_same([(texts, answer["score"].numpy())], [SENTENCES], translator)
    assert max(map(len, texts)) > 66


@on_tensorflow
def test_control_ids_in_a_hypothesis_are_not_written():
    import tensorflow as tf

    from keras_transformer.serving.graph_tokenizer import graph_tokenizer

    tokenizer = subword_tokenizer()
    random = np.random.default_rng(3)
    rows = [random.choice([0, 1, 2, 3, 5, 41, 73], size).tolist() for size in range(40)]
    texts = graph_tokenizer(tokenizer).detokenize(tf.ragged.constant(rows, dtype=tf.int32))
    assert [text.decode() for text in texts.numpy()] == tokenizer.detokenize(rows)


@on_tensorflow
def test_nothing_is_overwritten_unasked(tmp_path):
    translator = Translator(CopyModel(subword_tokenizer()), subword_tokenizer(), GreedySearch(5))
    translator.model.variables = []
    (tmp_path / "notes").mkdir()
    for overwrite, message in ((False, "must not exist yet"), (True, "with saved_model.pb to be")):
        with pytest.raises(ValueError, match=message):
            translator.export(tmp_path / "notes", overwrite)
    translator.export(tmp_path / "served")
    with pytest.raises(ValueError, match="overwrite=True"):
        translator.export(tmp_path / "served")
    translator.export(tmp_path / "served", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", "served"]
    assert (tmp_path / "served" / "saved_model.pb").is_file()


@pytest.mark.parametrize("package", ["tensorflow", "tensorflow_text"])
def test_missing_package_is_named(tmp_path, monkeypatch, package):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else find_spec(name)
    )
    message = f"needs {package.replace('_', '-')}: pip install keras-transformer-layers.text."
    with pytest.raises(ImportError, match=message):
        random_translator().export(tmp_path / "served")
    assert not list(tmp_path.iterdir())


def test_tokenizer_without_a_graph_form(tmp_path):
    class Words:
        vocabulary_size, pad_id, start_id, end_id = 7, 0, 1, 2

    with pytest.raises(ValueError, match="`tokenizer` must be .* to be exported; got Words"):
        Translator(CopyModel(Words()), Words()).export(tmp_path / "served")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(keras.config.backend() != "torch", reason="a second process; once is enough")
def test_what_the_second_process_says_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(Translator, "save", lambda self, path: path.mkdir())
    with pytest.raises(RuntimeError, match="has no translator.json"):
        random_translator().export(tmp_path / "served")
    assert not list(tmp_path.iterdir())


@on_tensorflow
def test_a_marian_tokenizer_is_served_without_keras(tmp_path):
    tokenizer = marian_tokenizer()
    translator = Translator(random_transformer(tokenizer), tokenizer, BeamSearch(2, max_length=7))
    translator.export(tmp_path / "served")
    batches = [[*AWKWARD, *SENTENCES, ">>deu<< a dog", ">>xxx<< a dog", ">>deu<<"], []]
    answers = json.loads(run_python(SERVER, tmp_path / "served", json.dumps(batches)))
    assert_same(answers, batches, translator)


@on_tensorflow
def test_marian_ids_in_the_graph_are_those_of_python():
    import tensorflow as tf

    from keras_transformer.serving.graph_tokenizer import graph_tokenizer

    tokenizer = marian_tokenizer()
    graph = graph_tokenizer(tokenizer)
    texts = [*AWKWARD, *SENTENCES, ">>deu<<>>deu<< a", "a >>deu<< b", ">>a\nb<< dog", "\ufb01 \xbd"]
    assert graph.tokenize(tf.constant(texts)).to_list() == tokenizer.tokenize(texts)
    random, size = np.random.default_rng(0), tokenizer.vocabulary_size
    ids = [[], *[[token] for token in range(size)]]
    ids += [random.integers(0, size, length).tolist() for length in range(2, 40)]
    texts = graph.detokenize(tf.ragged.constant(ids, "int32")).numpy()
    assert [text.decode() for text in texts] == tokenizer.detokenize(ids)
