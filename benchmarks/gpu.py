"""Training on a GPU: tokens a second and model FLOPs utilisation, in one run of ten minutes.

    python benchmarks/gpu.py

Base and big of the paper at 24,576 target positions a step, bfloat16 (`mixed_bfloat16`): `fit` on
JAX and on torch, in interleaved rounds. Without a GPU it says so and exits with status 2.

    utilisation = operations of a step / (seconds of a step x the GPU's dense bfloat16 rate)

The operations are the matrix products of forward and backward, once each (`workloads.py`); nothing
that is computed again counts. The rate is the maker's, by the GPU's name, or `--peak`; what
products of 8,192 x 8,192 matrices reach in the same run stands beside it. The best published for
big are 41 % on eight A100 and 33 % on one.
"""

import argparse
import dataclasses
import shutil
import subprocess
import sys
import time

import report
from contenders import training_contenders
from rounds import Contender, Contest
from workloads import GPU_SIZES, SIZES, random_batches, train_flops

NO_GPU = 2
# The makers' dense bfloat16 rates in FLOP/s, the first that is in the GPU's name.
PEAK_RATES = {
    "H200": 989e12,
    "GH200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "B200": 2250e12,
    "A100": 312e12,
    "A800": 312e12,
    "L40S": 362e12,
    "A10G": 70e12,
    "A10": 125e12,
    "L4": 121e12,
    "RTX 4090": 165e12,
    "V100": 125e12,
}
CONTENDERS = ("ours-jax", "ours-torch")
_PRODUCT = "matrix-product-torch"
_SIDE = 8192
# Both processes share the GPU's memory, so JAX must not take three quarters of it at the start.
_SHARED = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
_CPU_ONLY = ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS")


def main():
    arguments = parse_arguments()
    name = gpu_name()
    if name is None and not arguments.smoke:
        print("No GPU is at hand (nvidia-smi finds none): nothing was measured.", file=sys.stderr)
        raise SystemExit(NO_GPU)
    peak = arguments.peak * 1e12 if arguments.peak else peak_rate(name or "")
    sizes = {"smoke": SIZES["smoke"]} if arguments.smoke else GPU_SIZES
    started = time.perf_counter()
    for number, (size_name, size) in enumerate(sizes.items()):
        left = 60 * arguments.minutes - (time.perf_counter() - started)
        measured, failures = measure(size, left / (len(sizes) - number), arguments.smoke)
        show(name, size_name, size, measured, peak)
        print(report.notes([], failures))
        report.append_lines(
            arguments.output,
            [
                {"benchmark": "gpu", "gpu": name, "size": size_name, "peak_rate": peak}
                | {"flops": train_flops(size)}
                | dataclasses.asdict(result)
                for result in measured.values()
            ],
        )


def measure(size, seconds, smoke=False):
    """Returns ({name: `rounds.Result`}, failures) of one size in about that many seconds."""
    contenders = [
        dataclasses.replace(each, environment=on_gpu(each.environment))
        for each in training_contenders(CONTENDERS, size, "bfloat16", dropout="paper")
    ]
    side = 128 if smoke else _SIDE
    work = {"framework": "torch", "dtype": "bfloat16", "side": side}
    contenders.append(Contender(_PRODUCT, "contenders.matrix_product:MatrixProduct", work))
    # A third of the time is for starting and compiling; the rest is three rounds of turns.
    turn = 0.1 if smoke else seconds * 2 / 3 / (3 * len(contenders))
    with Contest(contenders, limit_seconds=seconds) as contest:
        return contest.measure(rounds=3, seconds=turn), contest.failures


def on_gpu(environment):
    """Returns a contender's environment without what keeps it on the CPU."""
    kept = {name: value for name, value in environment.items() if name not in _CPU_ONLY}
    return {**kept, **_SHARED}


def show(gpu, size_name, size, measured, peak):
    """Prints the table of one size."""
    tokens, flops = random_batches(size, 4).tokens, train_flops(size)
    print(f"\nTraining on {gpu}, {size_name} {size}, bfloat16")
    print(f"{tokens:,.0f} target tokens and {flops / 1e12:.2f} TFLOP a step\n")
    rows = []
    for result in measured.values():
        if result.name == _PRODUCT:
            continue
        rate = flops / result.median_seconds
        rows.append(
            [
                result.name,
                report.number(tokens / result.median_seconds),
                report.number(1000 * result.median_seconds),
                report.number(rate / 1e12),
                f"{rate / peak:.0%}" if peak else "-",
                report.gigabytes(result.facts.get("peak_bytes_in_use", 0)),
                f"{result.first_call_seconds:.1f}",
            ]
        )
    headers = ["", "tokens/s", "ms a step", "TFLOP/s", "utilisation", "GPU GB", "first step s"]
    print(report.table(headers, rows))
    if _PRODUCT in measured:
        product = measured[_PRODUCT]
        rate = product.facts["flops"] / product.median_seconds
        print(f"\nMatrix products: {rate / 1e12:,.0f} TFLOP/s; the maker's rate: {in_tera(peak)}")


def in_tera(rate):
    """Returns a rate in TFLOP/s, or that it is not known."""
    return f"{rate / 1e12:,.0f} TFLOP/s" if rate else "not known, give --peak"


def gpu_name():
    """Returns the first GPU's name, or None where there is none."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    process = subprocess.run(command, capture_output=True, text=True)
    names = process.stdout.splitlines() if process.returncode == 0 else []
    return names[0].strip() if names else None


def peak_rate(name):
    """Returns the maker's dense bfloat16 FLOP/s of a GPU, or None if it is not known."""
    return next((rate for known, rate in PEAK_RATES.items() if known in name), None)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="about how long it may take")
    parser.add_argument("--peak", type=float, help="the GPU's dense bfloat16 rate in TFLOP/s")
    parser.add_argument("--smoke", action="store_true", help="the smallest size, on any machine")
    parser.add_argument("--output", help="file of JSON lines to add to")
    return parser.parse_args()


if __name__ == "__main__":
    main()
