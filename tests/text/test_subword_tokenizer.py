"""SentencePiece pieces: ids, round trips, errors, and the same ids inside a TensorFlow graph."""

import importlib.util
import io
import itertools

import keras
import numpy as np
import pytest

from keras_transformer.text import SubwordTokenizer

SENTENCES = [
    f"{article} {noun} {verb}."
    for article, noun, verb in itertools.product(
        ["the", "ein", "der"], ["dog", "Hund", "Läufer"], ["runs", "läuft", "sieht?"]
    )
]
ODD_TEXTS = [
    "a日b",
    "日本 x 🙂🙂",
    "the\ndog\r\nruns\t.",
    "the\u2028dog\u00a0runs",
    "  the   dog  ",
    "\u2426 ⁇ \ufffd",
    "<s> </s> <unk> <pad> dog</s>",
    "e\u0301 ﬁ ½",
    "nul\0l",
    "dog" * 4000,
    " ",
    "",
]


@pytest.fixture(scope="module")
def tokenizer():
    return SubwordTokenizer.train(SENTENCES, 60)


@pytest.mark.any_backend
def test_special_ids_and_round_trip(tokenizer):
    ids = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.start_id, tokenizer.end_id]
    assert ids == [0, 1, 2, 3]
    assert tokenizer.vocabulary_size == 60
    for sentence in SENTENCES:
        tokens = tokenizer.tokenize(sentence)
        assert tokenizer.detokenize(tokens) == sentence
        assert "".join(map(tokenizer.id_to_piece, tokens)) == "\u2581" + sentence.replace(
            " ", "\u2581"
        )
        assert [tokenizer.piece_to_id(tokenizer.id_to_piece(t)) for t in tokens] == tokens


@pytest.mark.any_backend
def test_one_string_or_a_list(tokenizer):
    one, two = tokenizer.tokenize("the dog"), tokenizer.tokenize("")
    assert two == []
    assert tokenizer.tokenize(["the dog", ""]) == [one, two]
    assert tokenizer.tokenize([]) == []
    assert tokenizer.detokenize([one, two]) == ["the dog", ""]
    assert tokenizer.detokenize([]) == ""
    assert tokenizer.detokenize(np.array([one, one])) == ["the dog", "the dog"]
    assert tokenizer.detokenize(keras.ops.convert_to_tensor([one])) == ["the dog"]
    assert tokenizer.detokenize([2, *one, 3, 0, 0]) == "the dog"


@pytest.mark.any_backend
@pytest.mark.parametrize("text", ODD_TEXTS)
def test_case_67_second_pass_equals_first(tokenizer, text):
    first = tokenizer.tokenize(text)
    assert not set(first) & {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id}
    shown = tokenizer.detokenize(first)
    assert tokenizer.tokenize(shown) == first
    assert tokenizer.detokenize(tokenizer.tokenize(shown)) == shown


@pytest.mark.any_backend
def test_case_67_unknown_mark_and_byte_fallback(tokenizer):
    assert tokenizer.detokenize(tokenizer.tokenize("the 日本 dog🙂")) == "the \u2426 dog\u2426"
    bytewise = SubwordTokenizer.train(SENTENCES, 310, byte_fallback=True)
    tokens = bytewise.tokenize("the 日本 dog🙂")
    assert bytewise.unk_id not in tokens
    assert bytewise.detokenize(tokens) == "the 日本 dog🙂"


@pytest.mark.any_backend
def test_lone_surrogate_is_a_question_mark(tokenizer):
    assert tokenizer.tokenize("dog\ud800") == tokenizer.tokenize("dog?")


@pytest.mark.any_backend
def test_training_is_deterministic_and_silent(tokenizer, capfd):
    again = SubwordTokenizer.train(iter(SENTENCES), 60)
    assert again.model_proto == tokenizer.model_proto
    again.tokenize("日")
    assert capfd.readouterr() == ("", "")


@pytest.mark.any_backend
def test_training_drops_no_line():
    lines = ["ab\tcd", "ef\ngh", "ij\0kl", "m" * 5000]
    tokenizer = SubwordTokenizer.train(lines, 19)
    for letter in "abcdefghijklm":
        assert tokenizer.piece_to_id(letter) != tokenizer.unk_id


