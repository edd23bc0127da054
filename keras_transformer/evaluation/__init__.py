"""Scores of translations: BLEU and chrF through sacrebleu."""

from keras_transformer.evaluation.corpus_scores import bleu, chrf
from keras_transformer.evaluation.score import Score

__all__ = ["Score", "bleu", "chrf"]
