"""Loading and saving whole checkpoints."""

import inspect
import json
from pathlib import Path

import keras

from keras_transformer.interop.huggingface import bert, gpt2, llama, longformer, marian, t5, vit
from keras_transformer.interop.huggingface.settings import CONFIG_FILE, Settings
from keras_transformer.interop.huggingface.tensor_files import (
    SAFETENSORS,
    open_tensors,
    write_tensors,
)
from keras_transformer.interop.huggingface.weights import (
    read_weights,
    without_prefix,
    written_weights,
)
from keras_transformer.layers.attention_mechanism import mechanism_names
from keras_transformer.layers.quantization_record import quantized_layers
from keras_transformer.layers.transformer_block import TransformerBlock
from keras_transformer.models.transformer_encoder import TransformerEncoder
from keras_transformer.new_folder import new_folder
from keras_transformer.ops.activations import get_activation

FAMILIES = {
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "longformer": longformer,
    "marian": marian,
    "t5": t5,
    "vit": vit,
}


def load_model(folder, **arguments):
    """Returns the model of a Hugging Face checkpoint, with its weights.

    Every setting of `config.json` and every tensor is accounted for: one that this library does not
    know is an error that names it. Settings that only training or generation read are not copied,
    but for the dropout rates: the residual one is also that of the embedded input.

    Args:
        folder: path of a folder with `config.json` and `model.safetensors`, whole or in shards, or
            `pytorch_model.bin`; or a name on the Hugging Face hub, where `huggingface_hub` is
            installed.
        **arguments: of the model, in place of those that the config gives: `dtype`, `dropout`,
            `mechanism`; for BERT and Longformer `pooling`, which takes the encoder without the head
            for masked tokens; for ViT `num_classes=None`, which takes it without the classifier,
            or `pooling`. An image size is changed afterwards: `VisionTransformer.with_image_size`.

    Returns:
        `CausalLanguageModel` (GPT-2, Llama), `TransformerEncoder` or `MaskedLanguageModel` (BERT,
        Longformer), `Transformer` (Marian, T5), `VisionTransformer` (ViT, whose images have their
        channels last here).

    Raises:
        ValueError: if the family, a setting or a tensor is not known; if tensors are missing or
            have the wrong shape (one error lists all); if a file is damaged or not plain weights.

    Example:

    ```python
    model = huggingface.load_model("checkpoints/gpt2")
    model.generate([[15496, 11]])
    ```
    """
    folder = local_folder(folder)
    settings = Settings.of_folder(folder)
    family = _family(settings.needed("model_type"))
    tensors = open_tensors(folder)
    make, read = family.read_arguments(settings, tensors)
    settings.finish()
    if "pooling" in arguments and make in (bert.masked_model, longformer.masked_model):
        make, read = TransformerEncoder, {**read, "tie_weights": True, "head_bias": False}
    model = make(**{**read, **arguments})
    entries = without_prefix(family.entries(model), family.PREFIX, tensors.names)
    read_weights(entries, tensors, family.IGNORED)
    return model


def save_model(model, folder, model_type, overwrite=False):
    """Writes a model as a Hugging Face checkpoint: `config.json` and `model.safetensors`.

    A pooling without weights, "mean" or "first", is no setting of theirs: give it to `load_model`.

    Args:
        model: a model as `load_model` returns them.
        folder: path of the folder; it is written whole or not at all.
        model_type: "bert", "gpt2", "llama", "longformer", "marian", "t5" or "vit".
        overwrite: bool, whether a checkpoint at `folder` may be replaced.

    Raises:
        ValueError: if the family has no setting for something that the model is, the model is
            quantized, or `folder` exists already.
    """
    family = _family(model_type)
    _check_not_quantized(model)
    options = _options(model)
    _check_position(family, model_type, options["position"])
    _check_mechanism(family, model_type, options["mechanism"])
    settings = {"model_type": model_type, **family.write_settings(model, options)}
    _check_round_trip(family, settings, options, family.telling_names(model))
    entries = family.entries(model)
    with new_folder(folder, overwrite, marker=CONFIG_FILE) as path:
        (path / CONFIG_FILE).write_text(json.dumps(settings, indent=2), encoding="utf-8")
        write_tensors(path / SAFETENSORS, written_weights(entries))


def _family(model_type):
    if model_type not in FAMILIES:
        raise ValueError(
            f"`model_type` must be one of {sorted(FAMILIES)}; got {model_type!r}. Other families "
            "have no recipe here."
        )
    return FAMILIES[model_type]


