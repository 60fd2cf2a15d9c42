"""From a file to a model: training straight from text against Vowpal Wabbit, processes in whole.

    python -m benchmarks.straight FOLDER --size 300MB --peers .venv-peers/bin/python

Both learn the same rows of the demo's click log once, each from the text that it reads, with two
cores, by a logistic loss; the last tenth of the rows is for evaluation.  Vowpal Wabbit has a weight
for every column (-b) and is otherwise as it comes.  Wall and processor seconds and the largest
memory are those of the process from its start to its end; files are in the page cache,
kernels and Python's bytecode on disk.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.clicks import columns_for, write_clicks
from fewpass.pipeline.sizes import parse_bytes

VW = """
import sys
from vowpalwabbit import Workspace
Workspace(sys.argv[1]).finish()
"""


class Took(NamedTuple):
    """What a process took."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def took(command: list[str], folder: Path) -> Took:
    """Run a process to its end."""
    began = time.perf_counter()
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, env=os.environ)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{command} ended with {status}")
    return Took(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3)


def prepare(folder: Path, size: int) -> None:
    """Write the rows as both want them, the last tenth apart."""
    if (folder / "test.vw").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    made = write_clicks(folder / "clicks.svm", int(size / 0.9))
    names = [("train", made.rows * 9 // 10), ("test", made.rows)]
    with (folder / "clicks.svm").open() as rows:
        done = 0
        for name, stop in names:
            with (folder / f"{name}.svm").open("w") as svm, (folder / f"{name}.vw").open("w") as vw:
                for _ in range(done, stop):
                    line = rows.readline()
                    label, _, rest = line.partition(" ")
                    svm.write(line)
                    vw.write(f"{'1' if label == '1' else '-1'} | {rest}")
            done = stop
    (folder / "clicks.svm").unlink()


def log_loss(probability: np.ndarray, clicked: np.ndarray) -> float:
    """Mean logistic loss of probabilities (n,) of a click."""
    p = np.clip(probability, 1e-12, 1 - 1e-12)
    return float(-np.mean(np.where(clicked, np.log(p), np.log1p(-p))))


def clicks_in(path: Path) -> np.ndarray:
    """Labels of a file."""
    with path.open("rb") as rows:
        return np.array([line[:1] == b"1" for line in rows])


def fewpass(*words: str) -> list[str]:
    """Return a command of ours."""
    code = "from fewpass.flows.cli import command_line; command_line()"
    return [sys.executable, "-c", code, *words, "-q"]


def ours(folder: Path, columns: int, *more: str) -> tuple[Took, float]:
    """Train straight from the text, and evaluate."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    words = ("train", "train.svm", "run", "--features", str(columns))
    lam = () if "--lam" in more else ("--lam", "1/n")
    found = took(fewpass(*words, *lam, *more), folder)
    took(fewpass("predict", "run", "test.svm", "p.npy", "--probability", "--overwrite"), folder)
    p = np.load(folder / "p.npy")
    return found, log_loss(p.astype(float), clicks_in(folder / "test.svm"))


def ingested(folder: Path, columns: int) -> Took:
    """Ingest, then train on the data set: two processes."""
    for name in ("data", "run-2"):
        shutil.rmtree(folder / name, ignore_errors=True)
    one = took(fewpass("ingest", "train.svm", "data", "--features", str(columns)), folder)
    two = took(fewpass("train", "data", "run-2", "--lam", "1/n", "--passes", "1"), folder)
    return Took(one.wall_s + two.wall_s, one.cpu_s + two.cpu_s, max(one.peak_mb, two.peak_mb))


def vowpal_wabbit(folder: Path, columns: int, python: str) -> tuple[Took, float]:
    """The same rows, once, by Vowpal Wabbit, its predictions through the logistic function."""
    bits = int(np.ceil(np.log2(columns + 2)))
    words = f"-d train.vw --loss_function logistic -b {bits} -f model.vw --quiet"
    found = took([python, "-c", VW, words], folder)
    words = "-d test.vw -t -i model.vw --link logistic -p p.txt --quiet"
    took([python, "-c", VW, words], folder)
    return found, log_loss(np.loadtxt(folder / "p.txt"), clicks_in(folder / "test.svm"))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", default="300MB")
    parser.add_argument("--peers", default=".venv-peers/bin/python")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--prepare", action="store_true", help="write the files, and no more")
    arguments = parser.parse_args()
    size, folder = parse_bytes(arguments.size), arguments.folder.absolute()
    peers = str(Path(arguments.peers).absolute())
    prepare(folder, size)
    if arguments.prepare:
        return
    columns = columns_for(int(size / 0.9))
    os.environ["PYTHONPATH"] = str(Path.cwd())
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or every process compiles all its modules
    rows = {
        "fewpass, straight": lambda: ours(folder, columns),
        "fewpass, straight, asgd": lambda: ours(folder, columns, "--solver", "asgd"),
        "fewpass, ingest then train": lambda: (ingested(folder, columns), float("nan")),
        "Vowpal Wabbit": lambda: vowpal_wabbit(folder, columns, peers),
    }
    print(f"{'':28}{'wall s':>8}{'cpu s':>8}{'MB':>8}{'test loss':>11}")
    for name, work in rows.items():
        found = min((work() for _ in range(arguments.repeat)), key=lambda one: one[0].wall_s)
        told, loss = found
        print(f"{name:28}{told.wall_s:8.2f}{told.cpu_s:8.2f}{told.peak_mb:8.0f}{loss:11.5f}")


if __name__ == "__main__":
    main()
