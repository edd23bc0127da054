"""Writes a translator as a SavedModel, whatever the backend."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import keras

from keras_transformer.arguments import check_flags
from keras_transformer.new_folder import check_new_folder, new_folder
from keras_transformer.serving.graph_tokenizer import check_graph_form

_MARKER = "saved_model.pb"


def export_saved_model(translator, path, overwrite=False, jit_compile=False):
    """Writes a SavedModel whose signature `serving_default` translates text.

        text: string [None] -> translation: string [None], score: float32 [None]

    Tokenizer, vocabulary, model, search and detokenizer are all inside, and any number of sentences
    may be given. Translations are those of `Translator.translate`, by the same rules: sources of
    one padded width are searched together, a blank sentence gives "" with score 0, and a source is
    cut at `max_source_length` pieces (silently here). A `Sampling` search without a seed draws one
    now and keeps it.

    It loads with TensorFlow and tensorflow-text's ops alone; `import tensorflow_text`, or
    `tf.load_op_library` (`TF_LoadLibrary` in C) of its `python/ops/*.so`, makes them known. Neither
    Keras nor this package is needed. With a `SubwordTokenizer` or a `MarianTokenizer`,
    `_sentencepiece_tokenizer.so` is enough.

    On JAX and PyTorch the translator is saved to a temporary folder and exported by a second Python
    process that runs Keras on TensorFlow; a model class of your own must then be importable there.

    Args:
        translator: `Translator`.
        path: path of the folder to be written.
        overwrite: bool, whether a SavedModel at `path` may be replaced.
        jit_compile: bool, whether XLA compiles the search where it is served. Each bucket of
            shapes, a padded width of sources and a power of two of sentences up to 32, is compiled
            at its first request, which takes seconds; the others are then answered in less time.

    Raises:
        ValueError: if `path` exists, the tokenizer has no graph form, or a flag is none.
        ImportError: if TensorFlow or tensorflow-text is not installed.
        RuntimeError: if the second process fails; the message holds what it said.
    """
    check_flags(overwrite=overwrite, jit_compile=jit_compile)
    check_graph_form(translator.tokenizer)
    check_new_folder(path, overwrite, _MARKER)
    _check_installed("tensorflow", "tensorflow_text")
    with new_folder(path, overwrite, _MARKER) as folder:
        if keras.config.backend() == "tensorflow":
            _write(translator, folder, jit_compile)
        else:
            _write_in_second_process(translator, folder, jit_compile)


def _write(translator, folder, jit_compile):
    import tensorflow as tf

    from keras_transformer.serving.translation_module import translation_module

    module = translation_module(translator, jit_compile)
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.translate})


def _write_in_second_process(translator, folder, jit_compile):
    with tempfile.TemporaryDirectory() as temporary:
        saved, written = Path(temporary) / "translator", Path(temporary) / "saved_model"
        translator.save(saved)
        environment = {
            **os.environ,
            "KERAS_BACKEND": "tensorflow",
            "CUDA_VISIBLE_DEVICES": "-1",  # tracing needs no accelerator, and this one is in use
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        }
        command = [sys.executable, "-m", "keras_transformer.serving", str(saved), str(written)]
        command += ["--jit-compile"] if jit_compile else []
        process = subprocess.run(command, env=environment, capture_output=True, text=True)
        if process.returncode:
            raise RuntimeError(
                "the export by a second process on TensorFlow failed: "
                f"{process.stderr.strip()[-2000:]}"
            )
        for part in written.iterdir():
            shutil.move(part, folder / part.name)  # the two may be on different file systems


def _check_installed(*packages):
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ImportError(
                f"an export needs {package.replace('_', '-')}: "
                "pip install keras-transformer-layers[text]"
            )
