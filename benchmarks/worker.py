"""The process that holds one contender and answers requests: `worker.py MODULE:CLASS ARGUMENTS`.

The class is made once, with the JSON object ARGUMENTS as its keyword arguments. Then every line of
standard input is a request and gets one line of standard output, both JSON:

    {"case": {...}, "repeats": 3, "new_case": true}   -> {"seconds", "cpu_seconds", "peak_bytes"}
    {"facts": true}                                   -> what the contender's `facts()` returns

The first line, before any request, is {"ready_seconds": ...}. Of a contender is asked

    run(repeats, **case)    the work, done when it returns; it may return the seconds that count
    facts() -> dict         numbers about it (parameters, loss), taken outside the measured time

An error ends the process, with its traceback on standard error for the other side to report.
"""

import importlib
import json
import os
import re
import sys
import time
from pathlib import Path


def main():
    target, arguments = sys.argv[1], json.loads(sys.argv[2])
    replies = _claim_standard_output()
    started = time.perf_counter()
    module, name = target.split(":")
    contender = getattr(importlib.import_module(module), name)(**arguments)
    _send(replies, {"ready_seconds": time.perf_counter() - started})
    for line in sys.stdin:
        _send(replies, answer(contender, json.loads(line)))


def answer(contender, request):
    """Returns the reply to one request."""
    if request.get("facts"):
        return contender.facts()
    if request["new_case"]:
        forget_peak()
    cpu, wall = time.process_time(), time.perf_counter()
    seconds = contender.run(request["repeats"], **request["case"])
    return {
        "seconds": time.perf_counter() - wall if seconds is None else seconds,
        "cpu_seconds": time.process_time() - cpu,
        "peak_bytes": peak_bytes(),
    }


def peak_bytes():
    """Returns the greatest resident memory of this process, in bytes; 0 where it is not known.

    `getrusage` would not do: after a fork its number begins at the parent's.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status.read_text()).group(1))


def forget_peak():
    """Lets `peak_bytes` begin again from what is resident now (Linux, clear_refs(5))."""
    clear = Path("/proc/self/clear_refs")
    if os.access(clear, os.W_OK):
        clear.write_text("5")


def _claim_standard_output():
    """Returns standard output as a file of our own; what libraries print goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return replies


def _send(replies, reply):
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


if __name__ == "__main__":
    main()
