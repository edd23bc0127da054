"""A translator: a tokenizer, a model and a search."""

import hashlib
import json
import warnings
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from keras_transformer.arguments import check_positive
from keras_transformer.decoding import BeamSearch, Search
from keras_transformer.decoding.inputs import check_model
from keras_transformer.new_folder import new_folder
from keras_transformer.text.keras_hub_tokenizer import KerasHubTokenizer, as_tokenizer
from keras_transformer.text.marian_tokenizer import MarianTokenizer
from keras_transformer.text.subword_tokenizer import SubwordTokenizer

FORMAT = 1
CONFIG_FILE = "translator.json"
# Sentences that a model reads at once where nothing else is said, and in an export.
BATCH_SIZE = 32
_MODEL_FILE = "model.keras"
# The tokenizers that can be saved, and what each is saved as.
_TOKENIZER_PARTS = {
    SubwordTokenizer: "tokenizer.model",
    KerasHubTokenizer: "tokenizer",
    MarianTokenizer: "tokenizer",
}
_PARTS_BY_NAME = {each.__name__: (each, part) for each, part in _TOKENIZER_PARTS.items()}


class Translations(NamedTuple):
    """What the translations are, and how sure the model is of each.

    Attributes:
        texts: list of str.
        scores: float32 array (n,), the search's score of each text: for a beam search its
            log-probability over the length penalty. 0 for a blank sentence.
    """

    texts: list
    scores: np.ndarray


