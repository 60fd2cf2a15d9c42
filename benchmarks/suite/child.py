"""The process of one contestant: python -m benchmarks.suite.child MODULE:FUNCTION OPTIONS REHEARSE.

REHEARSE, true or false: whether the work, or a small one like it, is done before it counts.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from importlib import import_module

import psutil

from fewpass.pipeline.memory import peak_memory_bytes

#: What a work may tell itself, of processes that it has started.
MEASURED = ("wall_s", "cpu_s", "peak_rss")


def main() -> None:
    """Make ready, rehearse, then do the work once per line of input; answer each with a line."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    warnings.simplefilter("ignore")  # of solvers that were told to stop early
    module, _, function = sys.argv[1].partition(":")
    make = getattr(import_module(f"benchmarks.suite.{module}"), function)
    work = make(**json.loads(sys.argv[2]))
    if json.loads(sys.argv[3]):
        getattr(work, "rehearse", work)()
    imported = getattr(work, "imported", 0) or psutil.Process().memory_info().rss
    answers.write(json.dumps({"imported": imported}) + "\n")
    for _ in sys.stdin:
        before = getattr(work, "before", None)
        if before:
            before()
        cpu, wall = cpu_seconds(), time.perf_counter()
        found = work() or {}
        taken = {"wall_s": time.perf_counter() - wall, "cpu_s": cpu_seconds() - cpu}
        taken |= {k: found.pop(k) for k in MEASURED if k in found}
        peak = {"peak_rss": peak_memory_bytes()}
        answers.write(json.dumps(peak | taken | {"found": found}) + "\n")


def cpu_seconds() -> float:
    """Processor time of this process, its threads and the children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


if __name__ == "__main__":
    main()
