"""What every public layer owes: law 8 and law 11 of arguments, half precision, masks, training."""

import inspect

import keras
import numpy as np
import pytest
from layer_harness import check_config, check_layer

from keras_transformer import layers, models
from keras_transformer.layers import MultiHeadAttention, PositionScheme
from keras_transformer.layers.attention_mechanism import AttentionMechanism

B, T, D = 3, 5, 8
VECTORS = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
IDS = np.random.default_rng(1).integers(1, 11, (B, T)).astype("int32")
BLOCK = {
    "num_heads": 2,
    "intermediate_dim": 13,
    "dropout": 0.1,
    "activation": "gelu",
    "gated": True,
    "normalize_first": True,
    "normalization": "rms",
    "epsilon": 1e-5,
    "attention_dropout": 0.1,
    "feed_forward_dropout": 0.2,
    "key_dim": 6,
    "value_dim": 3,
    "num_key_value_heads": 1,
    "attention_scale": 0.3,
    "logit_soft_cap": 5.0,
    "query_key_norm": "rms",
    "seed": 5,
}


def to_itself(layer, inputs):
    return layer(inputs, inputs)


# Arguments (as far from the defaults as can be), inputs, width of the output, and the call.
LAYERS = {
    "Dropout": ({"rate": 0.3, "seed": 5}, VECTORS, D, None),
    "FeedForward": ({"intermediate_dim": 13, "gated": True, "dropout": 0.1}, VECTORS, D, None),
    "TokenEmbedding": (
        {"vocabulary_size": 11, "model_dim": 7, "scale": False, "pad_id": 2},
        IDS,
        7,
        None,
    ),
    "SinusoidalPositionEncoding": ({"max_wavelength": 100}, VECTORS, D, None),
    "LearnedPositionEncoding": ({"max_length": T}, VECTORS, D, None),
    "MultiHeadAttention": (
        {
            "num_heads": 4,
            "key_dim": 6,
            "value_dim": 3,
            "dropout": 0.1,
            "output_shape": 7,
            "num_key_value_heads": 2,
            "scale": 0.3,
            "logit_soft_cap": 5.0,
            "kernel_initializer": keras.initializers.HeNormal(seed=3),
            "seed": 5,
        },
        VECTORS,
        7,
        to_itself,
    ),
    "EncoderBlock": (BLOCK, VECTORS, D, None),
    "DecoderBlock": (BLOCK, VECTORS, D, to_itself),
}
# Called through attention.
SCHEMES = {
    "RotaryPosition": {"base": 100.0, "layout": "half_split"},
    "AlibiBias": {},
    "RelativePositionBias": {"num_buckets": 8, "max_distance": 11},
}
MECHANISMS = {
    "AutoAttention": {},
    "BlockwiseAttention": {"block_size": 2},
    "DenseAttention": {},
    "FusedAttention": {},
    "RandomFeatureAttention": {},
    "SlidingWindowAttention": {"window": 3},
}
CONTRACTS = {"AttentionMechanism", "PositionScheme"}


def public_layers():
    return {
        name
        for name, value in vars(layers).items()
        if inspect.isclass(value) and issubclass(value, keras.layers.Layer)
    }


@pytest.mark.any_backend
def test_no_public_layer_is_left_out():
    tables = set(LAYERS) | set(SCHEMES) | set(MECHANISMS) | CONTRACTS | TESTED_ELSEWHERE
    assert public_layers() == tables


# Their inputs are not a sequence of vectors: see the test of their name.
TESTED_ELSEWHERE = public_layers() & {"PatchEmbedding"}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name, tmp_path):
    arguments, inputs, width, call = LAYERS[name]
    # The embedding makes its mask of the ids.
    keeps_mask = name != "TokenEmbedding"
    cls = getattr(layers, name)
    check_layer(cls, arguments, inputs, (B, T, width), tmp_path, call, keeps_mask)


class Attending(MultiHeadAttention):
    """Makes the part that attention is given a class of its own, as `check_layer` takes one."""

    def __init__(self, part, arguments, **kwargs):
        made = getattr(layers, part)(**arguments)
        role = "position" if isinstance(made, PositionScheme) else "mechanism"
        super().__init__(2, 4, **{role: made}, **kwargs)
        self.part = part
        self.arguments = arguments

    def get_config(self):
        base = keras.layers.Layer.get_config(self)
        return {**base, "part": self.part, "arguments": self.arguments}


keras.saving.register_keras_serializable(package="tests")(Attending)


@pytest.mark.parametrize("name", [*SCHEMES, *MECHANISMS])
def test_part_of_attention(name, tmp_path):
    arguments = {**SCHEMES, **MECHANISMS}[name]
    part = getattr(layers, name)(**arguments)
    assert isinstance(part, PositionScheme | AttentionMechanism)
    check_config(part)
    if name == "FusedAttention" and keras.config.backend() == "tensorflow":
        return
    check_layer(
        Attending, {"part": name, "arguments": arguments}, VECTORS, (B, T, D), tmp_path, to_itself
    )


@pytest.mark.any_backend
def test_block_arguments_of_the_default_config():
    for name in ("EncoderBlock", "DecoderBlock"):
        check_config(getattr(layers, name)(2, 13, position=layers.RotaryPosition()))


TINY = {"num_layers": 1, "model_dim": 8, "num_heads": 2, "intermediate_dim": 13}
MODELS = {"Transformer": {}, "CausalLanguageModel": {}, "TransformerEncoder": {}}


@pytest.mark.parametrize("dtype", [None, "mixed_bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_config_of_a_model(name, dtype):
    model = getattr(models, name)(11, **TINY, **MODELS[name], dtype=dtype)
    check_config(model)
    again = type(model).from_config(model.get_config())
    assert again.layers[-1].compute_dtype == model.layers[-1].compute_dtype
