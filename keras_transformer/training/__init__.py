"""The training recipe: loss, schedule, metrics, weight averaging, callbacks."""

from keras_transformer.training.noam_schedule import NoamSchedule
from keras_transformer.training.sequence_crossentropy import SequenceCrossentropy
from keras_transformer.training.token_metrics import Perplexity, TokenAccuracy
