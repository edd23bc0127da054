"""Time and memory of attention against length: our mechanisms and the peers' calls.

    python benchmarks/attention.py --output attention.json --plot docs/images/attention.svg

Causal self-attention of 1 row, 8 heads of 64, float32, forward and backward (`--pass forward` for
forward alone). Each measurement has a process of its own, for the highest memory of a process does
not come down again: memory is how far the peak of resident memory rises during the call above what
was resident before it, inputs and compiled code included in "before". Time is the median of
`--repeats` calls after one, or with 0 that of the first. JAX and TensorFlow are compiled; PyTorch
runs eagerly, as its users do.

Contenders: our mechanisms, and of the peers keras.ops.dot_product_attention (what
keras.layers.MultiHeadAttention calls), torch's scaled_dot_product_attention,
jax.nn.dot_product_attention and x-transformers' Attend, where installed. A measurement that
would need more than `--memory` GiB for its scores is left out and says so.

Runs a quarter of an hour with the default lengths on two CPU cores.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

HEADS, WIDTH = 8, 64
BACKENDS = ("tensorflow", "jax", "torch")
OURS = ("dense", "fused", "blockwise", "window", "random_features")
PEERS = {
    "tensorflow": ("keras",),
    "jax": ("keras", "jax.nn"),
    "torch": ("keras", "sdpa", "x_transformers"),
}
FULL = ("dense", "keras", "jax.nn", "x_transformers")  # these hold the whole matrix of scores


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--contenders", nargs="+", help="default: all of the backend")
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 1024, 2048, 4096, 8192])
    parser.add_argument("--pass", dest="which", choices=("forward", "gradient"), default="gradient")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", type=float, default=12.0, help="GiB a measurement may take")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    parser.add_argument("--plot", type=Path, help="picture of the results")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(**json.loads(options.measure))))
        return
    results = list(measurements(options))
    if options.output:
        options.output.write_text(json.dumps(results, indent=1))
    if options.plot:
        plot(results, options.plot)


def measurements(options):
    """Yields a result a backend, contender and length, each from a process of its own."""
    for backend in options.backends:
        for contender in options.contenders or (*OURS, *PEERS[backend]):
            for length in options.lengths:
                asked = {
                    "contender": contender,
                    "length": length,
                    "which": options.which,
                    "window": options.window,
                    "features": options.features,
                    "repeats": options.repeats,
                }
                reason = left_out(backend, contender, length, options.memory)
                found = {"left_out": reason} if reason else in_own_process(backend, asked)
                result = {"backend": backend, **asked, **found}
                print(line(result), flush=True)
                yield result


def left_out(backend, contender, length, memory):
    """Returns why a measurement is not made, or None."""
    if contender == "fused" and backend == "tensorflow":
        return "TensorFlow has no fused attention"
    if contender == "x_transformers" and find_spec("x_transformers") is None:
        return "x-transformers is not installed"
    if contender not in OURS and contender not in PEERS[backend]:
        return f"not a contender on {backend}"
    # Scores, weights and their gradients, in float32.
    needed = 5 * 4 * HEADS * length**2 / 2**30
    full = contender in FULL or (contender == "fused" and backend == "jax")
    return f"would take {needed:.0f} GiB" if full and needed > memory else None


def in_own_process(backend, asked):
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, __file__, "--measure", json.dumps(asked)],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        return {"left_out": f"failed: {(done.stderr.strip() or 'killed').splitlines()[-1]}"}
    return json.loads(done.stdout.splitlines()[-1])


def line(result):
    head = f"{result['backend']:<11} {result['contender']:<15} {result['length']:>6}"
    if "left_out" in result:
        return f"{head}  {result['left_out']}"
    return f"{head}  {result['seconds']:>8.3f} s  {result['mebibytes']:>8.0f} MiB"


def measure(contender, length, which, window, features, repeats):
    """Returns the seconds and the MiB of one contender, in this process."""
    attend = contender_function(contender, window, features)
    call = compiled(attend, length, which)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    first = timed(call)
    peak = resident("VmHWM")
    seconds = [timed(call) for _ in range(repeats)] or [first]
    return {"seconds": statistics.median(seconds), "mebibytes": (peak - before) / 1024}


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def resident(field):
    """Returns KiB from /proc/self/status."""
    for row in Path("/proc/self/status").read_text().splitlines():
        if row.startswith(field + ":"):
            return int(row.split()[1])
    raise RuntimeError(f"/proc/self/status has no {field}: memory is measured on Linux only")


def contender_function(contender, window, features):
    """Returns a function of query, key and value (1, n, heads, width)."""
    scale = WIDTH**-0.5
    if contender == "keras":
        import numpy as np
        from keras import ops

        def attend(query, key, value):
            # As keras.layers.MultiHeadAttention does: a mask, and no flag.
            mask = np.tril(np.ones((1, 1, query.shape[1], query.shape[1]), "bool"))
            return ops.dot_product_attention(query, key, value, mask=mask, scale=scale)

        return attend
    if contender == "jax.nn":
        import jax

        return lambda *heads: jax.nn.dot_product_attention(*heads, scale=scale, is_causal=True)
    if contender in ("sdpa", "x_transformers"):
        return heads_first(contender, scale)
    from keras_transformer import layers
    from keras_transformer.ops.attention_request import AttentionRequest

    mechanism = {
        "dense": layers.DenseAttention,
        "fused": layers.FusedAttention,
        "blockwise": layers.BlockwiseAttention,
        "window": lambda: layers.SlidingWindowAttention(window),
        "random_features": lambda: layers.RandomFeatureAttention(features, seed=0),
    }[contender]()
    mechanism.build((1, None, HEADS, WIDTH))
    request = AttentionRequest(causal=True, scale=scale)
    return lambda *heads: mechanism.attend(*heads, request).output


def heads_first(contender, scale):
    """Returns one of PyTorch's contenders, which take (1, heads, n, width)."""
    import torch

    if contender == "sdpa":
        attend = torch.nn.functional.scaled_dot_product_attention
        call = lambda *heads: attend(*heads, is_causal=True, scale=scale)  # noqa: E731
    else:
        from x_transformers.attend import Attend

        module = Attend(causal=True, scale=scale)
        call = lambda *heads: module(*heads)[0]  # noqa: E731
    return lambda *heads: call(*(each.transpose(1, 2) for each in heads)).transpose(1, 2)


