"""The families that came after the paper, as settings of the models' arguments, by name.

`parameters` is the published count of the weights that the model holds: what the released
checkpoint has, sinusoids and other constants left out.
"""

from typing import NamedTuple


class FamilyPreset(NamedTuple):
    """A published model.

    Attributes:
        arguments: of the model's class.
        parameters: int, how many numbers the original has.
        reference: where the architecture is described.
    """

    arguments: dict
    parameters: int
    reference: str


def arguments_of(presets, name, changes):
    """Returns the arguments of the preset of that name, with others in place of some."""
    if name not in presets:
        raise ValueError(f"Preset must be one of {sorted(presets)}; got {name!r}. Pick a name.")
    arguments = {**presets[name].arguments, **changes}
    if presets[name].arguments.get("head_scale") and "head_scale" not in changes:
        arguments["head_scale"] = arguments["model_dim"] ** -0.5  # T5's follows from its width
    return arguments


def layer_config(class_name, **config):
    """Returns the config of one of this library's layers, which a model makes the layer of."""
    return {"class_name": f"keras_transformer>{class_name}", "config": config}


def _gpt2(num_layers, model_dim, num_heads, parameters):
    arguments = {
        "vocabulary_size": 50257,
        "num_layers": num_layers,
        "model_dim": model_dim,
        "num_heads": num_heads,
        "intermediate_dim": 4 * model_dim,
        "position": layer_config("LearnedPositionEncoding", max_length=1024),
        "scale_embedding": False,
        "activation": "gelu_tanh",
        "epsilon": 1e-5,
        "attention_dropout": 0.1,
        # One id ends a text, starts the next and fills up.
        "pad_id": 50256,
        "start_id": 50256,
        "end_id": 50256,
    }
    return FamilyPreset(arguments, parameters, "Radford et al. 2019, table 2")


def _llama(num_layers, model_dim, num_heads, intermediate_dim, parameters, reference, groups=None):
    arguments = {
        "vocabulary_size": 32000,
        "num_layers": num_layers,
        "model_dim": model_dim,
        "num_heads": num_heads,
        "intermediate_dim": intermediate_dim,
        "dropout": 0.0,
        "position": layer_config("RotaryPosition", layout="half_split"),
        "tie_weights": False,
        "scale_embedding": False,
        "activation": "silu",
        "gated": True,
        "normalization": "rms",
        "epsilon": 1e-5,
        "use_bias": False,
        "num_key_value_heads": groups,
        "pad_id": 0,
        "start_id": 1,
        "end_id": 2,
    }
    return FamilyPreset(arguments, parameters, reference)


def _bert(num_layers, model_dim, num_heads, parameters, reference):
    arguments = {
        "vocabulary_size": 30522,
        "num_layers": num_layers,
        "model_dim": model_dim,
        "num_heads": num_heads,
        "intermediate_dim": 4 * model_dim,
        "position": layer_config("LearnedPositionEncoding", max_length=512),
        "num_token_types": 2,
        "normalize_embedding": True,
        "scale_embedding": False,
        "pooling": "dense",
        "activation": "gelu",
        "epsilon": 1e-12,
        "attention_dropout": 0.1,
        "pad_id": 0,
    }
    return FamilyPreset(arguments, parameters, reference)


def _longformer(num_layers, model_dim, num_heads, parameters):
    arguments = {
        "vocabulary_size": 50265,
        "num_layers": num_layers,
        "model_dim": model_dim,
        "num_heads": num_heads,
        "intermediate_dim": 4 * model_dim,
        # RoBERTa's table, whose first rows, up to that of `pad_id`, no position takes.
        "position": layer_config("LearnedPositionEncoding", max_length=4096, skipped_rows=2),
        "num_token_types": 1,
        "normalize_embedding": True,
        "scale_embedding": False,
        "pooling": "dense",
        "activation": "gelu",
        "epsilon": 1e-5,
        "attention_dropout": 0.1,
        # The paper's window of 512 has 256 tokens on each side.
        "mechanism": layer_config(
            "SlidingWindowAttention", window=257, global_tokens=1, global_projections=True
        ),
        "pad_id": 1,
    }
    return FamilyPreset(arguments, parameters, "Beltagy, Peters and Cohan 2020, section 5")


