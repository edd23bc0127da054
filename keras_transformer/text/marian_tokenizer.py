"""The tokenizer of Marian's models: two SentencePiece models over one vocabulary of its own."""

import json
import re
from pathlib import Path

SOURCE_FILE, TARGET_FILE, VOCABULARY_FILE = "source.spm", "target.spm", "vocab.json"
_SPECIAL = {"pad": "<pad>", "unk": "<unk>", "end": "</s>"}
_LANGUAGE_CODE = re.compile(">>.*?<<")


class MarianTokenizer:
    """Ids of source sentences and sentences of target ids, as OPUS-MT's models were trained with.

    The source model cuts a sentence into pieces, `vocabulary` numbers them, and the target model
    joins the pieces of a translation. A model of several target languages is told the language by a
    code in front of the sentence: ">>fra<< Hello".

    Args:
        source_proto, target_proto: bytes of the SentencePiece models.
        vocabulary: dict of piece to id, 0 .. V - 1, with "<pad>", "<unk>" and "</s>".

    Attributes:
        vocabulary_size, pad_id, unk_id, end_id: int.
        start_id: int, the padding's, from which Marian's searches start.

    Raises:
        ValueError: if a SentencePiece model is damaged or the vocabulary is not one.

    Example:

    ```python
    tokenizer = MarianTokenizer.load("opus-mt-en-de")
    tokenizer.tokenize("A dog runs.")
    ```
    """

    def __init__(self, source_proto, target_proto, vocabulary):
        _check_vocabulary(vocabulary)
        self.source_proto = source_proto
        self.target_proto = target_proto
        self.vocabulary = dict(vocabulary)
        self._source = _processor("source_proto", source_proto)
        self._target = _processor("target_proto", target_proto)
        self._pieces = {number: piece for piece, number in vocabulary.items()}
        self.vocabulary_size = len(vocabulary)
        self.pad_id = vocabulary[_SPECIAL["pad"]]
        self.unk_id = vocabulary[_SPECIAL["unk"]]
        self.end_id = vocabulary[_SPECIAL["end"]]
        self.start_id = self.pad_id

    @classmethod
    def load(cls, path):
        """Reads the tokenizer of a folder with `source.spm`, `target.spm` and `vocab.json`."""
        path = Path(path)
        files = [path / name for name in (SOURCE_FILE, TARGET_FILE, VOCABULARY_FILE)]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise ValueError(f"`path` must hold {missing} too; {path} does not. Download them.")
        try:
            vocabulary = json.loads(files[2].read_bytes())
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{files[2]} is damaged: {error}. Download it again.") from error
        return cls(files[0].read_bytes(), files[1].read_bytes(), vocabulary)

    def save(self, path):
        """Writes the folder that `load` reads."""
        path = Path(path)
        path.mkdir(parents=True, exist_ok=True)
        (path / SOURCE_FILE).write_bytes(self.source_proto)
        (path / TARGET_FILE).write_bytes(self.target_proto)
        text = json.dumps(self.vocabulary, ensure_ascii=False)
        (path / VOCABULARY_FILE).write_text(text, encoding="utf-8")

    def tokenize(self, text):
        """Returns the ids of a source sentence, or a list of them for a list; no special ids."""
        if not isinstance(text, str):
            return [self.tokenize(sentence) for sentence in text]
        code = _LANGUAGE_CODE.match(text)
        pieces = [code[0]] if code else []
        text = text[code.end() :] if code else text
        # What UTF-8 cannot hold becomes a question mark.
        text = text.encode("utf-8", "replace").decode("utf-8")
        pieces += self._source.encode(text, out_type=str)
        return [self.vocabulary.get(piece, self.unk_id) for piece in pieces]

    def detokenize(self, ids):
        """Returns the target sentence of ids, or a list of them for a list of lists.

        Padding and end are left out.
        """
        ids = list(ids)
        if ids and not hasattr(ids[0], "__index__"):
            return [self.detokenize(sentence) for sentence in ids]
        outside = [token for token in ids if not 0 <= token < self.vocabulary_size]
        if outside:
            raise ValueError(
                f"`ids` must be in [0, {self.vocabulary_size}); got {outside[0]}. Does the model "
                "belong to this tokenizer?"
            )
        special = (self.pad_id, self.end_id)
        pieces = [self._pieces[int(token)] for token in ids if token not in special]
        return self._target.decode_pieces(pieces).replace("\u2581", " ").strip()


def _processor(name, proto):
    try:
        import sentencepiece
    except ImportError as error:
        raise ImportError(
            "MarianTokenizer needs SentencePiece: pip install keras-transformer-layers[text]"
        ) from error
    if not isinstance(proto, bytes) or not proto:
        raise ValueError(
            f"`{name}` must be the bytes of a SentencePiece model; got {proto!r:.40}. Use "
            "`MarianTokenizer.load` for a folder."
        )
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(proto)
    except RuntimeError as error:
        raise ValueError(
            f"`{name}` must be the bytes of a SentencePiece model; they are damaged: {error}. "
            "Download the file again."
        ) from error
    return processor


def _check_vocabulary(vocabulary):
    if not isinstance(vocabulary, dict) or sorted(map(str, vocabulary.values())) != sorted(
        map(str, range(len(vocabulary)))
    ):
        raise ValueError(
            "`vocabulary` must be a dict of piece to id with the ids 0, 1, ... once each; got "
            f"{vocabulary!r:.80}. Use the model's own vocab.json."
        )
    missing = [piece for piece in _SPECIAL.values() if piece not in vocabulary]
    if missing:
        raise ValueError(f"`vocabulary` must hold {missing} too. Use the model's own vocab.json.")
