"""How fast a step of training is, beside other libraries on the same work.

    python benchmarks/train.py --size tiny --rounds 4 --seconds 5 ours-jax torch-nn keras-hub-jax

A step is forward, backward and Adam on random batches with about 12 % padding, label smoothing 0.1,
dropout 0.1 and one tied embedding; `workloads.py` has the sizes and counts the arithmetic. Without
names all of them take part. It runs on the CPU; the GPU is `gpu.py`'s.
"""

import argparse
import dataclasses
import statistics
from typing import NamedTuple

import report
from contenders import (
    TRAINING,
    add_names,
    check_names,
    matrix_products,
    positive,
    training_contenders,
)
from rounds import Contest, fastest, is_peer, ratios
from workloads import SIZES, random_batches, train_flops

_PRODUCT = "matrix-product-"


class Comparison(NamedTuple):
    """What a run found.

    Attributes:
        results: {name: `rounds.Result`} of the training contenders.
        speeds: {name: times as fast as the reference}, medians of ratios within rounds.
        shares: {name: share of the machine's own matrix-product rate}, medians likewise.
        rates: {framework: FLOP/s of its matrix products}.
        reference: name of the contender that the others are compared with.
    """

    results: dict
    speeds: dict
    shares: dict
    rates: dict
    reference: str


def main():
    arguments = parse_arguments()
    size = SIZES[arguments.size]
    names = arguments.contenders
    contenders = training_contenders(names, size, arguments.dtype, arguments.dropout)
    side = 128 if arguments.size == "smoke" else 2048
    contenders += matrix_products(names, arguments.dtype, side)
    with Contest(contenders, limit_seconds=arguments.limit) as contest:
        measured = contest.measure(rounds=arguments.rounds, seconds=arguments.seconds)
    compared = compare(measured, train_flops(size), arguments.reference)
    tokens = random_batches(size, 32).tokens
    show(arguments, compared, tokens, contest.failures)
    report.append_lines(arguments.output, records(arguments, compared, tokens))
    title = f"Training, {arguments.size}, {arguments.dtype}"
    report.rate_chart(arguments.plot, title, "target tokens", tokens, compared.results)


def compare(measured, flops, reference=None):
    """Returns the `Comparison` of results; the reference is by default the fastest peer."""
    products = {name: each for name, each in measured.items() if name.startswith(_PRODUCT)}
    results = {name: each for name, each in measured.items() if name not in products}
    if not results:
        return Comparison({}, {}, {}, {}, "")
    reference = reference if reference in results else fastest(results, is_peer)
    rates = {
        name.removeprefix(_PRODUCT): [each.facts["flops"] / seconds for seconds in each.seconds]
        for name, each in products.items()
    }
    # The machine's rate in a round is that of the framework that did best in it.
    best = [max(round_rates) for round_rates in zip(*rates.values(), strict=True)]
    shares = {
        name: statistics.median(
            flops / seconds / rate for seconds, rate in zip(each.seconds, best, strict=True)
        )
        for name, each in results.items()
        if best
    }
    medians = {framework: statistics.median(values) for framework, values in rates.items()}
    return Comparison(results, ratios(results, reference), shares, medians, reference)


def show(arguments, compared, tokens, failures):
    """Prints the table and what belongs to it."""
    size = SIZES[arguments.size]
    results = sorted(compared.results.values(), key=lambda result: result.median_seconds)
    print(f"\nTraining, {arguments.size} {size}, {arguments.dtype}")
    print(f"{tokens:,.0f} target tokens and {train_flops(size) / 1e9:.1f} GFLOP a step\n")
    rows = [
        [
            result.name,
            report.number(tokens / result.median_seconds),
            f"{compared.speeds[result.name]:.2f}",
            f"{compared.shares[result.name]:.0%}" if compared.shares else "-",
            report.number(1000 * result.median_seconds),
            report.gigabytes(result.peak_bytes),
            f"{result.first_call_seconds:.1f}",
            f"{result.facts['loss']:.2f}",
        ]
        for result in results
    ]
    headers = [
        "",
        "tokens/s",
        f"times {compared.reference}",
        "of matrix rate",
        "ms a step",
        "peak GB",
        "first step s",
        "loss",
    ]
    print(report.table(headers, rows))
    rates = ", ".join(f"{name} {rate / 1e9:,.0f}" for name, rate in compared.rates.items())
    print(f"\nMatrix products of this machine, {arguments.dtype}, GFLOP/s: {rates}")
    print(report.notes(results, failures))


def records(arguments, compared, tokens):
    """Returns what is kept of a run, one record a contender."""
    return [
        {
            "benchmark": "train",
            "size": arguments.size,
            "dtype": arguments.dtype,
            "dropout": arguments.dropout,
            **dataclasses.asdict(result),
            "tokens_per_step": tokens,
            "reference": compared.reference,
            "speed": compared.speeds[name],
            "share": compared.shares.get(name),
            "matrix_rates": compared.rates,
        }
        for name, result in compared.results.items()
    ]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_names(parser, TRAINING)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument(
        "--dropout",
        choices=["everywhere", "paper"],
        default="everywhere",
        help="everywhere: on attention weights and inside feed-forward too, as torch.nn has it",
    )
    parser.add_argument("--rounds", type=positive(int), default=4)
    parser.add_argument("--seconds", type=positive(float), default=5.0, help="of each turn")
    parser.add_argument("--reference", help="compare with it; by default with the fastest peer")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds to wait for an answer")
    parser.add_argument("--output", help="file of JSON lines to add to")
    parser.add_argument("--plot", help="picture to draw, .svg or .png")
    arguments = parser.parse_args()
    check_names(parser, arguments.contenders, TRAINING)
    return arguments


if __name__ == "__main__":
    main()
