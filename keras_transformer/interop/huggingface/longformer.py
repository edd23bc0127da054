"""Longformer: BERT under a sliding window, with maps of their own for what global tokens see."""

from keras_transformer.interop.huggingface.bert import (
    encoder_arguments,
    encoder_entries,
    encoder_settings,
    masked_head,
)
from keras_transformer.interop.huggingface.layouts import HEADS_IN
from keras_transformer.interop.huggingface.settings import CONFIG_FILE
from keras_transformer.interop.huggingface.weights import linear
from keras_transformer.models.families import layer_config
from keras_transformer.models.masked_language_model import MaskedLanguageModel
from keras_transformer.models.transformer_encoder import TransformerEncoder

PREFIX = "longformer."
POSITION = "LearnedPositionEncoding"
MECHANISM = "SlidingWindowAttention"
# Position numbers, and the heads of the other uses of the same encoder.
IGNORED = ("*embeddings.position_ids", "lm_head.*", "*pooler.*", "classifier.*", "qa_outputs.*")


def read_arguments(settings, tensors):
    """Returns (class, arguments) of the model that a config describes.

    Which tokens are global is not a setting but part of a call; here it is the first one.
    """
    settings.require("attention_mode", "longformer")
    settings.require("ignore_attention_mask", False)
    settings.ignore("onnx_export")
    masked, arguments = encoder_arguments(settings, tensors.names, "lm_head.", pad_id=1)
    skipped = arguments["pad_id"] + 1
    longest = settings.get("max_position_embeddings", 512) - skipped
    arguments["position"] = layer_config(POSITION, max_length=longest, skipped_rows=skipped)
    arguments["mechanism"] = [
        layer_config(MECHANISM, window=reach + 1, global_tokens=1, global_projections=True)
        for reach in _reaches(settings, arguments["num_layers"])
    ]
    return (masked_model if masked else TransformerEncoder), arguments


def _reaches(settings, num_layers):
    """Returns how many tokens each block sees on either side: half of its window."""
    windows = settings.get("attention_window", 512)
    windows = [windows] * num_layers if isinstance(windows, int) else windows
    if len(windows) != num_layers or any(window % 2 or window < 2 for window in windows):
        raise ValueError(
            f"{CONFIG_FILE}: the setting 'attention_window' must be an even number from 2, or "
            f"{num_layers} of them; got {windows}."
        )
    return [window // 2 for window in windows]


def masked_model(**arguments):
    """Returns the masked language model over the encoder of these arguments."""
    return MaskedLanguageModel(TransformerEncoder(**arguments), activation="gelu")


def telling_names(model):
    """Returns the names of tensors that `read_arguments` looks for."""
    if isinstance(model, MaskedLanguageModel):
        return {"lm_head.bias"}
    return {"longformer.pooler.dense.weight"} if model.pooling == "dense" else set()


def entries(model):
    """Returns the tensors of a checkpoint of this model."""
    encoder, name = getattr(model, "encoder", model), "longformer.embeddings.word_embeddings.weight"
    found = [
        *masked_head(model, name, "lm_head", "lm_head.dense", "lm_head.layer_norm"),
        *encoder_entries("longformer", encoder),
    ]
    for index in range(encoder.num_layers):
        attention = encoder.get_layer(f"encoder_block_{index}").attention
        prefix = f"longformer.encoder.layer.{index}.attention.self"
        maps = [f"{prefix}.{each}_global" for each in ("query", "key", "value")]
        for each, dense in zip(maps, attention.global_denses, strict=True):
            found += linear(each, dense, HEADS_IN)
    return found


def write_settings(model, options):
    """Returns the settings that `read_arguments` makes this model of."""
    encoder = getattr(model, "encoder", model)
    masked = isinstance(model, MaskedLanguageModel)
    positions = options["position"]["config"]
    return {
        "architectures": ["LongformerForMaskedLM" if masked else "LongformerModel"],
        **encoder_settings(encoder, options),
        "max_position_embeddings": positions["max_length"] + positions["skipped_rows"],
        "attention_window": [2 * (window - 1) for window in _windows(encoder)],
    }


def _windows(encoder):
    blocks = [encoder.get_layer(f"encoder_block_{index}") for index in range(encoder.num_layers)]
    mechanisms = [block.mechanism for block in blocks]
    if any(
        type(each).__name__ != MECHANISM or not each.global_projections or each.window < 2
        for each in mechanisms
    ):
        raise ValueError(
            "`model_type` 'longformer' has no setting for this model's mechanism: it must be a "
            f"{MECHANISM} of window 2 or more with global_projections=True in every block; got "
            f"{[each.get_config() for each in mechanisms]}. Choose the family that the model is of."
        )
    return [each.window for each in mechanisms]
