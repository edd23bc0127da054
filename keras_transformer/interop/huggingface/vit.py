"""ViT: pre-norm encoder over patches, with a class token; a classifier or a pooler."""

from keras_transformer.interop.huggingface.layouts import CONVOLUTION, FLAT, Layout
from keras_transformer.interop.huggingface.settings import published_name
from keras_transformer.interop.huggingface.weights import Entry, attention, layer_norm, linear
from keras_transformer.models.vision_transformer import VisionTransformer

PREFIX = "vit."
POSITION = None
# The token that stands for hidden patches in pre-training, and what a model without head leaves.
IGNORED = ("*embeddings.mask_token", "classifier.*", "*pooler.*")
# (1, n, D) and (1, 1, D) beside our (n, D) and (D,).
ONE_IMAGE = Layout(
    lambda arrays: arrays[0].reshape(1, -1, arrays[0].shape[-1]),
    lambda array, shapes: [array.reshape(shapes[0])],
)


def read_arguments(settings, tensors):
    """Returns (class, arguments) of the model that a config describes."""
    settings.require("qkv_bias", True)
    settings.require("pooler_act", "tanh")
    settings.ignore("encoder_stride")
    width = settings.get("hidden_size", 768)
    settings.require("pooler_output_size", None, width)
    names = tensors.names
    classes = len(settings.get("id2label") or {}) or settings.get("num_labels", 2)
    classifies = "ViTForImageClassification" in (settings.get("architectures") or [])
    if not classifies and not any(name.startswith("classifier.") for name in names):
        classes = None
    pooled = any("pooler." in name for name in names)
    return VisionTransformer, {
        "image_size": _pair_or_int(settings.get("image_size", 224)),
        "patch_size": _one_size(settings.get("patch_size", 16)),
        "num_classes": classes,
        "num_layers": settings.get("num_hidden_layers", 12),
        "model_dim": width,
        "num_heads": settings.get("num_attention_heads", 12),
        "intermediate_dim": settings.get("intermediate_size", 3072),
        "dropout": settings.get("hidden_dropout_prob", 0.0),
        "num_channels": settings.get("num_channels", 3),
        "pooling": "first" if classes else "dense" if pooled else None,
        "normalize_first": True,
        "activation": settings.activation("hidden_act", "gelu"),
        "epsilon": settings.get("layer_norm_eps", 1e-12),
        "attention_dropout": settings.get("attention_probs_dropout_prob", 0.0),
    }


def _pair_or_int(size):
    return size if isinstance(size, int) else list(size)


def _one_size(size):
    if not isinstance(size, int) and size[0] == size[1]:
        return size[0]
    return size


def telling_names(model):
    """Returns the names of tensors that `read_arguments` looks for."""
    if model.num_classes is not None:
        return {"classifier.weight"}
    return {"vit.pooler.dense.weight"} if model.pooling == "dense" else set()


def entries(model):
    """Returns the tensors of a checkpoint of this model, each by its old name and its new one.

    Raises:
        ValueError: if the model has no class token.
    """
    if model.pooling == "mean":
        raise ValueError(
            "`pooling` must be None, 'first' or 'dense' in a ViT of Hugging Face's format, which "
            "has a class token; got 'mean'. Take None and the mean over what follows the token."
        )
    patches = model.get_layer("patches")
    projection = "vit.embeddings.patch_embeddings.projection"
    found = [
        Entry("vit.embeddings.cls_token", (patches.first,), ONE_IMAGE),
        Entry("vit.embeddings.position_embeddings", (patches.positions,), ONE_IMAGE),
        Entry(f"{projection}.weight", (patches.kernel,), CONVOLUTION),
        Entry(f"{projection}.bias", (patches.bias,), FLAT),
        *layer_norm("vit.layernorm", model.get_layer("encoder_norm")),
    ]
    for index in range(model.num_layers):
        found += _block(index, model.get_layer(f"encoder_block_{index}"))
    if model.pooling == "dense":
        found += linear("vit.pooler.dense", model.get_layer("pooler"))
    if model.num_classes is not None:
        found += linear("classifier", model.get_layer("head"))
    return found


def _block(index, block):
    old = _block_entries(
        block,
        f"vit.encoder.layer.{index}",
        [f"attention.attention.{each}" for each in ("query", "key", "value")],
        ["attention.output.dense", "intermediate.dense", "output.dense"],
    )
    new = _block_entries(
        block,
        f"vit.layers.{index}",
        [f"attention.{each}_proj" for each in "qkv"],
        ["attention.o_proj", "mlp.fc1", "mlp.fc2"],
    )
    return [
        entry._replace(aliases=(*entry.aliases, other.name, *other.aliases))
        for entry, other in zip(old, new, strict=True)
    ]


def _block_entries(block, name, maps, others):
    output, inner, outer = (f"{name}.{each}" for each in others)
    return [
        *attention([*(f"{name}.{each}" for each in maps), output], block.attention),
        *layer_norm(f"{name}.layernorm_before", block.attention_norm),
        *linear(inner, block.feed_forward.inner_dense),
        *linear(outer, block.feed_forward.outer_dense),
        *layer_norm(f"{name}.layernorm_after", block.feed_forward_norm),
    ]


def write_settings(model, options):
    """Returns the settings that `read_arguments` makes this model of."""
    settings = {
        "architectures": ["ViTModel" if model.num_classes is None else "ViTForImageClassification"],
        "image_size": model.image_size,
        "patch_size": model.patch_size,
        "num_channels": model.num_channels,
        "hidden_size": model.model_dim,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "intermediate_size": model.intermediate_dim,
        "hidden_act": published_name(options["activation"]),
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": options["attention_dropout"],
        "layer_norm_eps": options["epsilon"],
    }
    if model.num_classes is not None:
        numbers = range(model.num_classes)
        settings["id2label"] = {str(number): f"LABEL_{number}" for number in numbers}
        settings["label2id"] = {f"LABEL_{number}": number for number in numbers}
    return settings
