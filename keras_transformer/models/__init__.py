"""Functional models: the Transformer and its families."""

from keras_transformer.models.attention_weights import AttentionWeights
from keras_transformer.models.causal_language_model import CausalLanguageModel
from keras_transformer.models.masked_language_model import MaskedLanguageModel
from keras_transformer.models.presets import TRANSFORMER_PRESETS
from keras_transformer.models.sequence_model import SequenceModel
from keras_transformer.models.transfer import enable_lora, freeze, layer_rates, with_head
from keras_transformer.models.transformer import Transformer
from keras_transformer.models.transformer_encoder import TransformerEncoder
from keras_transformer.models.vision_transformer import VisionTransformer

__all__ = [
    "TRANSFORMER_PRESETS",
    "AttentionWeights",
    "CausalLanguageModel",
    "MaskedLanguageModel",
    "SequenceModel",
    "Transformer",
    "TransformerEncoder",
    "VisionTransformer",
    "enable_lora",
    "freeze",
    "layer_rates",
    "with_head",
]
