import keras
import numpy as np
import pytest

from keras_transformer.layers.alibi_bias import AlibiBias
from keras_transformer.layers.attention_mechanism import get_mechanism
from keras_transformer.layers.auto_attention import AutoAttention
from keras_transformer.layers.blockwise_attention import BlockwiseAttention
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.random_feature_attention import RandomFeatureAttention
from keras_transformer.ops.attention_request import AttentionRequest

FUSED = "fused" if keras.config.backend() == "torch" else None


@pytest.mark.parametrize(
    "asked, length, chosen",
    [
        ({"return_scores": True}, 4096, "dense"),
        ({}, 128, FUSED or "dense"),
        ({}, 4096, FUSED or "blockwise"),
        ({"causal": True}, 4096, FUSED or "blockwise"),
        ({"dropout": 0.1}, 128, "dense"),
        ({"dropout": 0.1}, 4096, "blockwise"),
        ({"position_bias": lambda *_: None}, 4096, "blockwise"),
        ({"query_segments": np.zeros((1, 4096))}, 4096, "blockwise"),
        ({"logit_soft_cap": 5.0}, None, "dense"),
    ],
)
def test_choices(asked, length, chosen):
    mechanism = AutoAttention().choose(AttentionRequest(**asked), length, length)
    assert mechanism.name == f"{chosen}_attention"


@pytest.mark.parametrize("name", ["auto", "blockwise", "dense", "fused"])
def test_names(name):
    assert type(get_mechanism(name)).__name__ == f"{name.capitalize()}Attention"


def test_objects_survive_a_config():
    layer = MultiHeadAttention(2, 8, mechanism=BlockwiseAttention(block_size=7))
    again = MultiHeadAttention.from_config(layer.get_config())
    assert again.mechanism.block_size == 7
    assert MultiHeadAttention(2, 8, mechanism=RandomFeatureAttention(8)).position is None


def test_wrong_ones():
    with pytest.raises(ValueError, match="`mechanism` must be one of"):
        get_mechanism("flash")
    with pytest.raises(ValueError, match="`mechanism` must be one of"):
        MultiHeadAttention(2, 8, mechanism=AlibiBias())
    with pytest.raises(ValueError, match="`block_size`"):
        BlockwiseAttention(0)


def test_scores_from_a_mechanism_without_any():
    inputs = np.ones((1, 3, 4), "float32")
    with pytest.raises(ValueError, match='mechanism="dense" returns them'):
        MultiHeadAttention(2, 8, mechanism="blockwise")(
            inputs, inputs, return_attention_scores=True
        )
