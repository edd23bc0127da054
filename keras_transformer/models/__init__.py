"""Functional models: the Transformer and its families."""

from keras_transformer.models.attention_weights import AttentionWeights
from keras_transformer.models.causal_language_model import CausalLanguageModel
from keras_transformer.models.presets import TRANSFORMER_PRESETS
from keras_transformer.models.sequence_model import SequenceModel
from keras_transformer.models.transformer import Transformer
