"""From text to batches of ids: tokenizer, parallel corpora, token-budget batches."""

from keras_transformer.text.caption_grammar import CaptionGrammar
from keras_transformer.text.datasets import (
    CAPTIONS_NAME,
    TranslationData,
    captions,
    load_folder,
    multi30k,
    translation_data,
)
from keras_transformer.text.keras_hub_tokenizer import KerasHubTokenizer
from keras_transformer.text.marian_tokenizer import MarianTokenizer
from keras_transformer.text.mask_tokens import MaskedTokens, mask_tokens
from keras_transformer.text.parallel_corpus import ParallelCorpus
from keras_transformer.text.subword_tokenizer import SubwordTokenizer
from keras_transformer.text.token_batches import TokenBatches

__all__ = [
    "CAPTIONS_NAME",
    "CaptionGrammar",
    "KerasHubTokenizer",
    "MarianTokenizer",
    "MaskedTokens",
    "ParallelCorpus",
    "SubwordTokenizer",
    "TokenBatches",
    "TranslationData",
    "captions",
    "load_folder",
    "mask_tokens",
    "multi30k",
    "translation_data",
]
