"""Words into subword ids and back: SentencePiece's byte-pair encoding."""

import base64
import io
import numbers
import os
import re

import keras

from keras_transformer.arguments import check_positive, is_integer

PAD_ID, UNK_ID, START_ID, END_ID = 0, 1, 2, 3

# What an unknown piece becomes in text. SentencePiece's own mark is normalized to "??" when it is
# read again; this one (U+2426, "symbol for substitute") comes back as the same unknown piece.
UNKNOWN_MARK = "\u2426"

# SentencePiece drops training lines that are longer than this, without an error.
_LONGEST_LINE_BYTES = 2**30


@keras.saving.register_keras_serializable(package="keras_transformer")
class SubwordTokenizer:
    """Splits text into subword pieces with one vocabulary for both languages.

    Byte-pair encoding (Sennrich et al. 2016) as SentencePiece does it, on raw text: no other
    tokenizer is needed before it, and `detokenize` gives readable text. The ids are those that
    `tensorflow_text.SentencepieceTokenizer` gives for the same `model_proto`.

    Text is normalized first (Unicode NFKC; every kind of white space, line breaks too, becomes one
    blank). A run of characters that training has not seen becomes `unk_id`, which `detokenize`
    writes as "\u2426" (U+2426); that text has the same ids again. Special pieces never come from
    text: "</s>" in a sentence is four characters. Half of a UTF-16 surrogate pair, which is no
    character, is read as "?".

    Args:
        model_proto: bytes, a serialized SentencePiece model that has ids for padding, start and
            end. `train` and `load` make one.

    Raises:
        ValueError: if `model_proto` is not such a model.
        ImportError: if SentencePiece is not installed.

    Example:

    >>> from keras_transformer.text import SubwordTokenizer
    >>> tokenizer = SubwordTokenizer.train(["a dog runs", "ein Hund rennt"], vocabulary_size=20)
    >>> tokenizer.detokenize(tokenizer.tokenize("a red Hund"))
    'a red Hund'

    Reference: "Neural Machine Translation of Rare Words with Subword Units" (arXiv 1508.07909);
    "SentencePiece" (arXiv 1808.06226).
    """

    def __init__(self, model_proto):
        sentencepiece = _import_sentencepiece()
        self.model_proto = _checked_proto(model_proto)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.model_proto)
        except RuntimeError as error:
            raise ValueError(
                "`model_proto` must be a serialized SentencePiece model; got "
                f"{len(model_proto)} bytes that are not. Make one with `SubwordTokenizer.train`."
            ) from error
        self.vocabulary_size = self._processor.get_piece_size()
        self.pad_id = self._processor.pad_id()
        self.unk_id = self._processor.unk_id()
        self.start_id = self._processor.bos_id()
        self.end_id = self._processor.eos_id()
        for name in ("pad_id", "start_id", "end_id"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"`model_proto` must be a SentencePiece model with a `{name}`; got one that "
                    "lacks it. Train with the ids for padding, start and end set."
                )

    @classmethod
    def train(cls, sentences, vocabulary_size, *, character_coverage=1.0, byte_fallback=False):
        """Learns the pieces from sentences; the same sentences give the same model.

        Args:
            sentences: iterable of str, of both languages together. White space other than blanks
                counts as a blank.
            vocabulary_size: int, number of pieces, with padding (id 0), unknown (1), start (2) and
                end (3).
            character_coverage: float in (0, 1], the share of the text whose characters get a
                piece; rarer characters become unknown.
            byte_fallback: bool, spell characters without a piece in UTF-8 bytes (256 of the
                pieces) and never give unknown.

        Returns:
            A `SubwordTokenizer`.

        Raises:
            ValueError: if the sentences are no strings or all blank, or if they allow no vocabulary
                of this size; the message says which sizes they allow.
        """
        if isinstance(sentences, str | bytes):
            raise ValueError(
                "`sentences` must be an iterable of strings; got one string. Pass a list."
            )
        check_positive(vocabulary_size=vocabulary_size)
        if not 0 < character_coverage <= 1:
            raise ValueError(
                f"`character_coverage` must be above 0 and at most 1; got {character_coverage!r}."
            )
        sentences = [_training_line(sentence) for sentence in sentences]
        if not any(sentences):
            raise ValueError(
                "`sentences` must hold some text; got "
                f"{len(sentences)} sentences, none with a character in it."
            )
        model = io.BytesIO()
        try:
            _import_sentencepiece().SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_writer=model,
                model_type="bpe",
                vocab_size=int(vocabulary_size),
                character_coverage=float(character_coverage),
                byte_fallback=bool(byte_fallback),
                pad_id=PAD_ID,
                unk_id=UNK_ID,
                bos_id=START_ID,
                eos_id=END_ID,
                unk_surface=UNKNOWN_MARK,
                max_sentence_length=_LONGEST_LINE_BYTES,
                minloglevel=3,
            )
        except RuntimeError as error:
            raise ValueError(_size_message(vocabulary_size, str(error))) from error
        return cls(model.getvalue())

    @classmethod
    def load(cls, path):
        """Returns the tokenizer in the SentencePiece model file `path`.

        Raises:
            ValueError: if there is no such file, or it is not a SentencePiece model.
        """
        if not os.path.isfile(path):
            raise ValueError(f"`path` must be a SentencePiece model file; there is no file {path}.")
        with open(path, "rb") as file:
            model_proto = file.read()
        try:
            return cls(model_proto)
        except ValueError as error:
            raise ValueError(
                f"`path` must be a SentencePiece model file; got {path}: {error}"
            ) from error

    def save(self, path):
        """Writes the SentencePiece model file that `load` and other programs read."""
        with open(path, "wb") as file:
            file.write(self.model_proto)

    def tokenize(self, text, dropout=0.0, seed=None):
        """Turns text into ids, without padding, start or end.

        Args:
            text: str, or list of str.
            dropout: float in [0, 1), BPE-dropout: each merge of two pieces is left out with this
                probability, so that the same sentence is split in another way each time (for
                training only; Provilkov et al. 2020, arXiv 1910.13267).
            seed: optional int, makes the splits of this call repeatable. It seeds SentencePiece's
                generator, which is one for the whole process.

        Returns:
            List of int for a string; a list of such lists for a list of strings.

        Raises:
            ValueError: if `text` is neither, `dropout` is out of range, or `seed` comes without
                dropout.
        """
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1); got {dropout!r}.")
        if seed is not None and dropout == 0:
            raise ValueError(f"`seed` must come with a `dropout` above 0; got seed={seed!r}.")
        sampling = {}
        if dropout:
            sampling = {"enable_sampling": True, "alpha": float(dropout), "nbest_size": -1}
        if seed is not None:
            # Threads would draw in an order of their own.
            sampling["num_threads"] = 1
            _import_sentencepiece().set_random_generator_seed(seed)
        if isinstance(text, str):
            return self._processor.encode([_utf8(text)], **sampling)[0]
        if not isinstance(text, list | tuple):
            raise ValueError(f"`text` must be a string or a list of strings; got {text!r}.")
        return self._processor.encode([_utf8(sentence) for sentence in text], **sampling)

    def detokenize(self, ids):
        """Turns ids into text; padding, start, end and other control ids are left out.

        Args:
            ids: integers, one axis for a sentence, two axes (or a list of lists) for several;
                lists, arrays or tensors.

        Returns:
            A str for one sentence; a list of str for several.

        Raises:
            ValueError: if an id is not in [0, vocabulary_size).
        """
        if not isinstance(ids, list | tuple):
            ids = keras.ops.convert_to_numpy(ids).tolist()
        if ids and not isinstance(ids[0], numbers.Number):
            return [self.detokenize(sentence) for sentence in ids]
        for token in ids:
            self._check_id(token)
        is_control = self._processor.is_control
        return self._processor.decode([int(token) for token in ids if not is_control(int(token))])

    def id_to_piece(self, token):
        """Returns the piece of an id; "\u2581" in it stands for a blank."""
        self._check_id(token)
        return self._processor.id_to_piece(int(token))

    def piece_to_id(self, piece):
        """Returns the id of a piece, `unk_id` if there is none."""
        return self._processor.piece_to_id(piece)

    def get_config(self):
        return {"model_proto": base64.b64encode(self.model_proto).decode("ascii")}

    @classmethod
    def from_config(cls, config):
        return cls(base64.b64decode(config["model_proto"]))

    def _check_id(self, token):
        if not is_integer(token) or not 0 <= token < self.vocabulary_size:
            raise ValueError(
                f"ids must be integers in [0, {self.vocabulary_size}), the vocabulary; got "
                f"{token!r}. Does the model belong to this tokenizer?"
            )


