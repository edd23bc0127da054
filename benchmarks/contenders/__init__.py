"""Those who are measured: one file a library, each with a class for each kind of work.

Every library is written as its own users write it; see `worker.py` for what a class must have.
"""

import dataclasses
import os

from rounds import Contender

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
_CPU = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
# XLA or TensorFlow's own graph: on a CPU now one is faster, now the other, so both take part.
_KERAS = {
    "tensorflow": {"jit_compile": False},
    "tensorflow-xla": {"jit_compile": True},
    "jax": {},
    "torch": {},
}
# One core an operation, and one operation a core at once: what a batch in parts is for.
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
_ONE_CORE_EACH = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": str(_CORES)}
_ENVIRONMENTS = {
    "ours-tensorflow-parts": _ONE_CORE_EACH,
    "keras-hub-tensorflow-threads": _ONE_CORE_EACH,
}
TRAINING = {
    **{f"ours-{name}": ("ours", options) for name, options in _KERAS.items()},
    "ours-tensorflow-parts": ("ours", {"jit_compile": False, "batch_parts": _CORES}),
    "ours-jax-parts": ("ours", {"batch_parts": _CORES}),
    "torch-nn": ("torch_nn", {}),
    "torch-nn-compiled": ("torch_nn", {"compiled": True}),
    "huggingface": ("hugging_face", {}),
    **{f"keras-hub-{name}": ("keras_hub", options) for name, options in _KERAS.items()},
    "keras-hub-tensorflow-threads": ("keras_hub", {"jit_compile": False}),
    "joeynmt": ("joeynmt", {}),
}
DECODING = {
    **{f"ours-{name}": ("ours", {}) for name in ("tensorflow", "jax", "torch")},
    "huggingface": ("hugging_face", {}),
    **{f"keras-hub-{name}": ("keras_hub", {}) for name in ("tensorflow", "jax", "torch")},
    "ctranslate2-float32": ("ctranslate2", {"compute_type": "float32"}),
    "ctranslate2-int8": ("ctranslate2", {"compute_type": "int8"}),
}


def add_names(parser, names):
    """Adds the argument `contenders` to a command line; by default all take part."""
    parser.add_argument(
        "contenders", nargs="*", metavar="NAME", default=list(names), help=", ".join(names)
    )


def positive(kind):
    """Returns the type of a command line's numbers above 0, `int` or `float`."""

    def number(text):
        value = kind(text)
        if not 0 < value < float("inf"):
            raise ValueError(text)
        return value

    number.__name__ = f"{kind.__name__} above 0"  # argparse's word for it
    return number


def check_names(parser, chosen, names):
    """Ends the program with a message where a contender is asked for that is not there."""
    unknown = [name for name in chosen if name not in names]
    if unknown:
        parser.error(f"NAME must be one of {', '.join(names)}; got {', '.join(unknown)}")


def training_contenders(names, size, dtype, dropout="everywhere"):
    """Returns `Contender`s that train.

    Args:
        names: of `TRAINING`. size: `workloads.Size`. dtype: "float32" or "bfloat16".
        dropout: "everywhere" (attention weights and inner feed-forward too, as torch.nn.Transformer
            has it) or "paper" (section 5.4; those who have the choice).
    """
    work = {"size": dataclasses.asdict(size), "dtype": dtype, "dropout": dropout}
    return [_contender(TRAINING, name, "Training", work) for name in names]


def decoding_contenders(names, size, source_tokens, target_tokens):
    """Returns `Contender`s that decode exactly `target_tokens` tokens."""
    work = {
        "size": dataclasses.asdict(size),
        "source_tokens": source_tokens,
        "target_tokens": target_tokens,
    }
    return [_contender(DECODING, name, "Decoding", work) for name in names]


def matrix_products(names, dtype, side):
    """Returns `Contender`s that multiply square matrices on the frameworks behind `names`."""
    return [
        Contender(
            f"matrix-product-{framework}",
            "contenders.matrix_product:MatrixProduct",
            {"framework": framework, "dtype": dtype, "side": side},
            {**_QUIET, **_CPU},
        )
        for framework in sorted({framework_of(name) for name in names})
    ]


def framework_of(name):
    """Returns the framework that a contender computes with; all but the Keras ones use torch."""
    return next((each for each in ("tensorflow", "jax") if each in name), "torch")


def keras_environment(name):
    """Returns the environment of a contender that runs on Keras, on the CPU."""
    return {**_QUIET, **_CPU, "KERAS_BACKEND": framework_of(name)}


def _contender(table, name, work_class, work):
    module, options = table[name]
    return Contender(
        name,
        f"contenders.{module}:{work_class}",
        {**work, **options},
        {**keras_environment(name), **_ENVIRONMENTS.get(name, {})},
    )
