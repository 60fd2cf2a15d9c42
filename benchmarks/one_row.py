"""Time of one row, and of many, of a model in memory: what `docs/serving.md` says.

    python -m benchmarks.one_row

Trains on 20,000 visits of `make demo`, and times each way to predict one of them, and 10,000.
Seconds are CPU time of this process and its threads, the least of five tries.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

import fewpass
from fewpass.pipeline.clicks import write_visits

ROWS, MANY = 20_000, 10_000


def main() -> None:
    """Print the table of the page."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_visits(folder / "visits.csv", ROWS)
        fewpass.ingest(folder / "visits.csv", folder / "set", label="bought", drop=["visit"])
        fewpass.train(folder / "set", folder / "run", passes=3, verbose=0)
        frame = pd.read_csv(folder / "visits.csv").drop(columns=["visit", "bought"]).head(MANY)
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        for what, seconds in timed(folder / "run", frame, rows):
            print(f"| {what} | {1e3 * seconds:,.3f} ms |")


def timed(run: Path, frame: Any, rows: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """Return what was timed, and its seconds."""
    model, estimator = fewpass.load(run), fewpass.from_run(run)
    one = frame.head(1)
    return [
        ("one row, `predict_one`", least(lambda: [model.predict_one(r) for r in rows[:500]]) / 500),
        ("one row, `predict([row])`", least(lambda: model.predict_proba(rows[:1]))),
        ("one row of a frame, `predict`", least(lambda: model.predict_proba(one))),
        ("one row of a frame, `from_run(run)`", least(lambda: estimator.predict_proba(one))),
        (f"{MANY:,} mappings, `predict`", least(lambda: model.predict(rows))),
        (f"{MANY:,} rows of a frame, `predict`", least(lambda: model.predict(frame))),
        ("loading the run", least(lambda: fewpass.load(run))),
    ]


def least(work: Callable[[], Any]) -> float:
    """Return the least CPU seconds of five tries, after one that is not counted."""
    work()
    tries = []
    for _ in range(5):
        began = time.process_time()
        work()
        tries.append(time.process_time() - began)
    return min(tries)


if __name__ == "__main__":
    main()
