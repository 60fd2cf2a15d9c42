"""Peak memory of every step on very wide rows: 2^26 columns, 40 values a row.

    python -m benchmarks.wide FOLDER --rows 600000 --memory 4GB

Writes LIBSVM text into the folder (440 bytes a row), runs the commands on it, each a process of its
own, and prints a table of what they took, libraries included.  Compiling kernels takes memory, too:
run it twice on a new machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

COLUMNS, LOWEST, PER_ROW, DIGITS = 1 << 26, 10_000_000, 40, 8
ROWS_AT_ONCE = 100_000
SKEW = 3  # the power of a uniform number that makes some columns frequent


def rows_of(number: int, n: int) -> bytes:
    """Return n rows as text; every value is 1, every column has eight digits."""
    random = np.random.default_rng(number)
    drawn = (COLUMNS - PER_ROW - LOWEST) * random.random((n, PER_ROW)) ** SKEW
    columns = LOWEST + np.sort(drawn.astype(np.int64), axis=1) + np.arange(PER_ROW)
    likely = 0.2 + 0.6 * (columns[:, 0] % 7 < 2)
    text = np.full((n, 2 + PER_ROW * (DIGITS + 3) + 1), ord("1"), np.uint8)
    text[:, 0] = np.where(random.random(n) < likely, ord("+"), ord("-"))
    pairs = text[:, 2:-1].reshape(n, PER_ROW, DIGITS + 3)
    pairs[:, :, 0], pairs[:, :, DIGITS + 1] = ord(" "), ord(":")
    for digit in range(DIGITS):
        pairs[:, :, DIGITS - digit] = ord("0") + columns // 10**digit % 10
    text[:, -1] = ord("\n")
    return text.tobytes()


def write(path: Path, rows: int) -> None:
    """Write the text, a part after the other."""
    with path.open("wb") as out:
        for number, first in enumerate(range(0, rows, ROWS_AT_ONCE)):
            out.write(rows_of(number, min(ROWS_AT_ONCE, rows - first)))


def measured(words: list[str]) -> tuple[float, float, int]:
    """Run a command; return its wall and CPU seconds and the peak of its memory in bytes."""
    began = time.perf_counter()
    command = str(Path(sys.executable).with_name("fewpass"))
    child = subprocess.Popen([command, *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"fewpass {' '.join(words)} failed.")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--rows", type=int, default=600_000)
    options.add_argument("--memory", default="4GB")
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True)
    at = {name: str(chosen.folder / name) for name in ("data", "run", "straight", "scores.csv")}
    source, memory = chosen.folder / "rows.svm", ["--memory", chosen.memory]
    wide = ["--features", str(COLUMNS)]
    write(source, chosen.rows)
    steps = [
        ["ingest", str(source), at["data"], *wide, *memory],
        ["train", "--plan", at["data"], "--passes", "1", *memory],
        ["train", at["data"], at["run"], "--lam", "1/n", "--passes", "1", *memory],
        ["train", str(source), at["straight"], "--lam", "1/n", *wide, *memory],
        ["evaluate", at["run"], at["data"]],
        ["predict", at["run"], str(source), at["scores.csv"]],
        ["report", at["run"], "--html"],
    ]
    print("| command | wall s | CPU s | peak memory |\n|---|---:|---:|---:|")
    for words in steps:
        wall, cpu, peak = measured(words)
        told = " ".join(words).replace(f"{chosen.folder}/", "")
        print(f"| `fewpass {told}` | {wall:.0f} | {cpu:.0f} | {peak / 1e9:.2f} GB |", flush=True)


if __name__ == "__main__":
    main()
