"""How the cost of training grows with width, depth, vocabulary, length and batch.

    python benchmarks/scaling.py --backend jax --seconds 5 --plot scaling.svg

From one size in the middle one dimension at a time is varied, each point in a process of its own
that trains with `fit` as in `train.py`. Measured are the time of a step and the peak resident
memory; beside them stand the formulas of `workloads.py`:

    time     operations of a step / rate, the rate being that of the size in the middle
    memory   16 bytes x parameters + 4 bytes x kept values, above what the process has without them

Where the measured curve lies above the formula's, as for small models, the products are not what
takes the time. At the end the formulas say what base and big would take here.
"""

import argparse
import dataclasses

import report
from contenders import positive, training_contenders
from rounds import Contest
from workloads import GPU_SIZES, SIZES, Size, train_flops, training_bytes

MIDDLE = Size(
    num_layers=2,
    model_dim=256,
    intermediate_dim=1024,
    num_heads=4,
    vocabulary_size=8000,
    batch_size=16,
    length=32,
)
GROWTH = {
    "width": [64, 128, 256, 512, 1024],
    "depth": [1, 2, 4, 8],
    "vocabulary": [1000, 2000, 4000, 8000, 16000, 32000],
    "length": [16, 32, 64, 128, 256, 512],
    "batch": [4, 8, 16, 32, 64],
}
SMOKE_GROWTH = {"width": [16, 32], "batch": [4, 8]}
_PAPER_STEPS = 100_000


def main():
    arguments = parse_arguments()
    middle, growth = MIDDLE, GROWTH
    if arguments.smoke:
        middle, growth = SIZES["smoke"], SMOKE_GROWTH
    measured = measure(middle, growth, arguments)
    if middle not in measured:
        raise SystemExit(f"the size in the middle was not measured: {middle}")
    panels = []
    for dimension, values in growth.items():
        sizes = {value: grown(middle, dimension, value) for value in values}
        sizes = {value: size for value, size in sizes.items() if size in measured}
        show(dimension, sizes, middle, measured)
        panels.append(panel(dimension, sizes, middle, measured, memory=False))
        panels.append(panel(dimension, sizes, middle, measured, memory=True))
    show_predictions(middle, measured)
    title = f"A training step on {arguments.backend}, {arguments.dtype}: time and memory"
    report.curves(arguments.plot, title, panels[::2] + panels[1::2], columns=len(growth))
    report.append_lines(
        arguments.output,
        [
            {"benchmark": "scaling", "backend": arguments.backend, "dtype": arguments.dtype}
            | dataclasses.asdict(size)
            | dataclasses.asdict(result)
            for size, result in measured.items()
        ],
    )


def grown(size, dimension, value):
    """Returns the size with one dimension changed; feed-forward and heads follow the width."""
    if dimension == "width":
        heads = max(1, value * size.num_heads // size.model_dim)
        inner = value * size.intermediate_dim // size.model_dim
        return dataclasses.replace(size, model_dim=value, intermediate_dim=inner, num_heads=heads)
    field = {
        "depth": "num_layers",
        "vocabulary": "vocabulary_size",
        "length": "length",
        "batch": "batch_size",
    }[dimension]
    return dataclasses.replace(size, **{field: value})


def measure(middle, growth, arguments):
    """Returns {size: `rounds.Result`}; a size that fails is said and left out."""
    sizes = [middle]
    sizes += [grown(middle, name, value) for name, values in growth.items() for value in values]
    measured = {}
    distinct = list(dict.fromkeys(sizes))
    for number, size in enumerate(distinct, start=1):
        print(f"{number} of {len(distinct)}: {size}", flush=True)
        name = f"ours-{arguments.backend}"
        with Contest(training_contenders([name], size, arguments.dtype)) as contest:
            results = contest.measure(rounds=arguments.rounds, seconds=arguments.seconds)
        if name in results:
            measured[size] = results[name]
    return measured


def seconds_by_formula(size, middle, measured):
    """Returns operations over the rate that the size in the middle reached."""
    return measured[middle].median_seconds * train_flops(size) / train_flops(middle)


def bytes_by_formula(size, middle, measured):
    """Returns the formula's bytes above what the process of the middle had beside them."""
    return measured[middle].peak_bytes + training_bytes(size) - training_bytes(middle)


def show(dimension, sizes, middle, measured):
    """Prints the table of one dimension."""
    rows = [
        [
            f"{value:,}",
            report.number(1000 * measured[size].median_seconds),
            report.number(1000 * seconds_by_formula(size, middle, measured)),
            report.number(train_flops(size) / measured[size].median_seconds / 1e9),
            report.gigabytes(measured[size].peak_bytes),
            report.gigabytes(bytes_by_formula(size, middle, measured)),
        ]
        for value, size in sizes.items()
    ]
    headers = [dimension, "ms a step", "by formula", "GFLOP/s", "peak GB", "by formula"]
    print(f"\n{report.table(headers, rows)}")


def panel(dimension, sizes, middle, measured, memory):
    """Returns one panel of the plot, see `report.curves`."""
    if memory:
        points = [measured[size].peak_bytes / 1e9 for size in sizes.values()]
        line = [bytes_by_formula(size, middle, measured) / 1e9 for size in sizes.values()]
        return dimension, "peak GB", list(sizes), points, {"formula": line}
    points = [1000 * measured[size].median_seconds for size in sizes.values()]
    line = [1000 * seconds_by_formula(size, middle, measured) for size in sizes.values()]
    return dimension, "ms a step", list(sizes), points, {"formula": line}


def show_predictions(middle, measured):
    """Prints what the formulas say of the paper's models at the best rate that was measured."""
    rate = max(train_flops(size) / each.median_seconds for size, each in measured.items())
    print(f"\nBy the formulas, at the best rate above, {rate / 1e9:,.0f} GFLOP/s:\n")
    rows = []
    for name, size in GPU_SIZES.items():
        seconds = train_flops(size) / rate
        rows.append(
            [
                f"{name}, {size.positions:,} tokens a step",
                report.number(seconds),
                report.number(_PAPER_STEPS * seconds / 86_400),
                report.gigabytes(bytes_by_formula(size, middle, measured)),
            ]
        )
    headers = ["", "seconds a step", f"days for {_PAPER_STEPS:,} steps", "peak GB"]
    print(report.table(headers, rows))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["tensorflow", "jax", "torch"], default="jax")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--rounds", type=positive(int), default=3)
    parser.add_argument("--seconds", type=positive(float), default=3.0, help="of each turn")
    parser.add_argument("--smoke", action="store_true", help="four tiny points, to try it out")
    parser.add_argument("--output", help="file of JSON lines to add to")
    parser.add_argument("--plot", help="picture to draw, .svg or .png")
    return parser.parse_args()


if __name__ == "__main__":
    main()
