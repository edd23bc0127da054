"""The Transformer's layers: attention, position schemes, blocks, embeddings."""

from keras_transformer.layers.alibi_bias import AlibiBias
from keras_transformer.layers.attention_mechanism import AttentionMechanism
from keras_transformer.layers.auto_attention import AutoAttention
from keras_transformer.layers.blockwise_attention import BlockwiseAttention
from keras_transformer.layers.decoder_block import DecoderBlock
from keras_transformer.layers.dense_attention import DenseAttention
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.encoder_block import EncoderBlock
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.fused_attention import FusedAttention
from keras_transformer.layers.learned_position_encoding import LearnedPositionEncoding
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.patch_embedding import PatchEmbedding
from keras_transformer.layers.position_scheme import PositionScheme
from keras_transformer.layers.random_feature_attention import RandomFeatureAttention
from keras_transformer.layers.relative_position_bias import RelativePositionBias
from keras_transformer.layers.rotary_position import RotaryPosition
from keras_transformer.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding
from keras_transformer.layers.sliding_window_attention import SlidingWindowAttention
from keras_transformer.layers.token_embedding import TokenEmbedding

__all__ = [
    "AlibiBias",
    "AttentionMechanism",
    "AutoAttention",
    "BlockwiseAttention",
    "DecoderBlock",
    "DenseAttention",
    "Dropout",
    "EncoderBlock",
    "FeedForward",
    "FusedAttention",
    "LearnedPositionEncoding",
    "MultiHeadAttention",
    "PatchEmbedding",
    "PositionScheme",
    "RandomFeatureAttention",
    "RelativePositionBias",
    "RotaryPosition",
    "SinusoidalPositionEncoding",
    "SlidingWindowAttention",
    "TokenEmbedding",
]
