"""Curves and pairs where rows are few: samples of 50 to 500 rows, beside straight lines, boosting.

`python -m benchmarks.tables --additive` measures them, too.  Every figure is the median of five
draws: R2 of numbers, minus log loss of classes, on the rows of the table's test file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from testing.results import Row, table

PART = "additive-small"
SETS = ("diamonds", "ames", "deliveries", "churn", "nass_dead", "taxi", "mpls_stops")
SIZES, DRAWS = (50, 100, 200, 500), 5
SIDES = ("linear-form", "additive", "boosting")


def measured_small(sets: Sequence[str], meta: dict[str, Any], folder: Path) -> Iterator[Row]:
    """Yield a row per table and size."""
    for name in (name for name in SETS if name in sets):
        for n in SIZES:
            yield {"table": name, "rows": n} | _medians(name, n, meta[name], folder / name)


def _medians(name: str, n: int, about: dict[str, Any], place: Path) -> Row:
    from benchmarks.tables import outcome, unpacked  # which imports this

    place.mkdir(parents=True, exist_ok=True)
    every, part = pd.read_csv(unpacked(name, "train", place)), unpacked(name, "test", place)
    small = place / "small.csv"
    scores: dict[str, list[float]] = {side: [] for side in SIDES}
    for seed in range(DRAWS):
        drawn = every.sample(n, random_state=seed)
        if about["kind"] != "reg" and drawn[about["label"]].value_counts().min() < 2:
            continue  # a class of one row tells nothing
        drawn.to_csv(small, index=False)
        for side in SIDES:
            found = outcome(side, about, small, part, place)
            if "failed" not in found:
                scores[side].append(found["r2"] if "r2" in found else -found["log_loss"])
    return {side: float(np.median(own)) if own else None for side, own in scores.items()}


def small_tables(rows: list[Row]) -> str:
    """Tabulate the medians."""
    head = ("table", "rows", "straight lines", "`--additive`", "boosting")
    cells = [
        [row["table"], f"{row['rows']}", *(_figure(row[side]) for side in SIDES)] for row in rows
    ]
    return table(head, cells, ("table",))


def small_found(rows: list[Row]) -> list[str]:
    """Say where curves lose."""
    both = [row for row in rows if None not in (row["linear-form"], row["additive"])]
    gaps = {f"{row['table']} {row['rows']}": row["additive"] - row["linear-form"] for row in both}
    worst = min(gaps, key=lambda name: gaps[name])
    lost = sum(gap < -0.006 for gap in gaps.values())
    said = (
        f"Of {len(both)} samples {lost} are worse by over .006 than straight lines; the worst, "
        f"{worst}, by {-gaps[worst]:.4f}."
    )
    return [said]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
