"""Additive models of millions of rows, beside boosting and EBM on the same ones.

    python -m benchmarks.million_rows [--sets 1000000 4000000] [--sides NAME ...]

The table is made here: 20 numbers, some with heavy tails and missing cells, 10 categories of 3 to
200 levels, and two classes whose log-odds are curves of columns, products of some pairs of columns,
one of three, and chance.  It is written as Parquet, train and test apart.  Ours are the commands
`ingest`, `train --tol 1e-3` and `predict`, with no other option than the label and the encoding;
the side `little` is curves and pairs once more, each command with `--memory 256MB`.  The others
(million_row_peers.py) have default settings, one thread and a process of their own.  Log loss is
that of 200,000 rows held out; seconds of the processor and by the clock are of all processes
together, memory is the peak of the largest.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.table_peers import LIMITED, ONE_THREAD, ended_by
from testing.results import Row, conclude, recorded, study_options, table

PART = "millions"
SETS = ("1000000", "4000000")
#: Ours with what `ingest` is given as `encode`.
OURS = {"linear": "linear", "additive": "additive", "little": "additive"}
LITTLE = "256MB"  # the memory that each command has on the side of that name
NAMES = {
    "linear": "fewpass, columns as they are", "additive": "fewpass, curves and pairs",
    "little": f"the same, `--memory {LITTLE}`",
    "boosting": "HistGradientBoosting", "lightgbm": "LightGBM", "ebm": "EBM",
}  # fmt: skip
SIDES = tuple(NAMES)
USUAL = tuple(side for side in SIDES if side != "little")
LAUNCH = Path(__file__).parent / "suite/launch.py"
NUMBERS, LEVELS = 20, (3, 5, 7, 12, 12, 24, 31, 50, 100, 200)
TEST_ROWS, BATCH = 200_000, 100_000
MISSING = 0.08  # of the cells of every fifth column


def main() -> None:
    """Measure as many rows as are asked for."""
    options = study_options(__doc__, SETS)
    options.add_argument("--sides", nargs="*", choices=SIDES, default=USUAL)
    asked = options.parse_args()
    found = measured([int(n) for n in asked.sets], asked.folder / "millions", asked.sides)
    rows = recorded(asked.results, PART, found, in_short)
    packages = ("numpy", "scikit-learn", "lightgbm", "interpret-core")
    conclude(asked.results, PART, findings(rows), packages)


def measured(sizes: Sequence[int], folder: Path, sides: Sequence[str]) -> Iterator[Row]:
    """Yield a row for every side and number of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    test = folder / "test.parquet"
    write_rows(test, TEST_ROWS, seed=1)
    for n in sizes:
        train = folder / f"train-{n}.parquet"
        write_rows(train, n, seed=0)
        for side in sides:
            yield {"rows": n, "side": side} | outcome(side, train, test, folder / side)


def write_rows(path: Path, n: int, seed: int) -> None:
    """Write a table of n rows, once."""
    if path.exists():
        return
    drawn = np.random.default_rng([7, seed])
    partial = path.with_suffix(".partial")
    with pq.ParquetWriter(partial, made_rows(2, drawn).schema) as out:
        for start in range(0, n, BATCH):
            out.write_table(made_rows(min(BATCH, n - start), drawn))
    partial.rename(path)


class Drawn(NamedTuple):
    """Rows before they are a table."""

    numbers: NDArray[np.float64]
    codes: list[NDArray[np.int64]]
    chance: NDArray[np.float64]  # of a "yes"
    is_yes: NDArray[np.bool_]


def draw(n: int, drawn: np.random.Generator) -> Drawn:
    """Draw n rows."""
    numbers = drawn.normal(size=(NUMBERS, n))
    numbers[1::2] = 0.6 * numbers[1::2] + 0.8 * numbers[::2]
    numbers[4::4] = np.exp(numbers[4::4])
    codes = [(k * drawn.beta(1.0, 2.5, n)).astype(np.int64) for k in LEVELS]
    chance = 1.0 / (1.0 + np.exp(-log_odds(numbers, codes)))
    return Drawn(numbers, codes, chance, drawn.random(n) < chance)


def made_rows(n: int, drawn: np.random.Generator) -> Any:
    """Draw an Arrow table of n rows."""
    numbers, codes, _, is_yes = draw(n, drawn)
    columns: dict[str, Any] = {}
    for k, values in enumerate(numbers):
        gone = drawn.random(n) < MISSING if k % 5 == 0 else None
        columns[f"x{k}"] = pa.array(values.astype(np.float32).round(3), mask=gone)
    for k, of in enumerate(codes):
        names = pa.array([f"c{k}v{i}" for i in range(LEVELS[k] + 1)])
        columns[f"c{k}"] = names.take(pa.array(of))
    return pa.table(columns | {"y": np.where(is_yes, "yes", "no")})


