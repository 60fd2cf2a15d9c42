"""Curves and pairs where rows are few: samples of 50 to 500 rows, beside straight lines, boosting.

    python -m benchmarks.small_samples [--sets NAME ...]

`python -m benchmarks.tables --additive` measures them, too.  Every figure is the median of five
draws: R2 of numbers, minus log loss of classes, on the rows of the table's test file.
"""

from __future__ import annotations

import json
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.data_sets import public_data
from benchmarks.table_peers import PEERS, features, predictions
from fewpass.flows import cli
from testing.results import Row, conclude, recorded, study_options, table

PART = "additive-small"
SETS = ("diamonds", "ames", "deliveries", "churn", "nass_dead", "taxi", "mpls_stops")
SIZES, DRAWS = (50, 100, 200, 500), 5
MOST_TESTED = 5_000  # rows of the test file
SIDES = ("linear-form", "additive", "boosting")


def main() -> None:
    """Measure the tables that are asked for."""
    measure_small(study_options(__doc__, SETS).parse_args())


def measure_small(asked: Namespace) -> None:
    """Measure samples of the tables that are asked for, and say what came out."""
    meta = json.loads(public_data("tables/meta.json").read_text(encoding="utf-8"))
    few = measured_small(asked.sets, meta, asked.folder / "small")
    rows = recorded(asked.results, PART, few, str)
    found = small_found(rows) if rows else []
    conclude(asked.results, PART, found, ("numpy", "scikit-learn", "pandas"))


def measured_small(sets: Sequence[str], meta: dict[str, Any], folder: Path) -> Iterator[Row]:
    """Yield a row per table and size."""
    for name in (name for name in SETS if name in sets):
        for n in SIZES:
            yield {"table": name, "rows": n} | _medians(name, n, meta[name], folder / name)


def _medians(name: str, n: int, about: dict[str, Any], place: Path) -> Row:
    from benchmarks.tables import unpacked  # which imports this

    place.mkdir(parents=True, exist_ok=True)
    every = pd.read_csv(unpacked(name, "train", place))
    test = pd.read_csv(unpacked(name, "test", place))
    test = test.sample(min(MOST_TESTED, len(test)), random_state=0)  # some lie sorted
    test.to_csv(place / "few.csv", index=False)
    scores: dict[str, list[float]] = {side: [] for side in SIDES}
    for seed in range(DRAWS):
        drawn = every.sample(n, random_state=seed)
        counts = drawn[about["label"]].value_counts()
        if about["kind"] != "reg" and (len(counts) < 2 or counts.min() < 2):
            continue  # a class of one row tells nothing
        drawn.to_csv(place / "small.csv", index=False)
        for side in SIDES:
            score = _score(side, about, test, place)
            if score is not None:
                scores[side].append(score)
    return {side: float(np.median(own)) if own else None for side, own in scores.items()}


def _score(side: str, about: dict[str, Any], test: pd.DataFrame, place: Path) -> float | None:
    """Return what a side comes to; None where it refuses the rows."""
    from benchmarks.tables import of_classes, of_numbers

    found = predicted_by(side, about, place / "small.csv", place / "few.csv")
    if found is None:
        return None
    is_number = about["kind"] == "reg"
    figures = (of_numbers if is_number else of_classes)(test[about["label"]], found)
    return float(figures["r2"] if is_number else -figures["log_loss"])


def predicted_by(side: str, about: dict[str, Any], train: Path, test: Path) -> pd.DataFrame | None:
    """Train a side on a file, in this process, and return what it predicts of another.

    None where it refuses the rows: boosting does where a class of many has one row.
    """
    from benchmarks.tables import FORMS, own

    if side in FORMS:
        out = train.with_name("predicted.csv")
        for folder in ("data", "data-test", "run"):
            shutil.rmtree(train.with_name(folder), ignore_errors=True)
        out.unlink(missing_ok=True)
        for command in own(about, train, test, out, FORMS[side])[1:]:
            if cli.main([*command[1:], "-q"]):
                return None
        return pd.read_csv(out)
    rows, new = features(pd.read_csv(train), about), features(pd.read_csv(test), about)
    y = pd.read_csv(train)[about["label"]]
    try:
        model = PEERS[side](rows, about).fit(rows, y if about["kind"] == "reg" else y.astype(str))
    except ValueError as error:
        print(f"{side}: {error}", file=sys.stderr)
        return None
    return predictions(model, new, about)


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


if __name__ == "__main__":
    main()
