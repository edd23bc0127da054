"""BERT and its kin: post-norm, learned positions, token types; a pooler or masked tokens' head."""

from keras_transformer.interop.huggingface.layouts import LINEAR
from keras_transformer.interop.huggingface.settings import published_name
from keras_transformer.interop.huggingface.weights import Entry, attention, layer_norm, linear
from keras_transformer.models.families import layer_config
from keras_transformer.models.masked_language_model import MaskedLanguageModel
from keras_transformer.models.transformer_encoder import TransformerEncoder

PREFIX = "bert."
POSITION = "LearnedPositionEncoding"
# Position numbers, and the heads of the other uses of the same encoder.
IGNORED = ("*embeddings.position_ids", "cls.*", "*pooler.*", "classifier.*", "qa_outputs.*")


def read_arguments(settings, tensors):
    """Returns (class, arguments) of the model that a config describes.

    A checkpoint with the head for masked tokens is a `MaskedLanguageModel`, any other a
    `TransformerEncoder`, pooled by "dense" where it has a pooler.
    """
    settings.require("add_cross_attention", False)
    # Of the first release's own code; multilingual checkpoints carry them.
    pooler = ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head", "type")
    settings.ignore("directionality", *(f"pooler_{each}" for each in pooler))
    masked, arguments = encoder_arguments(settings, tensors.names, "cls.predictions.", pad_id=0)
    arguments["position"] = layer_config(
        POSITION, max_length=settings.get("max_position_embeddings", 512)
    )
    return (masked_model if masked else TransformerEncoder), arguments


def encoder_arguments(settings, names, head, pad_id):
    """Returns whether there is a head for masked tokens, and the arguments but for positions."""
    settings.require("is_decoder", False)
    settings.require("position_embedding_type", "absolute")
    settings.ignore("eos_token_id")
    masked = any(name.startswith(head) for name in names)
    pooled = not masked and any("pooler." in name for name in names)
    return masked, {
        "vocabulary_size": settings.get("vocab_size", 30522),
        "num_layers": settings.get("num_hidden_layers", 12),
        "model_dim": settings.get("hidden_size", 768),
        "num_heads": settings.get("num_attention_heads", 12),
        "intermediate_dim": settings.get("intermediate_size", 3072),
        "dropout": settings.get("hidden_dropout_prob", 0.1),
        "num_token_types": settings.get("type_vocab_size", 2),
        "normalize_embedding": True,
        "scale_embedding": False,
        "pooling": "dense" if pooled else None,
        "tie_weights": settings.get("tie_word_embeddings", True) or not masked,
        "head_bias": masked,
        "activation": settings.activation("hidden_act", "gelu"),
        "epsilon": settings.get("layer_norm_eps", 1e-12),
        "attention_dropout": settings.get("attention_probs_dropout_prob", 0.1),
        "pad_id": settings.one_id("pad_token_id", pad_id),
    }


def masked_model(**arguments):
    """Returns the masked language model over the encoder of these arguments."""
    return MaskedLanguageModel(TransformerEncoder(**arguments), activation=arguments["activation"])


def telling_names(model):
    """Returns the names of tensors that `read_arguments` looks for."""
    if isinstance(model, MaskedLanguageModel):
        return {"cls.predictions.bias"}
    return {"bert.pooler.dense.weight"} if model.pooling == "dense" else set()


def entries(model):
    """Returns the tensors of a checkpoint of this model."""
    name, head = "bert.embeddings.word_embeddings.weight", "cls.predictions"
    return [
        *masked_head(model, name, head, f"{head}.transform.dense", f"{head}.transform.LayerNorm"),
        *encoder_entries("bert", getattr(model, "encoder", model)),
    ]


def encoder_entries(prefix, encoder):
    """Returns the tensors of the encoder, but for the tokens' embedding."""
    layer = encoder.get_layer
    types = f"{prefix}.embeddings.token_type_embeddings.weight"
    found = [
        Entry(f"{prefix}.embeddings.position_embeddings.weight", (layer("token_positions").table,)),
        Entry(types, (layer("type_embedding").embeddings,)),
        *layer_norm(f"{prefix}.embeddings.LayerNorm", layer("embedding_norm")),
    ]
    for index in range(encoder.num_layers):
        found += _block(f"{prefix}.encoder.layer.{index}", layer(f"encoder_block_{index}"))
    if encoder.pooling == "dense":
        found += linear(f"{prefix}.pooler.dense", layer("pooler"))
    return found


def _block(name, block):
    maps = [f"{name}.attention.self.{each}" for each in ("query", "key", "value")]
    return [
        *attention([*maps, f"{name}.attention.output.dense"], block.attention),
        *layer_norm(f"{name}.attention.output.LayerNorm", block.attention_norm),
        *linear(f"{name}.intermediate.dense", block.feed_forward.inner_dense),
        *linear(f"{name}.output.dense", block.feed_forward.outer_dense),
        *layer_norm(f"{name}.output.LayerNorm", block.feed_forward_norm),
    ]


def masked_head(model, name, head, dense, norm):
    """Returns the tensors of the tokens' embedding, and of the head where the model has one.

    Args:
        model: encoder, or the masked language model over one.
        name: of the embedding. head, dense, norm: of the head and of its two layers.
    """
    embedding = getattr(model, "encoder", model).embedding
    if not isinstance(model, MaskedLanguageModel):
        return [Entry(name, (embedding.embeddings,))]
    layers = [
        *linear(dense, model.get_layer("head_dense")),
        *layer_norm(norm, model.get_layer("head_norm")),
    ]
    weight, bias = f"{head}.decoder.weight", f"{head}.decoder.bias"
    if embedding.tie_weights:
        return [
            Entry(name, (embedding.embeddings,), aliases=(weight,)),
            Entry(f"{head}.bias", (embedding.bias,), aliases=(bias,)),
            *layers,
        ]
    return [
        Entry(name, (embedding.embeddings,)),
        # Untied, it is there and read by nobody; the decoder's, below, takes its place.
        Entry(f"{head}.bias", (embedding.bias,)),
        *layers,
        Entry(weight, (embedding.reverse_embeddings,), LINEAR),
        Entry(bias, (embedding.bias,)),
    ]


def write_settings(model, options):
    """Returns the settings that `read_arguments` makes this model of."""
    masked = isinstance(model, MaskedLanguageModel)
    return {
        "architectures": ["BertForMaskedLM" if masked else "BertModel"],
        **encoder_settings(getattr(model, "encoder", model), options),
        "max_position_embeddings": options["position"]["config"]["max_length"],
    }


def encoder_settings(encoder, options):
    """Returns the settings of the encoder, but for positions."""
    return {
        "vocab_size": encoder.vocabulary_size,
        "hidden_size": encoder.model_dim,
        "num_hidden_layers": encoder.num_layers,
        "num_attention_heads": encoder.num_heads,
        "intermediate_size": encoder.intermediate_dim,
        "hidden_act": published_name(options["activation"]),
        "hidden_dropout_prob": encoder.dropout,
        "attention_probs_dropout_prob": options["attention_dropout"],
        "type_vocab_size": encoder.num_token_types,
        "layer_norm_eps": options["epsilon"],
        "tie_word_embeddings": encoder.tie_weights,
        "pad_token_id": encoder.pad_id,
    }