def local_folder(folder):
    """Returns the path of the folder, downloaded from the hub if it is a name there."""
    if Path(folder).is_dir():
        return Path(folder)
    try:
        import huggingface_hub
    except ImportError as error:
        raise ValueError(
            f"`folder` must be a folder; there is none at {folder}. To take it for a name on the "
            "Hugging Face hub, install huggingface_hub."
        ) from error
    files = ["*.json", "*.safetensors", "*.bin", "*.spm"]
    try:
        return Path(huggingface_hub.snapshot_download(str(folder), allow_patterns=files))
    except (ValueError, OSError) as error:
        said = str(error).partition("\n")[0]
        raise ValueError(
            "`folder` must be a folder or a name on the Hugging Face hub; there is no folder "
            f"{folder}, and the hub says: {said}. Check path, name and network."
        ) from error


def _options(model):
    """Returns the arguments of a model and of its blocks, defaults filled in."""
    encoder = getattr(model, "encoder", model)
    blocks = inspect.signature(TransformerBlock.__init__).parameters
    defaults = {
        name: parameter.default
        for name, parameter in blocks.items()
        if parameter.default is not inspect.Parameter.empty
    }
    options = {**defaults, **encoder.get_config()}
    if options["feed_forward_bias"] is None:
        options["feed_forward_bias"] = options["use_bias"]
    return {name: _comparable(name, value) for name, value in options.items()}


def _comparable(name, value):
    """Returns a value in the one form in which equal settings are equal."""
    if name == "activation":
        return get_activation(value).__name__
    if isinstance(value, dict) and "class_name" in value and "position" in name:
        layer = keras.saving.deserialize_keras_object(value)
        config = {key: each for key, each in layer.get_config().items() if key != "name"}
        return {"class_name": type(layer).__name__, "config": config}
    return value


def _check_not_quantized(model):
    quantized = quantized_layers(model)
    if quantized:
        raise ValueError(
            f"`model` must not be quantized to be saved in Hugging Face's format, which has no "
            f"scales; layer {quantized[0][0]!r} of {model.name!r} is. Save it before `quantize`, "
            "or by `model.save`, which keeps them."
        )


def _check_position(family, model_type, position):
    found = position["class_name"] if isinstance(position, dict) else position
    if found != family.POSITION:
        raise ValueError(
            f"`model_type` {model_type!r} has no setting for this model's ['position']: it must be "
            f"{family.POSITION}; got {found!r}. Choose the family that the model is of."
        )


def _check_mechanism(family, model_type, mechanism):
    """Raises where attention is not exact, unless the family has its own; that says which."""
    exact = {*mechanism_names(), *(each.__name__ for each in mechanism_names().values())}
    all_of_them = mechanism if isinstance(mechanism, list) else [mechanism]
    found = [each["class_name"] if isinstance(each, dict) else each for each in all_of_them]
    if not hasattr(family, "MECHANISM") and any(
        each.removeprefix("keras_transformer>") not in exact for each in found
    ):
        raise ValueError(
            f"`model_type` {model_type!r} has no setting for this model's ['mechanism']: attention "
            f"must be exact; got {found}. Choose the family that the model is of."
        )


def _check_round_trip(family, settings, options, names):
    """Raises where the settings would be read back as another model."""
    _, read = family.read_arguments(Settings(settings), _NamesOnly(names))
    kept = {"name", "dtype", "seed", "mechanism"}
    read = {name: _comparable(name, value) for name, value in read.items() if name not in kept}
    lost = sorted(
        name
        for name, value in read.items()
        if value != options[name] and not _same_by_default(name, value, options)
    )
    defaults = inspect.signature(TransformerBlock.__init__).parameters
    lost += sorted(
        name
        for name, value in options.items()
        if name in defaults
        and name not in read
        and name not in kept
        and value != _comparable(name, defaults[name].default)
        and not _same_by_default(name, defaults[name].default, options)
    )
    if lost:
        raise ValueError(
            f"`model_type` {settings['model_type']!r} has no setting for this model's {lost}: "
            + ", ".join(f"{name}={options[name]!r}" for name in lost)
            + ". Choose the family that the model is of."
        )


def _same_by_default(name, value, options):
    """Whether a setting that is None means this value: sizes that follow from others."""
    if name == "key_dim":
        return options[name] is None and value == options["model_dim"] // options["num_heads"]
    if name == "num_key_value_heads":
        return options[name] in (None, options["num_heads"]) and value in (
            None,
            options["num_heads"],
        )
    if name == "pooling":  # without weights, and given again where the checkpoint is read
        return value is None and options[name] in ("mean", "first")
    if name == "feed_forward_bias":
        return value is None and options[name] == options["use_bias"]
    return False


class _NamesOnly:
    """Tensors that are about to be written: their names, and each unlike the others."""

    def __init__(self, names):
        self.names = names

    def read(self, name):
        return name
