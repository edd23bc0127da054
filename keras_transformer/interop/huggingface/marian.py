"""Marian (OPUS-MT): the paper's Transformer with half-split sinusoids and a bias on the logits."""

import numpy as np
from keras import ops

from keras_transformer.interop.huggingface.layouts import ONE_ROW
from keras_transformer.interop.huggingface.settings import CONFIG_FILE, published_name
from keras_transformer.interop.huggingface.weights import (
    Entry,
    attention,
    head,
    layer_norm,
    linear,
)
from keras_transformer.models.families import layer_config
from keras_transformer.models.transformer import Transformer
from keras_transformer.ops.positions import sinusoids

PREFIX = "model."
POSITION = "SinusoidalPositionEncoding"
# Sinusoids, which some checkpoints keep as tensors: see `_check_sinusoids`.
IGNORED = ("*.embed_positions.weight",)


def read_arguments(settings, tensors):
    """Returns (class, arguments) of the model that a config describes."""
    settings.require("share_encoder_decoder_embeddings", True)
    settings.require("normalize_before", False)
    settings.require("normalize_embedding", False)
    settings.require("add_final_layer_norm", False)
    settings.require("static_position_embeddings", True)
    settings.require("extra_pos_embeddings", 0, 1)
    settings.require("is_decoder", False)
    settings.require("tie_word_embeddings", True)
    settings.ignore("max_position_embeddings")  # sinusoids have any length
    vocabulary_size = settings.get("vocab_size", 58101)
    settings.require("decoder_vocab_size", None, vocabulary_size)
    num_layers = settings.get("encoder_layers", 12)
    settings.require("num_hidden_layers", None, num_layers)
    pad_id = settings.one_id("pad_token_id", 58100)
    _check_sinusoids(tensors, settings.get("d_model", 1024))
    return Transformer, {
        "vocabulary_size": vocabulary_size,
        "num_layers": num_layers,
        "num_decoder_layers": settings.get("decoder_layers", 12),
        "model_dim": settings.get("d_model", 1024),
        "num_heads": _same(settings, "encoder_attention_heads", "decoder_attention_heads", 16),
        "intermediate_dim": _same(settings, "encoder_ffn_dim", "decoder_ffn_dim", 4096),
        "dropout": settings.get("dropout", 0.1),
        "position": layer_config("SinusoidalPositionEncoding", layout="half_split"),
        "scale_embedding": settings.get("scale_embedding", False),
        "head_bias": True,
        "activation": settings.activation("activation_function", "gelu"),
        "epsilon": 1e-5,
        "attention_dropout": settings.get("attention_dropout", 0.0),
        "feed_forward_dropout": settings.get("activation_dropout", 0.0),
        "suppressed_ids": settings.suppressed_ids(),
        "pad_id": pad_id,
        "start_id": settings.get("decoder_start_token_id", pad_id),
        "end_id": settings.one_id("eos_token_id", 0),
    }


def _check_sinusoids(tensors, width):
    """Raises ValueError where a stored table of positions is not the one that is computed here."""
    for name in sorted(tensors.names):
        if not name.endswith("embed_positions.weight"):
            continue
        shape = tensors.shape(name)
        fits = len(shape) == 2 and shape[1] == width
        if fits:
            positions = ops.arange(shape[0], dtype="int32")[None]
            right = ops.convert_to_numpy(sinusoids(positions, width, interleaved=False))[0]
            fits = np.allclose(tensors.read(name), right, atol=1e-2)  # it may be in half precision
        if not fits:
            raise ValueError(
                f"The checkpoint's {name}, of shape {shape}, must be sinusoids {width} wide, which "
                "are computed here; it holds something else. Is it a Marian's?"
            )


def _same(settings, first, second, default):
    values = settings.get(first, default), settings.get(second, default)
    if values[0] != values[1]:
        raise ValueError(
            f"{CONFIG_FILE}: the settings {first!r} and {second!r} must be equal; got {values[0]} "
            f"and {values[1]}. `Transformer` gives its encoder and decoder blocks one size."
        )
    return values[0]


def telling_names(model):
    """Returns the names of tensors that `read_arguments` looks for."""
    return set()


def entries(model):
    """Returns the tensors of a checkpoint of this model."""
    embedding = model.get_layer("embedding")
    shared = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    found = [
        *head(embedding, "model.shared.weight", tuple(shared)),
        Entry("final_logits_bias", (embedding.bias,), ONE_ROW),
    ]
    for index in range(model.num_layers):
        block, name = model.get_layer(f"encoder_block_{index}"), f"model.encoder.layers.{index}"
        found += [
            *_attention(f"{name}.self_attn", block.attention, block.attention_norm),
            *_feed_forward(name, block),
        ]
    for index in range(model.num_decoder_layers):
        block, name = model.get_layer(f"decoder_block_{index}"), f"model.decoder.layers.{index}"
        found += [
            *_attention(f"{name}.self_attn", block.self_attention, block.self_attention_norm),
            *_attention(
                f"{name}.encoder_attn", block.context_attention, block.context_attention_norm
            ),
            *_feed_forward(name, block),
        ]
    return found


def _attention(name, layer, norm):
    maps = [f"{name}.{each}_proj" for each in ("q", "k", "v", "out")]
    return [*attention(maps, layer), *layer_norm(f"{name}_layer_norm", norm)]


def _feed_forward(name, block):
    return [
        *linear(f"{name}.fc1", block.feed_forward.inner_dense),
        *linear(f"{name}.fc2", block.feed_forward.outer_dense),
        *layer_norm(f"{name}.final_layer_norm", block.feed_forward_norm),
    ]


def write_settings(model, options):
    """Returns the settings that `read_arguments` makes this model of."""
    return {
        "architectures": ["MarianMTModel"],
        "vocab_size": model.vocabulary_size,
        "d_model": model.model_dim,
        "encoder_layers": model.num_layers,
        "decoder_layers": model.num_decoder_layers,
        "encoder_attention_heads": model.num_heads,
        "decoder_attention_heads": model.num_heads,
        "encoder_ffn_dim": model.intermediate_dim,
        "decoder_ffn_dim": model.intermediate_dim,
        "activation_function": published_name(options["activation"]),
        "dropout": model.dropout,
        "attention_dropout": options["attention_dropout"],
        "activation_dropout": options["feed_forward_dropout"],
        "scale_embedding": model.scale_embedding,
        "is_encoder_decoder": True,
        "bad_words_ids": [[each] for each in model.suppressed_ids] or None,
        "pad_token_id": model.pad_id,
        "decoder_start_token_id": model.start_id,
        "eos_token_id": model.end_id,
        "forced_eos_token_id": model.end_id,
    }