class Translator:
    """Translates text: a tokenizer, a model and a search put together.

    A translation depends on its sentence alone, not on what else is in the list, nor on the batch
    size. Each source of n pieces, the end counted, is padded to the first of `source_widths` that
    holds it, and is searched together with sources of that width only; so a search without a
    `max_length` of its own, whose limit is the width + 50, has the same limit for a sentence in any
    company. The exported graph goes by the same rule.

    A sentence without pieces (empty, blank) is translated by "", and no model runs. A longer one
    than `max_source_length` pieces is cut there, and a warning says how many were.

    Args:
        model: a model that can be searched (`decoding.Search`), such as `models.Transformer`.
        tokenizer: `SubwordTokenizer`; `MarianTokenizer`; one of KerasHub's tokenizers, in a
            `text.KerasHubTokenizer` unless it names its special ids itself; or an object with their
            methods, with which the translator can neither be saved nor exported.
        search: a `decoding.Search`; None is `BeamSearch()`.
        max_source_length: int, the most pieces of a source, the end counted.

    Raises:
        ValueError: if model and tokenizer do not fit, or if the model's learned positions are fewer
            than what the search may read.

    Example, with a model that has not been trained:

    >>> from keras_transformer import Translator
    >>> from keras_transformer.decoding import BeamSearch
    >>> from keras_transformer.models import Transformer
    >>> from keras_transformer.text import SubwordTokenizer
    >>> tokenizer = SubwordTokenizer.train(["a dog runs", "ein Hund rennt"], vocabulary_size=20)
    >>> model = Transformer(20, num_layers=1, model_dim=16, num_heads=2, intermediate_dim=32)
    >>> translator = Translator(model, tokenizer, BeamSearch(beam_width=4, max_length=7))
    >>> len(translator.translate(["a dog runs", ""]))
    2

    `translator.save("en-de")`, `Translator.load("en-de")` and `translator.export("served")` follow.
    """

    def __init__(self, model, tokenizer, search=None, max_source_length=256):
        check_model(model)
        check_positive(max_source_length=max_source_length)
        if search is not None and not isinstance(search, Search):
            raise ValueError(
                f"`search` must be a `decoding.Search`; got {search!r}. Pass `BeamSearch(...)`."
            )
        self.model = model
        self.tokenizer = as_tokenizer(tokenizer)
        self.search = search or BeamSearch()
        self.max_source_length = max_source_length
        self.source_widths = source_widths(max_source_length)
        _check_fit(model, self.tokenizer)
        if hasattr(model, "check_lengths"):
            longest_target = self.search.max_length or self.source_widths[-1] + 50
            model.check_lengths(max_source_length, longest_target)

    def translate(self, sentences, batch_size=BATCH_SIZE):
        """Translates sentences.

        Args:
            sentences: list of str; one string is an error, not a list of characters.
            batch_size: int, how many sentences the model reads at once. The search is compiled once
                a source width and power of two up to it (TensorFlow, JAX).

        Returns:
            List of str, in the order of the sentences.

        Raises:
            ValueError: if `sentences` is not a list of strings, or `batch_size` not positive.
        """
        return self.translate_with_scores(sentences, batch_size).texts

    def translate_with_scores(self, sentences, batch_size=BATCH_SIZE):
        """Translates sentences as `translate` does, and returns `Translations`."""
        check_positive(batch_size=batch_size)
        sources = self._encode(sentences)
        texts = [""] * len(sources)
        scores = np.zeros(len(sources), "float32")
        search = self.search.best_only()
        for width, numbers in self._batches(sources, batch_size):
            ids = np.full((len(numbers), width), self.tokenizer.pad_id, "int32")
            for row, number in zip(ids, numbers, strict=True):
                row[: len(sources[number])] = sources[number]
            found = search(self.model, ids)
            best = zip(found.tokens[:, 0], found.lengths[:, 0], strict=True)
            best = [tokens[:length].tolist() for tokens, length in best]
            for number, text in zip(numbers, self.tokenizer.detokenize(best), strict=True):
                texts[number] = text
            scores[numbers] = found.scores[:, 0]
        return Translations(texts, scores)

    def save(self, path, overwrite=False):
        """Writes a folder: the model, the tokenizer and `translator.json`.

        It is written beside `path` and renamed, so that a failure leaves what was there.

        Args:
            path: path of the folder.
            overwrite: bool, whether a translator at `path` may be replaced. Anything else there
                never is.

        Raises:
            ValueError: if `path` exists, or the tokenizer cannot be saved.
        """
        part = _TOKENIZER_PARTS.get(type(self.tokenizer))
        if part is None:
            raise ValueError(
                "`tokenizer` must be this library's or one of KerasHub's to be saved; got "
                f"{type(self.tokenizer).__name__}."
            )
        with new_folder(path, overwrite, marker=CONFIG_FILE) as folder:
            self.model.save(folder / _MODEL_FILE)
            self.tokenizer.save(folder / part)
            config = {
                "format": FORMAT,
                "tokenizer": type(self.tokenizer).__name__,
                "search": keras.saving.serialize_keras_object(self.search),
                "max_source_length": self.max_source_length,
                "sha256": _checksums(folder),
            }
            (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2), encoding="utf-8")

    @classmethod
    def load(cls, path):
        """Returns the translator that `save` wrote, on any backend, without `custom_objects`.

        The model is not compiled: it translates; to train on, compile it.

        Raises:
            ValueError: if `path` is no such folder, or a part is missing or damaged; the message
                names it.
        """
        path = Path(path)
        config = _read_config(path)
        _check_parts(path, config["sha256"])
        tokenizer_class, part = _PARTS_BY_NAME[config["tokenizer"]]
        return cls(
            keras.saving.load_model(path / _MODEL_FILE, compile=False),
            tokenizer_class.load(path / part),
            config["search"],
            config["max_source_length"],
        )

    @classmethod
    def from_huggingface(cls, folder, search=None, max_source_length=256, **arguments):
        """Returns the translator of a Marian checkpoint, such as those of OPUS-MT.

        Args:
            folder: path of a folder with `config.json`, `model.safetensors`, `source.spm`,
                `target.spm` and `vocab.json`; or a name on the Hugging Face hub, where
                `huggingface_hub` is installed.
            search, max_source_length: as in `Translator`.
            **arguments: of the model, as in `interop.huggingface.load_model`.

        Raises:
            ValueError: if a file is missing or damaged, or the checkpoint is of another family.
        """
        from keras_transformer.interop.huggingface.checkpoint import load_model, local_folder

        folder = local_folder(folder)
        model = load_model(folder, **arguments)
        return cls(model, MarianTokenizer.load(folder), search, max_source_length)

    def export(self, path, overwrite=False, jit_compile=False):
        """Writes a SavedModel, string tensor in and string tensor out: see `serving`.

        Args:
            path: path of the folder.
            overwrite: bool, whether a SavedModel at `path` may be replaced.
            jit_compile: bool, whether XLA compiles the search where it is served: faster, after
                seconds for each new bucket of shapes.

        Raises:
            ValueError: if `path` exists, or the tokenizer has no graph form.
            ImportError: if TensorFlow or tensorflow-text is not installed.
        """
        from keras_transformer.serving import export_saved_model

        export_saved_model(self, path, overwrite, jit_compile)

    def _encode(self, sentences):
        """Returns the ids of each sentence with the end, none for a sentence without pieces."""
        if isinstance(sentences, str) or not isinstance(sentences, list | tuple):
            raise ValueError(
                f"`sentences` must be a list of strings; got {sentences!r:.80}. Pass [sentence] "
                "for one."
            )
        for number, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise ValueError(
                    f"`sentences` must hold strings; got {sentence!r:.80} at index {number}."
                )
        rows = self.tokenizer.tokenize(list(sentences)) if sentences else []
        most = self.max_source_length - 1
        cut = sum(len(row) > most for row in rows)
        if cut:
            warnings.warn(
                f"{cut} of {len(rows)} sentences have more than {self.max_source_length} pieces "
                "(`max_source_length`, the end counted) and were cut there.",
                stacklevel=4,
            )
        return [[*row[:most], self.tokenizer.end_id] if len(row) else [] for row in rows]

    def _batches(self, sources, batch_size):
        """Yields (width, indices of sources) with at most `batch_size` sources of that width."""
        lengths = np.array([len(source) for source in sources], dtype=int)
        of_width = np.searchsorted(self.source_widths, lengths)
        for index, width in enumerate(self.source_widths):
            numbers = np.flatnonzero((of_width == index) & (lengths > 0))
            numbers = numbers[np.argsort(lengths[numbers], kind="stable")]
            last = max(len(numbers) - batch_size, 0)
            for start in range(0, len(numbers), batch_size):
                # The last batch reaches back to be full, so that one compiled shape serves all.
                start = min(start, last)
                yield width, numbers[start : start + batch_size]


