"""What more threads bring: the same work with 1, 2, 4, ... of them, on as many cores.

    python -m benchmarks.threads FOLDER --size 600MB --threads 1,2,4,8,16

The demo's click log is ingested, learnt from straight, walked, summed over and certified, and
narrow dense rows are solved, each time by a process that is kept to so many cores and told of so
many threads.  Of a method a later pass counts, within 256 MB.  Starting a process is not counted:
an ingest tells its own seconds, a training those of every sweep.  Of several the least is taken, as
whatever else happens on a machine only takes time.  In the table: wall seconds, in brackets CPU
seconds of the last process and the efficiency, which is the time of the first number of threads
over K times that of K.  All models and data sets are the same bits.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.clicks import write_clicks
from fewpass.pipeline.sizes import parse_bytes

COMMAND = "from fewpass.flows.cli import command_line; command_line()"
FIT = """
import json, sys, time
from sklearn.datasets import make_classification
from fewpass import LinearClassifier
X, y = make_classification(400_000, 50, n_informative=20, random_state=0)
source, labels = (X, y) if sys.argv[1] == "rows" else (sys.argv[1], None)
seconds = []
for _ in range(4):
    model, began = LinearClassifier(lam=1e-4, tol=1e-3, memory="2GiB"), time.perf_counter()
    model.fit(source, labels)
    seconds.append(time.perf_counter() - began)
print(json.dumps({"seconds": min(seconds)}))
"""
ROOMY, SHORT = "4GiB", "256MB"
REPEATED = 3  # ingests
NARROW_BYTES = 200  # of a row of 50 numbers
COLUMNS = 1 << 18  # whatever the size, so that the short memory has room for a gradient


class Took(NamedTuple):
    """Seconds of a piece of work, and processor seconds of the whole process."""

    wall_s: float
    cpu_s: float


def told(command: list[str], cores: list[int]) -> tuple[dict[str, Any], float]:
    """Run a process on some cores; return the JSON object that it prints, and its CPU seconds."""
    child = subprocess.Popen(
        [sys.executable, "-c", *command], stdout=subprocess.PIPE,
        preexec_fn=partial(os.sched_setaffinity, 0, cores),
    )  # fmt: skip
    assert child.stdout is not None
    found = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{command} ended with status {os.waitstatus_to_exitcode(status)}.")
    return json.loads(found), used.ru_utime + used.ru_stime


def ingested(folder: Path, cores: list[int]) -> Took:
    """From text to a data set, its rows held in memory."""
    words = ["ingest", f"{folder}/clicks.svm", f"{folder}/data", "--overwrite", "--memory", ROOMY]
    words += ["-q", "--json", "--threads", str(len(cores))]
    runs = [told([COMMAND, *words], cores) for _ in range(REPEATED)]
    return Took(min(found["seconds"] for found, _ in runs), runs[-1][1])


def sweeps(folder: Path, cores: list[int], *words: str) -> tuple[list[float], float]:
    """Train; return the seconds of every sweep."""
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    command = ["train", f"{folder}/data", str(run), *words, "--lam", "1/n", "--scheduler", "none"]
    _, cpu = told([COMMAND, *command, "-q", "--json", "--threads", str(len(cores))], cores)
    events = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [event["seconds"] for event in events if event["event"] == "sweep"], cpu


def reduced(folder: Path, cores: list[int], memory: str) -> Took:
    """Sum up a gradient over all rows: one of gradient descent's."""
    words = ["--solver", "gd", "--passes", "12", "--memory", memory]
    found, cpu = sweeps(folder, cores, *words)
    return Took(min(found), cpu)


def walked(folder: Path, cores: list[int], streams: int) -> tuple[Took, Took]:
    """Walks of averaged SGD in streams, and a certificate after each."""
    words = ["--solver", "asgd", "--passes", "8", "--streams", str(streams), "--memory", ROOMY]
    found, cpu = sweeps(folder, cores, *words, "--tol", "1e-12")
    return Took(min(found[::2]), cpu), Took(min(found[1::2]), cpu)


