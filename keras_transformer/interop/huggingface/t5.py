"""T5 and T5 v1.1: pre-norm with RMSNorm, relative bias, unscaled scores, no biases."""

import numpy as np

from keras_transformer.interop.huggingface.settings import (
    ACTIVATIONS,
    CONFIG_FILE,
    published_name,
)
from keras_transformer.interop.huggingface.weights import (
    Entry,
    attention,
    head,
    linear,
    rms_norm,
)
from keras_transformer.models.families import layer_config
from keras_transformer.models.transformer import Transformer

PREFIX = ""
POSITION = "RelativePositionBias"
# The first releases carry a table that their own code never reads.
IGNORED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)


def read_arguments(settings, tensors):
    """Returns (class, arguments) of the model that a config describes.

    Whether the head is tied is what the tensors say, for configs disagree: it is unless there is a
    head that differs from the embedding.
    """
    settings.require("is_decoder", False)
    settings.ignore("n_positions")  # relative positions have any length
    width = settings.get("d_model", 512)
    num_layers = settings.get("num_layers", 6)
    dropout = settings.get("dropout_rate", 0.1)
    activation, gated = _feed_forward(settings)
    buckets = {
        "num_buckets": settings.even("relative_attention_num_buckets", 32),
        "max_distance": settings.get("relative_attention_max_distance", 128),
    }
    tied = settings.get("tie_word_embeddings", True)
    scaled = settings.get("scale_decoder_outputs", tied)
    pad_id = settings.one_id("pad_token_id", 0)
    return Transformer, {
        "vocabulary_size": settings.get("vocab_size", 32128),
        "num_layers": num_layers,
        "num_decoder_layers": settings.get("num_decoder_layers") or num_layers,
        "model_dim": width,
        "num_heads": settings.get("num_heads", 8),
        "key_dim": settings.get("d_kv", 64),
        "intermediate_dim": settings.get("d_ff", 2048),
        "dropout": dropout,
        "attention_dropout": dropout,
        "feed_forward_dropout": dropout,
        "position": layer_config("RelativePositionBias", **buckets),
        "decoder_position": layer_config("RelativePositionBias", **buckets, bidirectional=False),
        "tie_weights": _is_tied(tensors),
        "head_scale": width**-0.5 if scaled else None,
        "scale_embedding": False,
        "normalize_first": True,
        "normalization": "rms",
        "epsilon": settings.get("layer_norm_epsilon", 1e-6),
        "activation": activation,
        "gated": gated,
        "use_bias": False,
        "attention_scale": 1.0,
        "suppressed_ids": settings.suppressed_ids(),
        "pad_id": pad_id,
        "start_id": settings.get("decoder_start_token_id", pad_id),
        "end_id": settings.one_id("eos_token_id", 1),
    }


def _feed_forward(settings):
    """Returns (activation, whether it is gated)."""
    setting = settings.get("feed_forward_proj", "relu")
    kind, _, name = setting.rpartition("-")
    # By "gated-gelu" T5 v1.1 means the tanh approximation.
    name = "gelu_new" if setting == "gated-gelu" else name
    if kind not in ("", "gated") or name not in ACTIVATIONS:
        raise ValueError(
            f"{CONFIG_FILE}: the setting 'feed_forward_proj' must be an activation of "
            f'{sorted(ACTIVATIONS)}, or "gated-" and one; got {setting!r}.'
        )
    settings.require("dense_act_fn", name)
    settings.require("is_gated_act", kind == "gated")
    return ACTIVATIONS[name], kind == "gated"


def _is_tied(tensors):
    if "lm_head.weight" not in tensors.names:
        return True
    embeddings = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    embedding = next((name for name in embeddings if name in tensors.names), None)
    if embedding is None:
        return False
    return np.array_equal(tensors.read(embedding), tensors.read("lm_head.weight"))


def telling_names(model):
    """Returns the names of tensors that `read_arguments` looks for."""
    return set() if model.tie_weights else {"lm_head.weight"}


def entries(model):
    """Returns the tensors of a checkpoint of this model."""
    embedding = model.get_layer("embedding")
    aliases = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    found = head(embedding, "shared.weight", aliases)
    for index in range(model.num_layers):
        block, name = model.get_layer(f"encoder_block_{index}"), f"encoder.block.{index}"
        found += [
            *_attention(f"{name}.layer.0", "SelfAttention", block.attention),
            *rms_norm(f"{name}.layer.0.layer_norm", block.attention_norm),
            *_dense_relu_dense(f"{name}.layer.1", block),
        ]
    for index in range(model.num_decoder_layers):
        block, name = model.get_layer(f"decoder_block_{index}"), f"decoder.block.{index}"
        found += [
            *_attention(f"{name}.layer.0", "SelfAttention", block.self_attention),
            *rms_norm(f"{name}.layer.0.layer_norm", block.self_attention_norm),
            *_attention(f"{name}.layer.1", "EncDecAttention", block.context_attention),
            *rms_norm(f"{name}.layer.1.layer_norm", block.context_attention_norm),
            *_dense_relu_dense(f"{name}.layer.2", block),
        ]
    for side in ("encoder", "decoder"):
        scheme = model.get_layer(f"{side}_block_0").position
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        found.append(Entry(table, (scheme.table,)))
        found += rms_norm(f"{side}.final_layer_norm", model.get_layer(f"{side}_norm"))
    return found


def _attention(name, kind, layer):
    return attention([f"{name}.{kind}.{each}" for each in "qkvo"], layer)


def _dense_relu_dense(name, block):
    dense, network = f"{name}.DenseReluDense", block.feed_forward
    found = [
        *linear(f"{dense}.wo", network.outer_dense),
        *rms_norm(f"{name}.layer_norm", block.feed_forward_norm),
    ]
    if not network.gated:
        return [*found, *linear(f"{dense}.wi", network.inner_dense)]
    return [
        *found,
        *linear(f"{dense}.wi_0", network.gate_dense),
        *linear(f"{dense}.wi_1", network.inner_dense),
    ]


def write_settings(model, options):
    """Returns the settings that `read_arguments` makes this model of."""
    name = published_name(options["activation"])
    scheme = options["position"]["config"]
    kind = f"gated-{name}" if options["gated"] else name
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "vocab_size": model.vocabulary_size,
        "d_model": model.model_dim,
        "d_kv": options["key_dim"] or model.model_dim // model.num_heads,
        "d_ff": model.intermediate_dim,
        "num_layers": model.num_layers,
        "num_decoder_layers": model.num_decoder_layers,
        "num_heads": model.num_heads,
        "relative_attention_num_buckets": scheme["num_buckets"],
        "relative_attention_max_distance": scheme["max_distance"],
        "dropout_rate": model.dropout,
        "layer_norm_epsilon": options["epsilon"],
        "feed_forward_proj": "gated-gelu" if kind == "gated-gelu_new" else kind,
        "tie_word_embeddings": model.head_scale is not None,
        "is_encoder_decoder": True,
        "bad_words_ids": [[each] for each in model.suppressed_ids] or None,
        "pad_token_id": model.pad_id,
        "decoder_start_token_id": model.start_id,
        "eos_token_id": model.end_id,
    }
