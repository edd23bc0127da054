"""The weights of a translator as a checkpoint of Hugging Face's, which other libraries read.

    python -m contenders.bart_weights TRANSLATOR FOLDER

It is a Marian's, or where blocks are pre-norm a Pegasus's: the same names, and a norm after the
last block. Their sinusoids are all sines and then all cosines, the paper's alternate. That is
another order of the channels between the blocks: with the weights in that order it is the same
network.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
from keras import ops
from workloads import TOKENIZER

from keras_transformer.interop.huggingface import marian
from keras_transformer.interop.huggingface.tensor_files import SAFETENSORS, write_tensors
from keras_transformer.interop.huggingface.weights import layer_norm, written_weights
from keras_transformer.layers import SinusoidalPositionEncoding
from keras_transformer.models import Transformer
from keras_transformer.translator import Translator

# The axis of the channels in the weights that have them, by the ends of their paths.
_CHANNELS = {
    "embeddings": 1,
    "gamma": 0,
    "beta": 0,
    "query/kernel": 0,
    "key/kernel": 0,
    "value/kernel": 0,
    "attention_output/kernel": 2,
    "attention_output/bias": 0,
    "inner/kernel": 0,
    "outer/kernel": 1,
    "outer/bias": 0,
}


def in_marians_order(model):
    """Returns a `Transformer` with Marian's sinusoids, its bias on the logits and its epsilon."""
    changes = {
        "position": SinusoidalPositionEncoding(layout="half_split"),
        "head_bias": True,
        "epsilon": 1e-5,
        "name": "ordered",
    }
    ordered = Transformer.from_config({**model.get_config(), **changes})
    order = np.r_[0 : model.model_dim : 2, 1 : model.model_dim : 2]
    values = {_name(variable): variable for variable in model.variables}
    for variable in ordered.trainable_variables:
        name = _name(variable)
        if name not in values:  # the bias on the logits, which stays 0
            continue
        value = ops.convert_to_numpy(values[name])
        axes = [axis for end, axis in _CHANNELS.items() if name.endswith(end)]
        variable.assign(np.take(value, order, axis=axes[0]) if axes else value)
    return ordered


def _name(variable):
    """Returns the path of a variable within its model."""
    return variable.path.partition("/")[2]


def write_checkpoint(model, folder):
    """Writes the weights and settings of a `Transformer` with the paper's sinusoids."""
    from transformers import MarianConfig, PegasusConfig

    pre_norm = model.get_config().get("normalize_first", False)
    ordered = in_marians_order(model)
    entries = marian.entries(ordered)
    if pre_norm:
        for side in ("encoder", "decoder"):
            entries += layer_norm(f"model.{side}.layer_norm", ordered.get_layer(f"{side}_norm"))
    write_tensors(Path(folder, SAFETENSORS), written_weights(entries))
    config = PegasusConfig if pre_norm else MarianConfig
    config(
        vocab_size=model.vocabulary_size,
        d_model=model.model_dim,
        encoder_layers=model.num_layers,
        decoder_layers=model.num_decoder_layers,
        encoder_attention_heads=model.num_heads,
        decoder_attention_heads=model.num_heads,
        encoder_ffn_dim=model.intermediate_dim,
        decoder_ffn_dim=model.intermediate_dim,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=model.pad_id,
        bos_token_id=model.start_id,
        decoder_start_token_id=model.start_id,
        eos_token_id=model.end_id,
        forced_eos_token_id=model.end_id,
    ).save_pretrained(folder)


def main():
    translator, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir()
    write_checkpoint(Translator.load(translator).model, folder)
    shutil.copy(translator / TOKENIZER, folder)


if __name__ == "__main__":
    main()
