"""Tokenizers as TensorFlow ops, for text in the graph."""

from keras_transformer.text.keras_hub_tokenizer import KerasHubTokenizer
from keras_transformer.text.subword_tokenizer import SubwordTokenizer

# What `str.strip` strips, as a regular expression of TensorFlow's (RE2).
_BLANK = r"[\s\v\x{1c}-\x{1f}\x{85}\p{Z}]*"


def graph_tokenizer(tokenizer):
    """Returns the tokenizer's form in a TensorFlow graph.

    Args:
        tokenizer: `SubwordTokenizer` or `KerasHubTokenizer`.

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
            "`tokenizer` must be a `SubwordTokenizer` or one of KerasHub's to be exported; got "
            f"{type(tokenizer).__name__}."
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


_GRAPH_FORMS = {SubwordTokenizer: _SubwordGraph, KerasHubTokenizer: _KerasHubGraph}
