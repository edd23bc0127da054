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
            return _indexed(folder / f"{index}.index.json", reader)
    raise ValueError(
        f"`folder` must hold {SAFETENSORS} or {PICKLE}, or an index of their shards; {folder} has "
        "none. Is it a checkpoint's folder?"
    )


def write_tensors(path, tensors):
    """Writes a dict of arrays as one safetensors file."""
    numpy_format = _import_safetensors("safetensors.numpy")
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    numpy_format.save_file(arrays, str(path), metadata={"format": "pt"})


def _indexed(index, reader):
    """Returns the tensors of the shards that an index names, where it tells the truth of them."""
    file_of = _file_of(index)
    files = sorted(set(file_of.values()))
    missing = [name for name in files if not (index.parent / name).is_file()]
    if missing:
        raise ValueError(f"{index.parent} lacks {missing}, named by {index.name}. Download them.")
    tensors = reader([index.parent / name for name in files])
    told, held = {*file_of.items()}, {*tensors.file_of.items()}
    wrong = [f"{name} is not in {file}" for name, file in sorted(told - held)]
    wrong += [f"{name} in {file} is not named" for name, file in sorted(held - told)]
    if wrong:
        raise ValueError(
            f"{index} must name each tensor of its files and no other; {'; '.join(wrong)}. "
            "Download the checkpoint again."
        )
    return tensors


def _file_of(index):
    """Returns {tensor: file} of an index; its files lie beside it."""
    try:
        file_of = dict(json.loads(index.read_bytes())["weight_map"])
        outside = [name for name in file_of.values() if Path(name).name != name]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{index} is damaged: {error!r}. Download the checkpoint again."
        ) from error
    if outside:
        raise ValueError(
            f"{index} must name files of its own folder; got {outside[0]!r}. Is it the "
            "checkpoint's own?"
        )
    return file_of


class _SafeTensors:
    """Reads one tensor at a time; the files stay on disk. `file_of`: {tensor: file's name}."""

    def __init__(self, paths):
        safetensors = _import_safetensors("safetensors")
        self._open, self.file_of = {}, {}
        for path in paths:
            try:
                file = safetensors.safe_open(str(path), framework="numpy")
            except safetensors.SafetensorError as error:
                raise ValueError(
                    f"{path} is damaged or cut off: {error}. Download the checkpoint again."
                ) from error
            self._open[path.name] = file
            _add_names(self.file_of, file.keys(), path)

    @property
    def names(self):
        return set(self.file_of)

    def shape(self, name):
        return tuple(self._open[self.file_of[name]].get_slice(name).get_shape())

    def read(self, name):
        return np.asarray(self._open[self.file_of[name]].get_tensor(name), "float32")


class _Pickles:
    """Torch's format, only through its loader that executes nothing. `file_of`: as above."""

    def __init__(self, paths):
        try:
            import torch
        except ImportError as error:
            raise ImportError(
                f"{paths[0].name} is in torch's format and needs torch: install it, or take the "
                "checkpoint's safetensors file."
            ) from error
        import pickle

        self._tensors, self.file_of = {}, {}
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
            _add_names(self.file_of, tensors, path)

    @property
    def names(self):
        return set(self._tensors)

    def shape(self, name):
        return tuple(self._tensors[name].shape)

    def read(self, name):
        return self._tensors[name].float().numpy()


def _add_names(file_of, names, path):
    twice = sorted(set(names) & set(file_of))
    if twice:
        raise ValueError(
            f"Shards must hold each tensor once; {twice[0]} is in {file_of[twice[0]]} and in "
            f"{path}. Download the checkpoint again."
        )
    file_of.update(dict.fromkeys(names, path.name))


def _import_safetensors(module):
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            "Hugging Face checkpoints need safetensors: "
            "pip install keras-transformer-layers[weights]"
        ) from error
