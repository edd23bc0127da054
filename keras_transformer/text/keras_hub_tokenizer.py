"""KerasHub's tokenizers, where this library's own is asked for."""

import json
import numbers
from pathlib import Path

import keras

_CONFIG_FILE = "tokenizer.json"


class KerasHubTokenizer:
    """Gives a KerasHub tokenizer the methods and attributes of `SubwordTokenizer`.

    Args:
        tokenizer: a `keras_hub.tokenizers.Tokenizer` that returns ids: `WordPieceTokenizer`,
            `SentencePieceTokenizer`, `BytePairTokenizer`, or a model's, such as
            `keras_hub.models.BertTokenizer`. It must not pad or add special ids itself.
        pad_id, start_id, end_id: int, the ids of padding, start and end. None takes the tokenizer's
            `pad_token_id`, `start_token_id` or `end_token_id`, where it has one. Text never holds
            them and `detokenize` leaves them out.

    Attributes:
        vocabulary_size: int.

    Raises:
        ValueError: if it is no such tokenizer, or an id is missing, not in the vocabulary, or that
            of another special token.

    Example:

    ```python
    import keras_hub
    from keras_transformer.text import KerasHubTokenizer

    words = ["[PAD]", "[UNK]", "[START]", "[END]", "a", "dog", "run", "##s"]
    tokenizer = KerasHubTokenizer(
        keras_hub.tokenizers.WordPieceTokenizer(words), pad_id=0, start_id=2, end_id=3
    )
    tokenizer.tokenize("a dog runs")  # [4, 5, 6, 7]
    ```
    """

    def __init__(self, tokenizer, *, pad_id=None, start_id=None, end_id=None):
        if not is_keras_hub_tokenizer(tokenizer):
            raise ValueError(
                "`tokenizer` must be a tokenizer of KerasHub; got "
                f"{type(tokenizer).__name__}. Pass for example a `WordPieceTokenizer`."
            )
        added = len(tokenizer.tokenize(""))
        if added:
            raise ValueError(
                f"`tokenizer` must give no ids for an empty text; got {added}. Make it without "
                "`sequence_length`, `add_bos` and `add_eos`: padding and special ids come later."
            )
        self.tokenizer = tokenizer
        self.vocabulary_size = int(tokenizer.vocabulary_size())
        self.pad_id = self._special_id("pad", pad_id)
        self.start_id = self._special_id("start", start_id)
        self.end_id = self._special_id("end", end_id)
        if self.pad_id == self.end_id:
            raise ValueError(
                f"`pad_id` and `end_id` must differ; got {self.pad_id} for both. Add a token."
            )

    def tokenize(self, text):
        """Turns text into ids, without padding, start or end; blank text into none.

        Args:
            text: str, or list of str.

        Returns:
            List of int for a string; a list of such lists for a list of strings.
        """
        if isinstance(text, str):
            return self.tokenize([text])[0]
        texts = [sentence.encode("utf-8", "replace").decode("utf-8") for sentence in text]
        rows = self.tokenizer.tokenize(texts) if texts else []
        return [
            [int(token) for token in row] if sentence.strip() else []
            for sentence, row in zip(texts, rows, strict=True)
        ]

    def detokenize(self, ids):
        """Turns ids into text; padding, start and end are left out.

        Args:
            ids: integers, one axis for a sentence, two axes (or a list of lists) for several.

        Returns:
            A str for one sentence; a list of str for several.
        """
        if not isinstance(ids, list | tuple):
            ids = keras.ops.convert_to_numpy(ids).tolist()
        if ids and not isinstance(ids[0], numbers.Number):
            return [self.detokenize(sentence) for sentence in ids]
        special = (self.pad_id, self.start_id, self.end_id)
        kept = [int(token) for token in ids if token not in special]
        return str(self.tokenizer.detokenize([kept])[0]) if kept else ""

    def save(self, path):
        """Writes a folder from which `load` makes the same tokenizer, vocabulary included."""
        path = Path(path)
        path.mkdir(parents=True)
        self.tokenizer.save_assets(str(path))
        config = {
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "pad_id": self.pad_id,
            "start_id": self.start_id,
            "end_id": self.end_id,
        }
        (path / _CONFIG_FILE).write_text(json.dumps(config, indent=2), encoding="utf-8")

    @classmethod
    def load(cls, path):
        """Returns the tokenizer that `save` wrote to the folder `path`.

        Raises:
            ValueError: if there is none.
            ImportError: if KerasHub is not installed.
        """
        path = Path(path)
        if not (path / _CONFIG_FILE).is_file():
            raise ValueError(
                f"`path` must be a folder that `KerasHubTokenizer.save` wrote; {path} has no "
                f"{_CONFIG_FILE}."
            )
        try:
            import keras_hub  # noqa: F401  registers its classes
        except ImportError as error:
            raise ImportError(
                f"the tokenizer in {path} is one of KerasHub's: pip install keras-hub"
            ) from error
        config = json.loads((path / _CONFIG_FILE).read_text(encoding="utf-8"))
        tokenizer = keras.saving.deserialize_keras_object(config.pop("tokenizer"))
        tokenizer.load_assets(str(path))
        return cls(tokenizer, **config)

    def _special_id(self, name, value):
        if value is None:
            value = getattr(self.tokenizer, f"{name}_token_id", None)
        is_id = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not is_id or not 0 <= value < self.vocabulary_size:
            raise ValueError(
                f"`{name}_id` must be an id of the vocabulary, from 0 to "
                f"{self.vocabulary_size - 1}; got {value!r}. Pass the id of the token for it."
            )
        return int(value)


def is_keras_hub_tokenizer(tokenizer):
    """Returns whether an object has the methods of `keras_hub.tokenizers.Tokenizer`."""
    names = ("tokenize", "detokenize", "vocabulary_size", "save_assets", "load_assets")
    return all(callable(getattr(tokenizer, name, None)) for name in names)


def as_tokenizer(tokenizer):
    """Returns the tokenizer; one of KerasHub's wrapped, with the special ids that it names."""
    return KerasHubTokenizer(tokenizer) if is_keras_hub_tokenizer(tokenizer) else tokenizer
