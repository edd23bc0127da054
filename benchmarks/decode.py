"""How fast a model decodes, beside other libraries on the same work.

    python benchmarks/decode.py --rounds 3 --seconds 3 ours-jax ctranslate2-float32 keras-hub-jax

Greedy search and a beam of 4, for one sentence and for 32: 24 source tokens each, and exactly 32
target tokens, for no contender may pick the end token. Float32 (but ctranslate2-int8), random
weights, on the CPU. Ours is also called with a shape that the 32 sentences' bucket holds (31
sentences of 21 tokens): nothing may compile then.
"""

import argparse
import dataclasses

import report
from contenders import DECODING, add_names, check_names, decoding_contenders, positive
from rounds import Contest, fastest, is_peer, label, ratios
from workloads import SIZES

SOURCE_TOKENS, TARGET_TOKENS = 24, 32
CASES = [
    {"sentences": 1, "beam": 1},
    {"sentences": 32, "beam": 1},
    {"sentences": 1, "beam": 4},
    {"sentences": 32, "beam": 4},
]
KNOWN_BUCKET = {"sentences": 31, "beam": 4, "source_tokens": 21}


def main():
    arguments = parse_arguments()
    contenders = decoding_contenders(
        arguments.contenders, SIZES[arguments.size], SOURCE_TOKENS, TARGET_TOKENS
    )
    with Contest(contenders, limit_seconds=arguments.limit) as contest:
        for case in CASES:
            results = contest.measure(case, arguments.rounds, arguments.seconds)
            if results:
                reference = arguments.reference
                if reference not in results:
                    reference = fastest(results, is_float32_peer)
                show(arguments, case, results, reference)
                report.append_lines(arguments.output, records(arguments, results, reference))
                plot(arguments, case, results)
        show_known_bucket(contest)
    print(report.notes(results.values(), contest.failures))


def is_float32_peer(name):
    """Returns whether a contender is another library that computes in float32."""
    return is_peer(name) and not name.endswith("int8")


def show(arguments, case, results, reference):
    """Prints the table of one case."""
    speeds = ratios(results, reference)
    print(f"\nDecoding, {arguments.size}, {label(case)}\n")
    rows = [
        [
            result.name,
            report.number(tokens_per_second(case, result.median_seconds)),
            f"{speeds[result.name]:.2f}",
            report.number(1000 * result.median_seconds),
            report.gigabytes(result.peak_bytes),
            f"{result.first_call_seconds:.1f}",
        ]
        for result in sorted(results.values(), key=lambda result: result.median_seconds)
    ]
    headers = ["", "tokens/s", f"times {reference}", "ms a call", "peak GB", "first call s"]
    print(report.table(headers, rows))


def tokens_per_second(case, seconds):
    """Returns the tokens of the best hypotheses per second."""
    return case["sentences"] * TARGET_TOKENS / seconds


def show_known_bucket(contest):
    """Prints what a shape in a known bucket costs: no compilation."""
    rows = []
    for name in contest.contenders:
        if is_peer(name) or name in contest.failures:
            continue
        before = contest.facts(name)
        reply = contest.call(name, KNOWN_BUCKET)
        after = contest.facts(name)
        if after:
            compilations = after["traces"] - before["traces"]
            rows.append([name, f"{reply['seconds']:.2f}", compilations])
    if rows:
        print(f"\nFirst call with a shape in a known bucket ({label(KNOWN_BUCKET)})\n")
        print(report.table(["", "seconds", "compilations"], rows) + "\n")


def records(arguments, results, reference):
    """Returns what is kept of a case, one record a contender."""
    speeds = ratios(results, reference)
    return [
        {
            "benchmark": "decode",
            "size": arguments.size,
            **dataclasses.asdict(result),
            "reference": reference,
            "speed": speeds[name],
        }
        for name, result in results.items()
    ]


def plot(arguments, case, results):
    """Draws one case; its numbers go into the picture's name: FILE-32-4.svg."""
    if arguments.plot is None:
        return
    stem, _, ending = arguments.plot.rpartition(".")
    report.rate_chart(
        f"{stem}-{case['sentences']}-{case['beam']}.{ending}",
        f"Decoding, {arguments.size}, {label(case)}",
        "target tokens",
        case["sentences"] * TARGET_TOKENS,
        results,
    )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_names(parser, DECODING)
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--rounds", type=positive(int), default=3)
    parser.add_argument("--seconds", type=positive(float), default=3.0, help="of each turn")
    parser.add_argument(
        "--reference", help="compare with it; by default with the fastest peer in float32"
    )
    parser.add_argument("--limit", type=float, default=900.0, help="seconds to wait for an answer")
    parser.add_argument("--output", help="file of JSON lines to add to")
    parser.add_argument("--plot", help="pictures to draw, .svg or .png; one a case")
    arguments = parser.parse_args()
    check_names(parser, arguments.contenders, DECODING)
    return arguments


if __name__ == "__main__":
    main()
