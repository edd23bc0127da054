"""A checkpoint folder's tensors by name: safetensors or torch's pickle, whole or in shards."""

import json
from pathlib import Path

import numpy as np

SAFETENSORS = "model.safetensors"
PICKLE = "pytorch_model.bin"


def open_tensors(folder):
    """Returns the tensors of a folder, as an object with `names`, `shape(name)` and `read(name)`.

    Raises:
        ValueError: if there are none, or a file is damaged, missing or not plain weights.
    """
    folder = Path(folder)
    for index, reader in ((SAFETENSORS, _SafeTensors), (PICKLE, _Pickles)):
        if (folder / index).is_file():
            return reader([folder / index])
        if (folder / f"{index}.index.json").is_file():
            return reader(_shards(folder / f"{index}.index.json"))
    raise ValueError(
        f"`folder` must hold {SAFETENSORS} or {PICKLE}, or an index of their shards; {folder} has "
        "none. Is it a checkpoint's folder?"
    )


def write_tensors(path, tensors):
    """Writes a dict of arrays as one safetensors file."""
    numpy_format = _import_safetensors("safetensors.numpy")
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    numpy_format.save_file(arrays, str(path), metadata={"format": "pt"})


def _shards(index):
    try:
        names = json.loads(index.read_bytes())["weight_map"].values()
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{index} is damaged: {error!r}. Download the checkpoint again."
        ) from error
    paths = [index.parent / name for name in sorted(set(names))]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise ValueError(f"{index.parent} lacks {missing}, named by {index.name}. Download them.")
    return paths


class _SafeTensors:
    """Reads one tensor at a time; the files stay on disk."""

    def __init__(self, paths):
        safetensors = _import_safetensors("safetensors")
        self._file_of = {}
        for path in paths:
            try:
                file = safetensors.safe_open(str(path), framework="numpy")
            except safetensors.SafetensorError as error:
                raise ValueError(
                    f"{path} is damaged or cut off: {error}. Download the checkpoint again."
                ) from error
            self._file_of.update(dict.fromkeys(file.keys(), file))

    @property
    def names(self):
        return set(self._file_of)

    def shape(self, name):
        return tuple(self._file_of[name].get_slice(name).get_shape())

    def read(self, name):
        return np.asarray(self._file_of[name].get_tensor(name), "float32")


class _Pickles:
    """Torch's format, only through its loader that executes nothing."""

    def __init__(self, paths):
        try:
            import torch
        except ImportError as error:
            raise ImportError(
                f"{paths[0].name} is in torch's format and needs torch: install it, or take the "
                "checkpoint's safetensors file."
            ) from error
        import pickle

        self._tensors = {}
        for path in paths:
            try:
                tensors = torch.load(path, map_location="cpu", weights_only=True)
            except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
                raise ValueError(
                    f"{path} must hold plain weights only and be whole; it was not executed. "
                    "Take the checkpoint's safetensors file."
                ) from error
            if not isinstance(tensors, dict) or not all(map(torch.is_tensor, tensors.values())):
                raise ValueError(
                    f"{path} must hold tensors by name; got a {type(tensors).__name__} of other "
                    "things. Is it the checkpoint's own?"
                )
            self._tensors.update(tensors)

    @property
    def names(self):
        return set(self._tensors)

    def shape(self, name):
        return tuple(self._tensors[name].shape)

    def read(self, name):
        return self._tensors[name].float().numpy()


def _import_safetensors(module):
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            "Hugging Face checkpoints need safetensors: "
            "pip install keras-transformer-layers[weights]"
        ) from error
