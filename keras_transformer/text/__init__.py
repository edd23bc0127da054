"""From text to batches of ids: tokenizer, parallel corpora, token-budget batches."""

from keras_transformer.text.parallel_corpus import ParallelCorpus
from keras_transformer.text.subword_tokenizer import SubwordTokenizer

__all__ = ["ParallelCorpus", "SubwordTokenizer"]