def source_widths(max_source_length):
    """Returns the widths that sources are padded to, narrow to wide.

    Multiples of 8, as the search pads to, each at least an eighth above the one before, up to the
    first that holds `max_source_length`.

    >>> source_widths(60)
    (8, 16, 24, 32, 40, 48, 56, 64)
    """
    widths = [8]
    while widths[-1] < max_source_length:
        widths.append(-(-widths[-1] * 9 // 64) * 8)
    return tuple(widths)


def _check_fit(model, tokenizer):
    """Raises ValueError where the tokenizer's ids do not mean to the model what they are."""
    for name in ("vocabulary_size", "pad_id", "start_id", "end_id"):
        theirs = getattr(tokenizer, name, None)
        if theirs != getattr(model, name):
            raise ValueError(
                f"`model` and `tokenizer` must have the same `{name}`; got {getattr(model, name)} "
                f"of the model and {theirs} of the tokenizer. Use the tokenizer that the model was "
                "trained with."
            )


def _checksums(folder):
    """Returns the SHA-256 of every file in the folder, by its path in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in files}


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_config(path):
    file = path / CONFIG_FILE
    if not file.is_file():
        raise ValueError(
            f"`path` must be a folder that `Translator.save` wrote; {path} has no {CONFIG_FILE}."
        )
    try:
        config = json.loads(file.read_bytes())
        if config["format"] != FORMAT:
            raise ValueError(
                f"`path` must hold a translator of format {FORMAT}; got {config['format']!r} in "
                f"{file}. Load it with the version of this library that wrote it."
            )
        if config["tokenizer"] not in _PARTS_BY_NAME:
            raise KeyError(config["tokenizer"])
        search = keras.saving.deserialize_keras_object(config["search"])
        return {
            "tokenizer": config["tokenizer"],
            "search": search,
            "max_source_length": config["max_source_length"],
            "sha256": dict(config["sha256"]),
        }
    except (json.JSONDecodeError, UnicodeDecodeError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is damaged: {error!r}. Save the translator again.") from error


def _check_parts(path, checksums):
    for name, checksum in checksums.items():
        if not (path / name).is_file():
            raise ValueError(f"the translator in {path} lacks its {name}. Save it again.")
        if _sha256(path / name) != checksum:
            raise ValueError(f"{path / name} is damaged: its checksum has changed. Save it again.")
