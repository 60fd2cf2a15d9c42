"""A dask.dataframe larger than the budget: time and memory of a fit, and the same fit killed.

    python -m benchmarks.dask_frame

Two million rows of 24 columns, read from Parquet in partitions of 130,000, are fitted with
memory="256MB" in a process whose kernels were compiled before.  Then the same call with `folder=`
is killed by SIGKILL while it stores the rows and again while it trains, and is made once more.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROWS, PARTITION, COLUMNS = 2_000_000, 130_000, 24
MEMORY, TOL = "256MB", 1e-6


def write_rows(folder: Path, rows: int, partition: int) -> None:
    """Write files of Parquet, a partition each."""
    folder.mkdir()
    names = [f"x{k}" for k in range(COLUMNS)]
    scales = np.logspace(0.0, -1.5, COLUMNS)
    for number, start in enumerate(range(0, rows, partition)):
        rng = np.random.default_rng(number)
        X = rng.standard_normal((min(partition, rows - start), COLUMNS)) * scales
        score = X @ np.random.default_rng(99).standard_normal(COLUMNS) * 2.0
        bought = np.where(score + rng.logistic(size=len(X)) > 0.0, "yes", "no")
        frame = pd.DataFrame(X, columns=names).assign(bought=bought)
        frame.to_parquet(folder / f"{number:03}.parquet")


def fit(rows: str, folder: str) -> None:
    """Fit in this process, and print what came of it as JSON; an empty `folder` is none."""
    import dask.dataframe as dd

    import fewpass.pipeline.models.estimators.fits_of_stored_rows
    import fewpass.pipeline.tables.readers.collections  # noqa: F401 - what a fit uses is imported here
    from fewpass import LinearClassifier
    from fewpass.pipeline.memory import peak_memory_bytes

    libraries, began = peak_memory_bytes(), time.perf_counter()
    frame = dd.read_parquet(rows, split_row_groups=False, blocksize=None)
    # A method of many passes, so that there is something to be killed in.
    solver = "psdca" if folder else "auto"
    model = LinearClassifier(memory=MEMORY, tol=TOL, solver=solver, folder=folder or None)
    model.fit(frame, "bought")
    print(json.dumps({
        "seconds": time.perf_counter() - began, "libraries": libraries,
        "peak": peak_memory_bytes(), "partitions": frame.npartitions, "passes": model.passes_,
        "solver": model.solver_, "certificate": model.certificate_,
        "coef": model.coef_.tobytes().hex(),
    }))  # fmt: skip


def fitted(rows: Path, folder: str = "") -> dict[str, Any]:
    """Fit in a process of its own."""
    done = subprocess.run(words(rows, folder), check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def words(rows: Path, folder: str) -> list[str]:
    """Return the command of that process."""
    return [sys.executable, "-m", "benchmarks.dask_frame", "fit", str(rows), folder]


def killed_when(there: Path, rows: Path, folder: str) -> float:
    """Begin a fit, kill it as soon as something is there, and return after how many seconds."""
    began = time.perf_counter()
    process = subprocess.Popen(words(rows, folder), stdout=subprocess.DEVNULL)
    while not there.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.returncode != -signal.SIGKILL:
        raise RuntimeError("The fit ended before it could be killed. Give more rows.")
    return time.perf_counter() - began


def main() -> None:
    """Print both tables."""
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        write_rows(here / "few", 20_000, 10_000)
        write_rows(here / "rows", ROWS, PARTITION)
        fitted(here / "few")  # compiles
        fitted(here / "few", str(here / "compiled"))
        it = fitted(here / "rows")
        print("| rows | partitions | seconds | passes | certified | libraries MB | peak MB |")
        print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        print(
            f"| {ROWS:,} | {it['partitions']} | {it['seconds']:.1f} | {it['passes']:g} "
            f"({it['solver']}) | {it['certificate']:.0e} | {it['libraries'] / 1e6:.0f} "
            f"| {it['peak'] / 1e6:.0f} |\n",
            flush=True,
        )
        whole, cut = fitted(here / "rows", str(here / "whole")), here / "cut"
        storing = killed_when(cut / "data", here / "rows", str(cut))
        training = killed_when(cut / "run/run.json", here / "rows", str(cut))
        again = fitted(here / "rows", str(cut))
        print("| the call with `folder=` | seconds | passes |")
        print("| --- | ---: | ---: |")
        print(f"| not interrupted | {whole['seconds']:.1f} | {whole['passes']:g} |")
        print(f"| killed while it stored the rows | {storing:.1f} | |")
        print(f"| the same call, killed while it trained | {training:.1f} | |")
        print(f"| the same call again | {again['seconds']:.1f} | {again['passes']:g} |")
        print(f"\nThe same coefficients, bit for bit: {again['coef'] == whole['coef']}")


if __name__ == "__main__":
    fit(*sys.argv[2:]) if sys.argv[1:2] == ["fit"] else main()
