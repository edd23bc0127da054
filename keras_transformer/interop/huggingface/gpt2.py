"""GPT-2: pre-norm, learned positions, one linear map for query, key and value."""

from keras_transformer.interop.huggingface.layouts import (
    FUSED_BIASES,
    FUSED_HEADS,
    HEADS_OUT_AS_IS,
    SAME,
)
from keras_transformer.interop.huggingface.settings import published_ids, published_name
from keras_transformer.interop.huggingface.weights import Entry, head, layer_norm, linear
from keras_transformer.models.causal_language_model import CausalLanguageModel
from keras_transformer.models.families import layer_config

PREFIX = "transformer."
POSITION = "LearnedPositionEncoding"
# Causal masks, which old checkpoints keep as tensors.
IGNORED = ("*.attn.bias", "*.attn.masked_bias")


def read_arguments(settings, tensors):
    """Returns (class, arguments) of the model that a config describes."""
    settings.require("scale_attn_by_inverse_layer_idx", False)
    settings.require("add_cross_attention", False)
    # Softmax is float32 here anyway; the summary head belongs to another model.
    settings.ignore("reorder_and_upcast_attn", "embd_pdrop")
    settings.ignore("summary_type", "summary_use_proj", "summary_activation")
    settings.ignore("summary_proj_to_labels", "summary_first_dropout")
    width = settings.get("n_embd", 768)
    tied = settings.get("tie_word_embeddings", True)
    end_id, *other_end_ids = settings.ids("eos_token_id", 50256)
    return CausalLanguageModel, {
        "vocabulary_size": settings.get("vocab_size", 50257),
        "num_layers": settings.get("n_layer", 12),
        "model_dim": width,
        "num_heads": settings.get("n_head", 12),
        "intermediate_dim": settings.get("n_inner") or 4 * width,
        "dropout": settings.get("resid_pdrop", 0.1),
        "position": layer_config(
            "LearnedPositionEncoding", max_length=settings.get("n_positions", 1024)
        ),
        "tie_weights": tied,
        "scale_embedding": False,
        "normalize_first": True,
        "activation": settings.activation("activation_function", "gelu_new"),
        "epsilon": settings.get("layer_norm_epsilon", 1e-5),
        "attention_dropout": settings.get("attn_pdrop", 0.1),
        "attention_scale": None if settings.get("scale_attn_weights", True) else 1.0,
        "pad_id": settings.one_id("pad_token_id", end_id),
        "start_id": settings.one_id("bos_token_id", end_id),
        "end_id": end_id,
        "other_end_ids": other_end_ids,
    }


def telling_names(model):
    """Returns the names of tensors that `read_arguments` looks for."""
    return set()


def entries(model):
    """Returns the tensors of a checkpoint of this model."""
    embedding = model.get_layer("embedding")
    positions = model.get_layer("token_positions")
    found = [Entry("transformer.wpe.weight", (positions.table,))]
    for index in range(model.num_layers):
        block = model.get_layer(f"decoder_block_{index}")
        attention, name = block.self_attention, f"transformer.h.{index}"
        maps = (attention.query_dense, attention.key_dense, attention.value_dense)
        kernels = tuple(each.kernel for each in maps)
        biases = tuple(each.bias for each in maps)
        found += [
            Entry(f"{name}.attn.c_attn.weight", kernels, FUSED_HEADS),
            Entry(f"{name}.attn.c_attn.bias", biases, FUSED_BIASES),
            *linear(f"{name}.attn.c_proj", attention.output_dense, HEADS_OUT_AS_IS),
            *layer_norm(f"{name}.ln_1", block.self_attention_norm),
            *linear(f"{name}.mlp.c_fc", block.feed_forward.inner_dense, SAME),
            *linear(f"{name}.mlp.c_proj", block.feed_forward.outer_dense, SAME),
            *layer_norm(f"{name}.ln_2", block.feed_forward_norm),
        ]
    return [
        *found,
        *layer_norm("transformer.ln_f", model.get_layer("decoder_norm")),
        *head(embedding, "transformer.wte.weight"),
    ]


def write_settings(model, options):
    """Returns the settings that `read_arguments` makes this model of."""
    return {
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": model.vocabulary_size,
        "n_positions": options["position"]["config"]["max_length"],
        "n_embd": model.model_dim,
        "n_layer": model.num_layers,
        "n_head": model.num_heads,
        "n_inner": model.intermediate_dim,
        "activation_function": published_name(options["activation"]),
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "attn_pdrop": options["attention_dropout"],
        "layer_norm_epsilon": options["epsilon"],
        "scale_attn_weights": options["attention_scale"] is None,
        "tie_word_embeddings": model.tie_weights,
        "bos_token_id": model.start_id,
        "eos_token_id": published_ids(model),
        "pad_token_id": model.pad_id,
    }
