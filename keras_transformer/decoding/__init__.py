"""Greedy search, beam search and sampling, over any model that can start and step."""

from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.greedy_search import GreedySearch
from keras_transformer.decoding.result import SearchResult
from keras_transformer.decoding.sampling import Sampling
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.state import (
    DecodingState,
    repeat_rows,
    select_rows,
    select_sentences,
)

__all__ = [
    "BeamSearch",
    "DecodingState",
    "GreedySearch",
    "Sampling",
    "Search",
    "SearchResult",
    "repeat_rows",
    "select_rows",
    "select_sentences",
]