def straight(folder: Path, cores: list[int]) -> Took:
    """One pass over the text itself, by the learners that are the default."""
    run, runs = folder / "run", []
    for _ in range(REPEATED):
        shutil.rmtree(run, ignore_errors=True)
        words = ["train", f"{folder}/clicks.svm", str(run), "--lam", "1/n", "--scheduler", "none"]
        runs.append(told([COMMAND, *words, "-q", "--json", "--threads", str(len(cores))], cores))
    return Took(min(found["seconds"] for found, _ in runs), runs[-1][1])


def passed(folder: Path, cores: list[int], method: str, *settings: str) -> Took:
    """A later pass of a method that reads its rows again."""
    words = ["--solver", method, *settings, "--passes", "6", "--memory", SHORT]
    found, cpu = sweeps(folder, cores, *words)
    return Took(min(found[1:]), cpu)


def anchored(folder: Path, cores: list[int]) -> Took:
    """A gradient over all rows and the walk after it: two passes of S2GD+, halved."""
    found, cpu = sweeps(folder, cores, "--solver", "s2gd+", "--passes", "7", "--memory", SHORT)
    return Took(min(a + b for a, b in pairwise(found[1:])) / 2, cpu)


def narrow_rows(folder: Path, n: int) -> None:
    """Ingest dense rows of 50 columns, for Newton's method."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 50), dtype=np.float32)
    y = X @ rng.standard_normal(50) + rng.standard_normal(n) > 0
    (folder / "narrow").mkdir(exist_ok=True)
    np.savez(folder / "narrow" / "rows.npz", X=X, y=y.astype(np.float64))
    words = ["ingest", f"{folder}/narrow/rows.npz", f"{folder}/narrow/data", "--overwrite", "-q"]
    told([COMMAND, *words, "--json"], sorted(os.sched_getaffinity(0)))


def fitted(cores: list[int], source: str) -> Took:
    """Fit an estimator to a certified 1e-3."""
    found, cpu = told([FIT, source], cores)
    return Took(found["seconds"], cpu)


def measured(folder: Path, cores: list[int], streams: int) -> dict[str, Took]:
    """Do all work on some cores."""
    found = {"ingest": ingested(folder, cores), "straight": straight(folder, cores)}
    found |= {f"{m}, a pass": passed(folder, cores, m) for m in ("asgd", "psdca")}
    found["psdca in rounds, a pass"] = passed(
        folder, cores, "psdca", "--set", "solver.batch=rounds"
    )
    found["s2gd+, a pass"] = anchored(folder, cores)
    found["newton, a step"] = passed(folder / "narrow", cores, "newton")
    found["reduction, rows in memory"] = reduced(folder, cores, ROOMY)
    found[f"reduction, {SHORT}"] = reduced(folder, cores, SHORT)
    walk, certificate = walked(folder, cores, streams)
    found |= {f"walk, {streams} streams": walk, "certificate": certificate}
    found["estimator, a data set"] = fitted(cores, f"{folder}/data")
    return found | {"estimator, rows in memory": fitted(cores, "rows")}


def row(name: str, found: dict[int, Took]) -> str:
    """Tell a piece of work: seconds, in brackets CPU seconds and efficiency."""
    first, *_ = found
    cells = []
    for threads, took in found.items():
        efficiency = found[first].wall_s * first / (took.wall_s * threads)
        cells.append(f"{took.wall_s:.3g} ({took.cpu_s:.1f}, {efficiency:.0%})")
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", default="600MB")
    parser.add_argument("--threads", default="1,2,4,8,16")
    arguments = parser.parse_args()
    allowed = sorted(os.sched_getaffinity(0))
    threads = [int(word) for word in arguments.threads.split(",")]
    if max(threads) > len(allowed):
        raise SystemExit(f"This machine has {len(allowed)} cores: ask for no more --threads.")
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    write_clicks(folder / "clicks.svm", parse_bytes(arguments.size), columns=COLUMNS)
    narrow_rows(folder, parse_bytes(arguments.size) // NARROW_BYTES)
    measured(folder, allowed, max(threads))  # compiles
    found = {k: measured(folder, allowed[:k], max(threads)) for k in threads}
    print(f"| work | {' | '.join(map(str, threads))} |\n|---|{'---:|' * len(threads)}")
    for name in found[threads[0]]:
        print(row(name, {k: each[name] for k, each in found.items()}))


if __name__ == "__main__":
    main()
