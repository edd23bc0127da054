"""Llama: pre-norm with RMSNorm, rotary positions, gated feed-forward, grouped heads."""

from keras_transformer.interop.huggingface.settings import (
    CONFIG_FILE,
    published_ids,
    published_name,
)
from keras_transformer.interop.huggingface.weights import attention, head, linear, rms_norm
from keras_transformer.models.causal_language_model import CausalLanguageModel
from keras_transformer.models.families import layer_config

PREFIX = "model."
POSITION = "RotaryPosition"
IGNORED = ("*.rotary_emb.inv_freq",)

_LENGTH = "original_max_position_embeddings"
_ROTARY_SETTINGS = {
    "default": {"rope_theta"},
    "linear": {"rope_theta", "factor"},
    "llama3": {"rope_theta", "factor", _LENGTH, "high_freq_factor", "low_freq_factor"},
    "yarn": {"rope_theta", "factor", _LENGTH, "beta_fast", "beta_slow"},
}
# What the scalings with a ramp call its two ends, and their defaults.
_RAMPS = {
    "llama3": {"high_freq_factor": None, "low_freq_factor": None},
    "yarn": {"beta_fast": 32, "beta_slow": 1},
}


def read_arguments(settings, tensors):
    """Returns (class, arguments) of the model that a config describes."""
    settings.require("pretraining_tp", 1)
    end_id, *other_end_ids = settings.ids("eos_token_id", 2)
    heads = settings.get("num_attention_heads", 32)
    width = settings.get("hidden_size", 4096)
    return CausalLanguageModel, {
        "vocabulary_size": settings.get("vocab_size", 32000),
        "num_layers": settings.get("num_hidden_layers", 32),
        "model_dim": width,
        "num_heads": heads,
        "intermediate_dim": settings.get("intermediate_size", 11008),
        "dropout": 0.0,
        "position": _rotary(settings),
        "tie_weights": settings.get("tie_word_embeddings", False),
        "scale_embedding": False,
        "normalize_first": True,
        "activation": settings.activation("hidden_act", "silu"),
        "gated": True,
        "normalization": "rms",
        "epsilon": settings.get("rms_norm_eps", 1e-6),
        "use_bias": settings.get("attention_bias", False),
        "feed_forward_bias": settings.get("mlp_bias", False),
        "attention_dropout": settings.get("attention_dropout", 0.0),
        "key_dim": settings.get("head_dim") or width // heads,
        "num_key_value_heads": settings.get("num_key_value_heads") or heads,
        "pad_id": settings.one_id("pad_token_id", end_id),
        "start_id": settings.one_id("bos_token_id", end_id),
        "end_id": end_id,
        "other_end_ids": other_end_ids,
    }


def _rotary(settings):
    """Returns the config of the `RotaryPosition`; its settings lie in one place or in two."""
    longest = settings.get("max_position_embeddings", 2048)
    rope = dict(settings.get("rope_parameters") or settings.get("rope_scaling") or {})
    settings.ignore("rope_scaling")
    rope.setdefault("rope_theta", settings.get("rope_theta", 10000.0))
    kind = rope.pop("rope_type", None) or rope.pop("type", "default")
    rope.pop("type", None)
    if kind not in _ROTARY_SETTINGS:
        raise ValueError(
            f"{CONFIG_FILE}: the setting 'rope_type' must be one of {sorted(_ROTARY_SETTINGS)}; "
            f"got {kind!r}. `RotaryPosition` has no such scaling."
        )
    rope = {name: value for name, value in rope.items() if value is not None}
    unknown = sorted(set(rope) - _ROTARY_SETTINGS[kind])
    if unknown:
        raise ValueError(
            f"{CONFIG_FILE} has rotary settings that {kind!r} does not know: {unknown}. They may "
            "change what the model computes, so it is not loaded."
        )
    config = {"base": rope["rope_theta"], "layout": "half_split"}
    if kind != "default":
        config |= {"scaling": kind, "factor": rope["factor"]}
    if kind in _RAMPS:
        ends = {**_RAMPS[kind], **{name: rope[name] for name in _RAMPS[kind] if name in rope}}
        if None in ends.values():
            raise ValueError(
                f"{CONFIG_FILE}: the rotary settings of {kind!r} must hold {sorted(ends)}; got "
                f"{rope}. Is it the checkpoint's own?"
            )
        config["original_length"] = rope.get(_LENGTH, longest)
        config["beta_fast"], config["beta_slow"] = map(float, ends.values())
    return layer_config("RotaryPosition", **config)


def telling_names(model):
    """Returns the names of tensors that `read_arguments` looks for."""
    return set()


def entries(model):
    """Returns the tensors of a checkpoint of this model."""
    found = head(model.get_layer("embedding"), "model.embed_tokens.weight")
    for index in range(model.num_layers):
        block, name = model.get_layer(f"decoder_block_{index}"), f"model.layers.{index}"
        maps = [f"{name}.self_attn.{each}_proj" for each in "qkvo"]
        found += [
            *attention(maps, block.self_attention),
            *rms_norm(f"{name}.input_layernorm", block.self_attention_norm),
            *linear(f"{name}.mlp.gate_proj", block.feed_forward.gate_dense),
            *linear(f"{name}.mlp.up_proj", block.feed_forward.inner_dense),
            *linear(f"{name}.mlp.down_proj", block.feed_forward.outer_dense),
            *rms_norm(f"{name}.post_attention_layernorm", block.feed_forward_norm),
        ]
    return [*found, *rms_norm("model.norm", model.get_layer("decoder_norm"))]


def write_settings(model, options):
    """Returns the settings that `read_arguments` makes this model of."""
    rotary = options["position"]["config"]
    rope = {"rope_type": rotary["scaling"] or "default", "rope_theta": rotary["base"]}
    if rotary["scaling"]:
        rope["factor"] = rotary["factor"]
    if rotary["scaling"] in _RAMPS:
        ends = (rotary["beta_fast"], rotary["beta_slow"])
        rope |= {
            _LENGTH: rotary["original_length"],
            **dict(zip(_RAMPS[rotary["scaling"]], ends, strict=True)),
        }
    return {
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": model.vocabulary_size,
        "hidden_size": model.model_dim,
        "intermediate_size": model.intermediate_dim,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "num_key_value_heads": options["num_key_value_heads"] or model.num_heads,
        "head_dim": options["key_dim"] or model.model_dim // model.num_heads,
        "hidden_act": published_name(options["activation"]),
        "rms_norm_eps": options["epsilon"],
        "rope_parameters": rope,
        "attention_bias": options["use_bias"],
        "mlp_bias": options["feed_forward_bias"],
        "attention_dropout": options["attention_dropout"],
        "tie_word_embeddings": model.tie_weights,
        "bos_token_id": model.start_id,
        "eos_token_id": published_ids(model),
        "pad_token_id": model.pad_id,
    }