def _import_sentencepiece():
    try:
        import sentencepiece
    except ImportError as error:
        raise ImportError(
            "SubwordTokenizer needs SentencePiece: pip install keras-transformer-layers[text]"
        ) from error
    return sentencepiece


def _checked_proto(model_proto):
    # Zero bytes are a valid message with nothing in it, which SentencePiece loads.
    if not isinstance(model_proto, bytes) or not model_proto:
        raise ValueError(
            "`model_proto` must be the bytes of a SentencePiece model; got "
            f"{type(model_proto).__name__} {model_proto!r:.40}. Use `SubwordTokenizer.load` for a "
            "file."
        )
    return model_proto


def _utf8(sentence, argument="text"):
    if not isinstance(sentence, str):
        raise ValueError(f"`{argument}` must hold strings; got {sentence!r} among them.")
    return sentence.encode("utf-8", "replace")


def _training_line(sentence):
    # SentencePiece leaves out, without a word, lines with a tab or a null character.
    return re.sub(rb"[\t\r\n\0]", b" ", _utf8(sentence, "sentences")).strip()


def _size_message(vocabulary_size, reason):
    """Says in this library's words why SentencePiece refused to train."""
    largest = re.search(r"too high .* <= (\d+)", reason)
    if largest:
        return (
            f"`vocabulary_size` must be at most {largest[1]} for these sentences; got "
            f"{vocabulary_size}. Give more text or ask for fewer pieces."
        )
    smallest = re.search(r"smaller than required_chars\. \d+ vs (\d+)", reason)
    if smallest:
        return (
            f"`vocabulary_size` must be at least {smallest[1]} for these sentences, a piece for "
            f"each character; got {vocabulary_size}. Lower `character_coverage` or ask for more."
        )
    return f"SentencePiece cannot train on these sentences: {reason}"
