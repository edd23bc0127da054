"""Runs the tests once a backend, each in a process of its own, all at the same time.

    python tests/on_every_backend.py [OPTIONS OF PYTEST]

A test process keeps one core busy, mostly with compiling, so that together they are done sooner.
Lines are shown as they come, with the backend in front.

Tests marked `any_backend` run on the first backend alone. The exit status is 0 if every run passed;
a run that finds no test has failed. `-m EXPRESSION` narrows the choice, "not slow" by default.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time

BACKENDS = ("torch", "tensorflow", "jax")


def main():
    asked, options = parse_arguments()
    with concurrent.futures.ThreadPoolExecutor(len(BACKENDS)) as pool:
        runs = list(
            pool.map(
                lambda backend: run_tests(backend, marked(asked.m, backend), options), BACKENDS
            )
        )
    print("\n=== summary ===")
    for backend, (status, closing, seconds) in zip(BACKENDS, runs, strict=True):
        verdict = "passed" if status == 0 else f"FAILED (pytest's status {status})"
        print(f"{backend:10} {verdict}, {seconds / 60:.1f} minutes: {closing}")
    closings = " ".join(closing for _, closing, _ in runs)
    print(f"{total('passed', closings)} passed, {total('failed', closings)} failed")
    sys.exit(any(status for status, _, _ in runs))


def total(outcome, closings):
    """Returns how many tests of all backends had this outcome, from pytest's closing lines."""
    return sum(map(int, re.findall(rf"(\d+) {outcome}", closings)))


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Everything else goes to pytest."
    )
    parser.add_argument("-m", default="not slow", metavar="EXPRESSION", help="marked tests")
    return parser.parse_known_args()


def marked(expression, backend):
    """Returns pytest's expression of the tests that this backend runs."""
    return expression if backend == BACKENDS[0] else f"({expression}) and not any_backend"


def run_tests(backend, expression, options):
    """Returns (status, pytest's closing line, seconds), and shows the output as it comes."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-m", expression, *options],
        env={**os.environ, "KERAS_BACKEND": backend},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    closing = ""
    for line in process.stdout:
        print(f"[{backend}] {line}", end="", flush=True)
        closing = line.strip() or closing
    return process.wait(), closing, time.perf_counter() - started


if __name__ == "__main__":
    main()