def compiled(attend, length, which):
    """Returns a function without arguments that runs one pass and waits for its end."""
    import keras
    import numpy as np

    random = np.random.default_rng(0)
    shape = (1, length, HEADS, WIDTH)
    arrays = [random.normal(size=shape).astype("float32") for _ in range(3)]
    return {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}[keras.config.backend()](
        attend, arrays, which
    )


def _jax(attend, arrays, which):
    import jax

    tensors = [jax.numpy.asarray(each) for each in arrays]

    def both(*heads):
        output, pull_back = jax.vjp(attend, *heads)
        return pull_back(output)

    run = jax.jit(attend if which == "forward" else both).lower(*tensors).compile()
    return lambda: jax.block_until_ready(run(*tensors))


def _tensorflow(attend, arrays, which):
    import tensorflow as tf

    tensors = [tf.constant(each) for each in arrays]

    @tf.function
    def run(*heads):
        if which == "forward":
            return attend(*heads)
        with tf.GradientTape() as tape:
            tape.watch(heads)
            output = attend(*heads)
        return tape.gradient(output, heads, output)

    call = run.get_concrete_function(*tensors)
    return lambda: [each.numpy()[0, 0, 0, 0] for each in tf.nest.flatten(call(*tensors))]


def _torch(attend, arrays, which):
    import torch

    tensors = [torch.tensor(each, requires_grad=which == "gradient") for each in arrays]

    def run():
        with torch.set_grad_enabled(which == "gradient"):
            output = attend(*tensors)
        if which == "gradient":
            torch.autograd.grad(output, tensors, output.detach())

    return run


def plot(results, path):
    """Draws time and memory against length, a row a measure and a column a backend."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    measured = [result for result in results if "left_out" not in result]
    backends = [each for each in BACKENDS if any(r["backend"] == each for r in measured)]
    names = sorted({result["contender"] for result in measured})
    lengths = sorted({result["length"] for result in measured})
    figure, axes = pyplot.subplots(
        2, len(backends), figsize=(4 * len(backends), 7), squeeze=False, sharex=True, sharey="row"
    )
    for column, backend in enumerate(backends):
        for row, measure_name in enumerate(("seconds", "mebibytes")):
            axis = axes[row][column]
            for color, name in enumerate(names):
                points = [
                    (result["length"], max(result[measure_name], 1e-3))
                    for result in measured
                    if result["backend"] == backend and result["contender"] == name
                ]
                if points:
                    style = "o-" if name in OURS else "s--"
                    axis.plot(*zip(*points, strict=True), style, color=f"C{color}", label=name)
            axis.set(xscale="log", yscale="log")
            axis.set_xticks(lengths, map(str, lengths))
            axis.set_xticks([], minor=True)
            axis.grid(alpha=0.3)
        axes[0][column].set_title(backend)
        axes[0][column].legend(fontsize=8)
        axes[1][column].set_xlabel("length n")
    axes[0][0].set_ylabel("time, s")
    axes[1][0].set_ylabel("rise of peak memory, MiB")
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
