"""Contenders measured in interleaved rounds, each in a process of its own.

Two runs of one program on one machine differ by 30 % and more, because of what else the machine
does. So contenders take turns, in random order within each round; what is compared is the ratio
within a round, and what is quoted is the median over rounds. Gaps below 15 % are ties.

    with Contest(contenders) as contest:
        results = contest.measure({"beam": 4}, rounds=4, seconds=5)
    ratios(results, reference="torch-nn")

A contender that fails, if only because its package is not installed, is left out from there on and
is in `contest.failures` with its error.
"""

import dataclasses
import json
import os
import random
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from progress import Progress

_FOLDER = Path(__file__).parent
# Thread pools spin for a while after their last task, and would take from the next one's turn.
_PAUSE_SECONDS = 0.3


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to do the work.

    Attributes:
        name: str.
        target: "module:Class" of what `worker.py` runs.
        arguments: dict, JSON, of the class.
        environment: dict, variables beside those of this process.
        most_repeats: int, the most repeats in one turn.
    """

    name: str
    target: str
    arguments: dict = dataclasses.field(default_factory=dict)
    environment: dict = dataclasses.field(default_factory=dict)
    most_repeats: int = 32


@dataclasses.dataclass
class Result:
    """What one contender did in one case.

    Attributes:
        name: str.
        case: dict.
        first_call_seconds: float, the first repeat, compilation included.
        repeats: int, in each turn.
        seconds: list of float, of one repeat, a number a round.
        other_cores: list of float, cores that other processes kept busy, a number a round.
        peak_bytes: int, the greatest resident memory during the case.
        facts: dict, what the contender says of itself afterwards.
    """

    name: str
    case: dict
    first_call_seconds: float
    repeats: int
    seconds: list = dataclasses.field(default_factory=list)
    other_cores: list = dataclasses.field(default_factory=list)
    peak_bytes: int = 0
    facts: dict = dataclasses.field(default_factory=dict)

    @property
    def median_seconds(self):
        """The median time of one repeat."""
        return statistics.median(self.seconds)

    @property
    def busy_cores(self):
        """The median number of cores that other processes kept busy meanwhile."""
        return statistics.median(self.other_cores)


class ContenderError(Exception):
    """A contender's process ended, or did not answer in time."""


class Contest:
    """Holds the contenders' processes and measures them in rounds.

    Args:
        contenders: list of `Contender`, of different names.
        seed: int, of the order within rounds.
        limit_seconds: float, how long a contender may take to get ready or to answer.

    Attributes:
        failures: dict, the error of each contender that was left out.
    """

    def __init__(self, contenders, seed=0, limit_seconds=900.0):
        self.contenders = {contender.name: contender for contender in contenders}
        self.failures = {}
        self.limit_seconds = limit_seconds
        self._random = random.Random(seed)
        self._workers = {}
        self._largest_peak = 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for worker in self._workers.values():
            worker.close()

    def measure(self, case=None, rounds=4, seconds=5.0):
        """Returns {name: `Result`} of one case, for those that did it.

        Args:
            case: dict, JSON: the keyword arguments of each contender's `run`.
            rounds: int.
            seconds: float, about how long a turn takes; one repeat at the least.
        """
        case = case or {}
        results = {}
        progress = Progress(label(case), rounds)
        for name in [name for name in self.contenders if name not in self.failures]:
            progress.say(f"{name} gets ready")
            result = self._try(name, self._first_calls, case, seconds)
            if result is not None:
                results[name] = result
        for number in range(rounds):
            order = [name for name in results if name not in self.failures]
            self._random.shuffle(order)
            for name in order:
                self._try(name, self._turn, results[name])
                if name not in self.failures:
                    progress.turn_done(number, name, len(order))
        progress.close()
        results = {name: results[name] for name in results if name not in self.failures}
        for name, result in results.items():
            result.facts = self.facts(name)
        return results

    def call(self, name, case):
        """Returns {"seconds", ...} of one more call of a case; None if the contender failed."""
        return None if name in self.failures else self._try(name, self._call, case)

    def facts(self, name):
        """Returns what a contender says of itself; {} if it failed."""
        return {} if name in self.failures else self._try(name, self._facts) or {}

    def _try(self, name, action, *arguments):
        """Returns what the action does with a contender, or None where that failed."""
        try:
            return action(name, *arguments)
        except ContenderError as error:
            self.failures[name] = str(error)
            if name in self._workers:
                self._workers.pop(name).close()
            print(f"{name} is left out: {error}", file=sys.stderr)

    def _first_calls(self, name, case, seconds):
        """Gets a contender ready for a case, and finds out how often it fits into a turn."""
        if name not in self._workers:
            _check_memory(self._largest_peak)
            self._workers[name] = _Worker(self.contenders[name], self.limit_seconds)
        worker = self._workers[name]
        first = worker.run(case, 1, new_case=True)
        # The second call may still compile, or meet cold caches: it counts only if it fills a turn.
        again = worker.run(case, 1)
        if again["seconds"] < seconds:
            again = worker.run(case, 1)
        self._largest_peak = max(self._largest_peak, again["peak_bytes"])
        repeats = int(seconds / max(again["seconds"], 1e-6))
        repeats = max(1, min(repeats, self.contenders[name].most_repeats))
        return Result(name, case, first["seconds"], repeats)

    def _turn(self, name, result):
        time.sleep(_PAUSE_SECONDS)
        busy = busy_cpu_seconds()
        reply = self._workers[name].run(result.case, result.repeats)
        others = busy_cpu_seconds() - busy - reply["cpu_seconds"]
        result.seconds.append(reply["seconds"] / result.repeats)
        result.other_cores.append(max(0.0, others / reply["seconds"]))
        result.peak_bytes = reply["peak_bytes"]

    def _call(self, name, case):
        return self._workers[name].run(case, 1)

    def _facts(self, name):
        return self._workers[name].ask({"facts": True})


