"""The training recipe: loss, schedule, metrics, weight averaging, callbacks."""

from keras_transformer.training.adam import Adam
from keras_transformer.training.checkpoints import (
    LastCheckpoints,
    average_checkpoints,
    checkpoint_paths,
)
from keras_transformer.training.layerwise_adamw import LayerwiseAdamW
from keras_transformer.training.noam_schedule import NoamSchedule
from keras_transformer.training.progress_line import ProgressLine
from keras_transformer.training.sequence_crossentropy import SequenceCrossentropy
from keras_transformer.training.token_metrics import Perplexity, TokenAccuracy
from keras_transformer.training.translation_score import TranslationScore

__all__ = [
    "Adam",
    "LastCheckpoints",
    "LayerwiseAdamW",
    "NoamSchedule",
    "Perplexity",
    "ProgressLine",
    "SequenceCrossentropy",
    "TokenAccuracy",
    "TranslationScore",
    "average_checkpoints",
    "checkpoint_paths",
]
