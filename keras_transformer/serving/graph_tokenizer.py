"""Tokenizers as TensorFlow ops, for text in the graph."""

from keras_transformer.text.keras_hub_tokenizer import KerasHubTokenizer
from keras_transformer.text.marian_tokenizer import MarianTokenizer
from keras_transformer.text.subword_tokenizer import SubwordTokenizer

# What `str.strip` strips, as a regular expression of TensorFlow's (RE2).
_BLANK = r"[\s\v\x{1c}-\x{1f}\x{85}\p{Z}]*"


# The code of a target language in front of a sentence of Marian's.
_CODE = "^>>.*?<<"


def graph_tokenizer(tokenizer):
    """Returns the tokenizer's form in a TensorFlow graph.

    Args:
        tokenizer: `SubwordTokenizer`, `MarianTokenizer` or `KerasHubTokenizer`.

    Returns:
        An object with `tokenize` (string (B,) -> ragged int32 (B, None)), `detokenize` (the other
        way), and `resource`, which a SavedModel must keep.
    """
    check_graph_form(tokenizer)
    return _GRAPH_FORMS[type(tokenizer)](tokenizer)


def check_graph_form(tokenizer):
    """Raises ValueError for a tokenizer that has no form in a graph; loads no TensorFlow."""
    if type(tokenizer) not in _GRAPH_FORMS:
        raise ValueError(
            "`tokenizer` must be a `SubwordTokenizer`, a `MarianTokenizer` or one of KerasHub's to "
            f"be exported; got {type(tokenizer).__name__}."
        )


class _SubwordGraph:
    """tensorflow_text's SentencePiece: the same code and model, as a resource in the graph."""

    def __init__(self, tokenizer):
        import tensorflow_text

        self.resource = tensorflow_text.SentencepieceTokenizer(tokenizer.model_proto)

    def tokenize(self, text):
        return self.resource.tokenize(text)

    def detokenize(self, ids):
        return self.resource.detokenize(ids)


class _KerasHubGraph:
    """KerasHub's own ops, with `KerasHubTokenizer`'s rules for blanks and special ids."""

    def __init__(self, tokenizer):
        self.resource = tokenizer.tokenizer
        self._special = (tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id)

    def tokenize(self, text):
        import tensorflow as tf

        blank = tf.strings.regex_full_match(text, _BLANK)
        ids = tf.cast(self.resource.tokenize(tf.where(blank, "", text)), "int32")
        # A byte that a byte-pair vocabulary lacks is -1 here and left out in Python.
        return tf.ragged.boolean_mask(ids, ids >= 0)

    def detokenize(self, ids):
        import tensorflow as tf

        values = ids.flat_values[:, None]
        kept = tf.reduce_all(values != tf.constant(self._special), axis=1)
        ids = tf.ragged.boolean_mask(ids, ids.with_flat_values(kept))
        text = tf.strings.unicode_transcode(self.resource.detokenize(ids), "UTF-8", "UTF-8")
        return tf.where(ids.row_lengths() > 0, text, "")


class _MarianGraph:
    """Two SentencePiece models as resources, and between them the vocabulary as a table."""

    def __init__(self, tokenizer):
        import tensorflow as tf
        import tensorflow_text

        source, target = (
            tensorflow_text.SentencepieceTokenizer(proto, out_type=tf.string)
            for proto in (tokenizer.source_proto, tokenizer.target_proto)
        )
        pieces = sorted(tokenizer.vocabulary, key=tokenizer.vocabulary.get)
        entries = tf.lookup.KeyValueTensorInitializer(pieces, list(range(len(pieces))), "string")
        table = tf.lookup.StaticHashTable(entries, tokenizer.unk_id)
        self.resource = [source, target, table]
        self._pieces = pieces
        self._special = (tokenizer.pad_id, tokenizer.end_id)

    def tokenize(self, text):
        import tensorflow as tf

        source, _, table = self.resource
        rest = tf.strings.regex_replace(text, _CODE, "", replace_global=False)
        length = tf.strings.length(text) - tf.strings.length(rest)  # of the code, in bytes
        code = tf.strings.substr(text, tf.zeros_like(length), length)
        code = tf.ragged.boolean_mask(code[:, None], length[:, None] > 0)
        pieces = tf.concat([code, source.tokenize(rest)], axis=1)
        return tf.cast(pieces.with_flat_values(table.lookup(pieces.flat_values)), "int32")

    def detokenize(self, ids):
        import tensorflow as tf

        kept = tf.reduce_all(ids.flat_values[:, None] != tf.constant(self._special), axis=1)
        ids = tf.ragged.boolean_mask(ids, ids.with_flat_values(kept))
        pieces = tf.gather(tf.constant(self._pieces), ids.flat_values)
        text = self.resource[1].detokenize(ids.with_flat_values(pieces))
        text = tf.strings.regex_replace(text, "\u2581", " ")
        text = tf.strings.regex_replace(text, f"^{_BLANK}", "", replace_global=False)
        return tf.strings.regex_replace(text, f"{_BLANK}$", "", replace_global=False)


_GRAPH_FORMS = {
    SubwordTokenizer: _SubwordGraph,
    MarianTokenizer: _MarianGraph,
    KerasHubTokenizer: _KerasHubGraph,
}