def _t5(num_layers, model_dim, num_heads, intermediate_dim, parameters, version="1.0"):
    first = version == "1.0"
    arguments = {
        "vocabulary_size": 32128,
        "num_layers": num_layers,
        "model_dim": model_dim,
        "num_heads": num_heads,
        "key_dim": 64,
        "intermediate_dim": intermediate_dim,
        "position": layer_config("RelativePositionBias"),
        "decoder_position": layer_config("RelativePositionBias", bidirectional=False),
        "tie_weights": first,
        "head_scale": model_dim**-0.5 if first else None,
        "scale_embedding": False,
        "normalize_first": True,
        "normalization": "rms",
        "activation": "relu" if first else "gelu_tanh",
        "gated": not first,
        "use_bias": False,
        "attention_scale": 1.0,
        "attention_dropout": 0.1,
        "feed_forward_dropout": 0.1,
        "pad_id": 0,
        "start_id": 0,
        "end_id": 1,
    }
    reference = "Raffel et al. 2020, section 3.7" if first else "Shazeer 2020, section 3"
    return FamilyPreset(arguments, parameters, reference)


def _vit(num_layers, model_dim, num_heads, patch_size, parameters):
    arguments = {
        "image_size": 224,
        "patch_size": patch_size,
        "num_classes": 1000,
        "num_layers": num_layers,
        "model_dim": model_dim,
        "num_heads": num_heads,
        "intermediate_dim": 4 * model_dim,
    }
    return FamilyPreset(arguments, parameters, "Dosovitskiy et al. 2021, table 1")


def _performer(num_layers, model_dim, num_heads, parameters):
    """BERT with random features, which cannot drop attention weights: none of them exists."""
    of_bert = _bert(num_layers, model_dim, num_heads, parameters, "").arguments
    mechanism = layer_config("RandomFeatureAttention", num_features=256)
    arguments = {**of_bert, "mechanism": mechanism, "attention_dropout": 0.0}
    return FamilyPreset(arguments, parameters, "Choromanski et al. 2021, sections 2 and 4")


CAUSAL_PRESETS = {
    "gpt2": _gpt2(12, 768, 12, 124_439_808),
    "gpt2-medium": _gpt2(24, 1024, 16, 354_823_168),
    "gpt2-large": _gpt2(36, 1280, 20, 774_030_080),
    "gpt2-xl": _gpt2(48, 1600, 25, 1_557_611_200),
    "llama-tiny": _llama(22, 2048, 32, 5632, 1_100_048_384, "Zhang et al. 2024, table 1", groups=4),
    "llama-7b": _llama(32, 4096, 32, 11008, 6_738_415_616, "Touvron et al. 2023a, table 2"),
    "llama-13b": _llama(40, 5120, 40, 13824, 13_015_864_320, "Touvron et al. 2023a, table 2"),
    "llama2-70b": _llama(
        80, 8192, 64, 28672, 68_976_648_192, "Touvron et al. 2023b, table 1", groups=8
    ),
}

ENCODER_PRESETS = {
    "bert-base": _bert(12, 768, 12, 109_482_240, "Devlin et al. 2019, section 3"),
    "bert-large": _bert(24, 1024, 16, 335_141_888, "Devlin et al. 2019, section 3"),
    "longformer-base": _longformer(12, 768, 12, 148_659_456),
    "longformer-large": _longformer(24, 1024, 16, 434_600_960),
    "minilm-l6": _bert(6, 384, 12, 22_713_216, "Wang et al. 2020; Reimers and Gurevych 2019"),
    "performer-base": _performer(12, 768, 12, 109_482_240),
}

SEQUENCE_PRESETS = {
    "t5-small": _t5(6, 512, 8, 2048, 60_506_624),
    "t5-base": _t5(12, 768, 12, 3072, 222_903_552),
    "t5-large": _t5(24, 1024, 16, 4096, 737_668_096),
    "t5-v1.1-small": _t5(8, 512, 6, 1024, 76_961_152, version="1.1"),
    "t5-v1.1-base": _t5(12, 768, 12, 2048, 247_577_856, version="1.1"),
    "t5-v1.1-large": _t5(24, 1024, 16, 2816, 783_150_080, version="1.1"),
    "opus-mt": FamilyPreset(
        {
            "vocabulary_size": 58101,
            "position": layer_config("SinusoidalPositionEncoding", layout="half_split"),
            "head_bias": True,
            "activation": "silu",
            "epsilon": 1e-5,
            "pad_id": 58100,
            "start_id": 58100,
            "end_id": 0,
        },
        73_944_309,
        "Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020",
    ),
}

VISION_PRESETS = {
    "vit-s16": _vit(12, 384, 6, 16, 22_050_664),
    "vit-b16": _vit(12, 768, 12, 16, 86_567_656),
    "vit-b32": _vit(12, 768, 12, 32, 88_224_232),
    "vit-l16": _vit(24, 1024, 16, 16, 304_326_632),
    "vit-h14": _vit(32, 1280, 16, 14, 632_045_800),
}