@pytest.mark.any_backend
def test_vocabulary_size_errors_name_the_sizes_that_work():
    with pytest.raises(ValueError, match=r"`vocabulary_size` must be at most (\d+)") as error:
        SubwordTokenizer.train(SENTENCES, 1000)
    largest = int(str(error.value).split("at most ")[1].split()[0])
    assert SubwordTokenizer.train(SENTENCES, largest).vocabulary_size == largest
    with pytest.raises(ValueError, match=r"`vocabulary_size` must be at least (\d+)") as error:
        SubwordTokenizer.train(SENTENCES, 5)
    smallest = int(str(error.value).split("at least ")[1].split()[0])
    assert SubwordTokenizer.train(SENTENCES, smallest).vocabulary_size == smallest


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "arguments, message",
    [
        (("the dog", 20), "`sentences` must be an iterable"),
        (([], 20), "`sentences` must hold some text; got 0"),
        ((["", " \n"], 20), "`sentences` must hold some text; got 2"),
        (([7], 20), "`sentences` must hold strings; got 7"),
        ((SENTENCES, 0), "`vocabulary_size` must be a positive integer"),
        ((SENTENCES, 20.5), "`vocabulary_size` must be a positive integer"),
    ],
)
def test_train_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        SubwordTokenizer.train(*arguments)


@pytest.mark.any_backend
def test_argument_errors(tokenizer):
    for ids in ([4, 60], [-1], [[4], [60]], [1.5], np.array([1.0])):
        with pytest.raises(ValueError, match=r"integers in \[0, 60\)"):
            tokenizer.detokenize(ids)
    for text in (7, None, [7], b"dog"):
        with pytest.raises(ValueError, match="`text` must"):
            tokenizer.tokenize(text)
    with pytest.raises(ValueError, match="`dropout`"):
        tokenizer.tokenize("dog", dropout=1.0)
    with pytest.raises(ValueError, match="`seed`"):
        tokenizer.tokenize("dog", seed=3)
    with pytest.raises(ValueError, match="`character_coverage`"):
        SubwordTokenizer.train(SENTENCES, 60, character_coverage=0)


@pytest.mark.any_backend
def test_dropout_splits_the_same_text_in_other_ways(tokenizer):
    text = ["the dog runs. der Läufer läuft."] * 5
    sampled = tokenizer.tokenize(text, dropout=0.5, seed=7)
    assert tokenizer.detokenize(sampled) == text
    assert len({tuple(ids) for ids in sampled}) > 1
    assert tokenizer.tokenize(text, dropout=0.5, seed=7) == sampled
    assert tokenizer.tokenize(text[0], dropout=0.5, seed=7) == sampled[0]
    assert tokenizer.tokenize(text, dropout=0.5, seed=8) != sampled


@pytest.mark.any_backend
def test_save_load_and_config(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.model"
    tokenizer.save(path)
    assert SubwordTokenizer.load(path).model_proto == tokenizer.model_proto
    config = keras.saving.serialize_keras_object(tokenizer)
    restored = keras.saving.deserialize_keras_object(config)
    assert restored.model_proto == tokenizer.model_proto
    assert restored.get_config() == tokenizer.get_config()


@pytest.mark.any_backend
def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        SubwordTokenizer.load(tmp_path / "absent.model")
    path = tmp_path / "text.model"
    path.write_text("no model")
    with pytest.raises(ValueError, match="text.model"):
        SubwordTokenizer.load(path)
    for proto in (b"", "path.model", b"no model"):
        with pytest.raises(ValueError, match="`model_proto`"):
            SubwordTokenizer(proto)


@pytest.mark.any_backend
def test_model_without_padding_is_refused():
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        model_type="bpe",
        vocab_size=60,
        minloglevel=3,
    )
    with pytest.raises(ValueError, match="`pad_id`"):
        SubwordTokenizer(model.getvalue())


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow" or importlib.util.find_spec("tensorflow_text") is None,
    reason="tokenizing in a TensorFlow graph",
)
def test_same_ids_in_a_tensorflow_graph(tokenizer):
    import tensorflow as tf
    import tensorflow_text

    texts = [*SENTENCES, *ODD_TEXTS]
    for ours in (tokenizer, SubwordTokenizer.train(SENTENCES, 310, byte_fallback=True)):
        graph = tensorflow_text.SentencepieceTokenizer(model=ours.model_proto, out_type=tf.int32)
        ids = graph.tokenize(texts)
        assert ids.to_list() == ours.tokenize(texts)
        shown = [text.decode() for text in graph.detokenize(ids).numpy()]
        assert shown == ours.detokenize(ours.tokenize(texts))