class _Worker:
    """The process of one contender, and the requests it answers."""

    def __init__(self, contender, limit_seconds):
        self.limit_seconds = limit_seconds
        self._log = tempfile.TemporaryFile("w+", errors="replace")
        # The package and the contenders of this checkout are measured, installed or not.
        environment = {**os.environ, **contender.environment}
        path = [environment.get("PYTHONPATH", ""), str(_FOLDER.parent), str(_FOLDER)]
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in path if entry)
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(_FOLDER / "worker.py"),
                contender.target,
                json.dumps(contender.arguments),
            ],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        try:
            self.ready_seconds = self._reply()["ready_seconds"]
        except ContenderError:
            self.close()
            raise

    def run(self, case, repeats, new_case=False):
        """Lets the contender do a case `repeats` times; returns the reply."""
        return self.ask({"case": case, "repeats": repeats, "new_case": new_case})

    def ask(self, request):
        """Sends a request and returns the reply."""
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ContenderError(self._last_words()) from error
        return self._reply()

    def close(self):
        """Ends the process."""
        self._selector.close()
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _reply(self):
        if not self._selector.select(self.limit_seconds):
            raise ContenderError(f"no answer within {self.limit_seconds:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise ContenderError(self._last_words())
        return json.loads(line)

    def _last_words(self):
        """Returns the error a process ended with: the last line of its traceback, or its signal."""
        code = self._process.wait()
        self._log.seek(0)
        lines = [line.strip() for line in self._log if line.strip()]
        if code < 0:
            return f"ended by signal {-code}" + (" (out of memory?)" if code == -9 else "")
        return lines[-1][:500] if lines else f"ended with status {code}"


def ratios(results, reference):
    """Returns {name: how many times as fast as the reference}, medians of ratios within rounds."""
    against = results[reference].seconds
    return {
        name: statistics.median(
            theirs / ours for theirs, ours in zip(against, result.seconds, strict=True)
        )
        for name, result in results.items()
    }


def fastest(results, among=lambda name: True):
    """Returns the name with the least median time among those, or among all if there are none."""
    names = [name for name in results if among(name)] or list(results)
    return min(names, key=lambda name: results[name].median_seconds)


def is_peer(name):
    """Returns whether a contender is another library."""
    return not name.startswith(("ours", "matrix-product"))


def label(case):
    """Returns a case in words: "sentences 32, beam 4"."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in case.items())


def busy_cpu_seconds():
    """Returns the processor time that all processes have used since the start; 0 if not known."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, interrupt, soft_interrupt, *_ = map(
        int, stat.read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + interrupt + soft_interrupt) / os.sysconf("SC_CLK_TCK")


def _check_memory(needed):
    """Raises before a contender is started for which the memory does not suffice."""
    information = Path("/proc/meminfo")
    if not information.exists():
        return
    lines = information.read_text().splitlines()
    available = next(1024 * int(line.split()[1]) for line in lines if "MemAvailable" in line)
    if available < needed:
        raise ContenderError(
            f"not enough memory: {available / 1e9:.1f} GB are available, and another contender "
            f"took {needed / 1e9:.1f} GB; measure fewer at a time"
        )
