"""Hugging Face checkpoints: a folder with `config.json` and `model.safetensors`, read and written.

Reading needs neither torch nor transformers, only `safetensors`.
"""

from keras_transformer.interop.huggingface.checkpoint import load_model, save_model

__all__ = ["load_model", "save_model"]