def log_odds(x: NDArray[np.float64], codes: list[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Return what the classes of rows are drawn by."""
    curves = np.sin(2.0 * x[0]) + 0.5 * np.abs(x[2]) - 0.4 * np.log1p(x[4]) + 0.3 * x[6]
    steps = 0.8 * (x[10] > 0.5) + 0.1 * x[11] ** 2 * (x[11] < 0.0)
    levels = np.cos(codes[5]) * 0.5 + 0.4 * np.sin(codes[8] * 1.7) + 0.2 * (codes[0] - 1.0)
    pairs = 0.5 * x[1] * x[3] + 0.7 * np.tanh(x[7]) * (codes[1] - 1.0)
    pairs += 0.6 * ((codes[2] + codes[3]) % 2 - 0.5) + 0.5 * x[13] * (x[14] > 0.0)
    return np.asarray(curves + steps + levels + pairs + 0.3 * x[1] * x[9] * (codes[4] > 2) - 1.0)


def outcome(side: str, train: Path, test: Path, place: Path) -> Row:
    """Train one side, and evaluate what it predicts; where it fails, say by what."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    out, took = place / "predicted.csv", {}
    for name, command in commands(side, train, test, out).items():
        launched = [sys.executable, str(LAUNCH), json.dumps([command])]
        places = os.environ | ({} if side in OURS else ONE_THREAD)
        done = subprocess.run(launched, capture_output=True, text=True, check=False, env=places)
        if done.returncode:
            return {"failed": ended_by(done.stderr)}
        took[name] = json.loads(done.stdout)
    stored = sum(file.stat().st_size for file in (place / "data").rglob("*") if file.is_file())
    y = np.asarray(pq.read_table(test, columns=["y"])["y"]) == "yes"
    chance = pd.read_csv(out).filter(like="yes").to_numpy()[:, 0]
    return {
        "log_loss": float(log_loss(y, chance)), "auc": float(roc_auc_score(y, chance)),
        "cpu": {name: one["cpu_s"] for name, one in took.items()},
        "wall": sum(one["wall_s"] for one in took.values()),
        "peak": max(one["peak_rss"] for one in took.values()), "stored": stored,
    }  # fmt: skip


def commands(side: str, train: Path, test: Path, out: Path) -> dict[str, list[str]]:
    """Return what a side runs, by what it is."""
    if side not in OURS:
        own = [*LIMITED, sys.executable, "-m", "benchmarks.million_row_peers", side]
        return {"all": [*own, str(train), str(test), str(out)]}
    data, run = str(out.with_name("data")), str(out.with_name("run"))
    fewpass = [sys.executable, "-m", "fewpass"]
    few = ["--memory", LITTLE] if side == "little" else []
    ingest = [*fewpass, "ingest", str(train), data, "--label", "y", "--encode", OURS[side]]
    predict = [*fewpass, "predict", run, str(test), str(out), "--label", "y", "--probability"]
    return {
        "ingest": ingest + few, "train": [*fewpass, "train", data, run, "--tol", "1e-3", *few],
        "predict": predict + few,
    }  # fmt: skip


def in_short(row: Row) -> str:
    """Say in a line what came of a side."""
    if "failed" in row:
        return f"{row['rows']:,} {row['side']}: {row['failed']}"
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in row["cpu"].items())
    return (
        f"{row['rows']:,} {row['side']}: log loss {row['log_loss']:.4f}, AUC {row['auc']:.4f}, "
        f"CPU s: {seconds}, {row['wall']:.0f} s by the clock, {row['peak'] / 1e6:,.0f} MB, "
        f"{row['stored'] / 1e6:,.0f} MB stored"
    )


def best_possible() -> float:
    """Return the log loss, on the test rows, of the chances that their classes were drawn by."""
    drawn, told = np.random.default_rng([7, 1]), []
    for _ in range(0, TEST_ROWS, BATCH):
        told.append(draw(BATCH, drawn))
        drawn.random((sum(k % 5 == 0 for k in range(NUMBERS)), BATCH))  # gaps
    is_yes, chance = (np.concatenate(of) for of in list(zip(*told, strict=True))[:1:-1])
    return float(log_loss(is_yes, chance))


def findings(rows: list[Row]) -> list[str]:
    """Say what curves and pairs cost beside the columns as they are."""
    said = [f"The chances that the classes were drawn by come to {best_possible():.4f} themselves."]
    for n in sorted({row["rows"] for row in rows}):
        by_side = {row["side"]: row for row in rows if row["rows"] == n and "cpu" in row}
        if {"linear", "additive"} <= by_side.keys():
            linear, additive = (by_side[side] for side in ("linear", "additive"))
            times = sum(additive["cpu"].values()) / sum(linear["cpu"].values())
            said.append(
                f"{n:,} rows: curves and pairs take {times:.1f} times the processor's seconds of "
                f"the columns as they are, for a log loss of {additive['log_loss']:.4f} in place "
                f"of {linear['log_loss']:.4f}."
            )
    return said


def tables(rows: list[Row]) -> str:
    """Tabulate what each side came to."""
    head = ("rows", "side", "log loss", "AUC", "CPU s", "of these training", "peak", "stored")
    every = {(row["rows"], row["side"]): row for row in rows}
    cells = []
    for n, side in sorted(every, key=lambda key: (key[0], SIDES.index(key[1]))):
        row = every[n, side]
        if "failed" in row:
            cells.append([f"{n:,}", NAMES[side], row["failed"], *["-"] * 5])
            continue
        training = row["cpu"].get("train", row["cpu"].get("all"))
        stored = f"{row['stored'] / 1e6:,.0f} MB" if row["stored"] else "-"
        cells.append([
            f"{n:,}", NAMES[side], f"{row['log_loss']:.4f}", f"{row['auc']:.4f}",
            f"{sum(row['cpu'].values()):,.0f}", f"{training:,.0f}",
            f"{row['peak'] / 1e6:,.0f} MB", stored,
        ])  # fmt: skip
    return table(head, cells, ("side",))


if __name__ == "__main__":
    main()
