import pytest
from tiny_translators import SENTENCES, CopyModel, random_transformer, subword_tokenizer

from keras_transformer import Translator
from keras_transformer.decoding import GreedySearch
from keras_transformer.text import ParallelCorpus, TokenBatches
from keras_transformer.text.keras_hub_tokenizer import KerasHubTokenizer, as_tokenizer

hub = pytest.importorskip("keras_hub").tokenizers
WORDS = ["[PAD]", "[UNK]", "[START]", "[END]", "a", "dog", "run", "##s", "the", "."]
IDS = {"pad_id": 0, "start_id": 2, "end_id": 3}


def word_pieces():
    return KerasHubTokenizer(hub.WordPieceTokenizer(WORDS, lowercase=True), **IDS)


def sentence_pieces():
    proto = subword_tokenizer().model_proto
    return KerasHubTokenizer(hub.SentencePieceTokenizer(proto), **IDS)


def byte_pairs():
    # Bytes of ASCII are written as themselves, a blank as "Ġ".
    pieces = ["<pad>", "<s>", "</s>", *map(chr, range(33, 127)), "Ġ", "do", "dog"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = hub.BytePairTokenizer(vocabulary, ["d o", "do g"])
    return KerasHubTokenizer(tokenizer, pad_id=0, start_id=1, end_id=2)


def test_word_pieces():
    tokenizer = word_pieces()
    assert tokenizer.vocabulary_size == 10
    assert tokenizer.tokenize("A dog runs.") == [4, 5, 6, 7, 9]
    assert tokenizer.tokenize(["the dog", "", " \t\u3000", "[PAD]"]) == [[8, 5], [], [], [1, 1, 1]]
    assert tokenizer.tokenize([]) == []
    assert tokenizer.detokenize([2, 4, 5, 6, 7, 3, 0]) == "a dog runs"
    assert tokenizer.detokenize([[], [5]]) == ["", "dog"]


def test_sentence_pieces_are_those_of_our_tokenizer():
    ours, theirs = subword_tokenizer(), sentence_pieces()
    assert theirs.vocabulary_size == ours.vocabulary_size
    ids = ours.tokenize(SENTENCES)
    assert theirs.tokenize(SENTENCES) == ids
    assert theirs.detokenize(ids) == SENTENCES


def test_unknown_text_comes_back_as_the_same_ids():
    # Case 67.
    for make in (word_pieces, sentence_pieces, byte_pairs):
        tokenizer = make()
        ids = tokenizer.tokenize("a dog [PAD] </s>")
        assert not set(ids) & {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id}
        assert tokenizer.tokenize(tokenizer.detokenize(ids))[:2] == ids[:2]


@pytest.mark.parametrize("make", [word_pieces, sentence_pieces, byte_pairs])
def test_translates_saves_and_loads(tmp_path, make):
    tokenizer = make()
    text = ["a dog", "", " ", "dog"]
    assert Translator(CopyModel(tokenizer), tokenizer, GreedySearch()).translate(text) == [
        "a dog",
        "",
        "",
        "dog",
    ]
    tokenizer.save(tmp_path / "tokenizer")
    loaded = KerasHubTokenizer.load(tmp_path / "tokenizer")
    assert loaded.tokenize(text) == tokenizer.tokenize(text)
    assert (loaded.pad_id, loaded.start_id) == (tokenizer.pad_id, tokenizer.start_id)


def test_a_translator_keeps_it(tmp_path):
    tokenizer = word_pieces()
    translator = Translator(random_transformer(tokenizer), tokenizer, GreedySearch(5))
    translator.save(tmp_path / "en-de")
    loaded = Translator.load(tmp_path / "en-de").tokenizer
    assert isinstance(loaded, KerasHubTokenizer)
    assert loaded.tokenize("a dog runs.") == [4, 5, 6, 7, 9]


def test_makes_batches():
    batches = TokenBatches(
        ParallelCorpus(["a dog"], ["the dog runs"]), word_pieces(), length_step=1
    )
    inputs, labels, _ = batches[0]
    assert inputs["source"].tolist() == [[4, 5, 3, 0, 0]]
    assert inputs["target"].tolist() == [[2, 8, 5, 6, 7]]
    assert labels.tolist() == [[8, 5, 6, 7, 3]]


def test_special_ids_of_the_tokenizer_itself():
    bert = pytest.importorskip("keras_hub").models.BertTokenizer(
        ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "a", "dog"]
    )
    for tokenizer in (KerasHubTokenizer(bert), as_tokenizer(bert)):
        assert (tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id) == (1, 2, 3)
    inputs, labels, _ = TokenBatches([("a dog", "dog")], bert, length_step=1)[0]
    assert (inputs["source"].tolist(), labels.tolist()) == ([[5, 6, 3]], [[6, 3, 1]])
    with pytest.raises(ValueError, match="`pad_id` must be an id .* from 0 to 9; got None. Pass"):
        as_tokenizer(hub.WordPieceTokenizer(WORDS))
    assert as_tokenizer(subword_tokenizer()) is subword_tokenizer()


def test_wrong_tokenizers():
    with pytest.raises(ValueError, match="must be a tokenizer of KerasHub; got SubwordTokenizer"):
        KerasHubTokenizer(subword_tokenizer())
    padded = hub.WordPieceTokenizer(WORDS, sequence_length=4)
    with pytest.raises(ValueError, match="no ids for an empty text; got 4. Make it without"):
        KerasHubTokenizer(padded, **IDS)
    with pytest.raises(ValueError, match="`end_id` must be an id .* from 0 to 9; got 10"):
        KerasHubTokenizer(hub.WordPieceTokenizer(WORDS), pad_id=0, start_id=2, end_id=10)
    with pytest.raises(ValueError, match="`pad_id` and `end_id` must differ; got 3"):
        KerasHubTokenizer(hub.WordPieceTokenizer(WORDS), pad_id=3, start_id=2, end_id=3)


def test_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(ValueError, match="has no tokenizer.json"):
        KerasHubTokenizer.load(tmp_path)
