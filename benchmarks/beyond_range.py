"""Rows whose numbers are beyond all that were learnt from: straight lines, curves, boosting.

    python -m benchmarks.beyond_range [--sets NAME ...]

Of every table the rows with the largest twentieth of one column's numbers are predicted by models
of the others, by the commands of `python -m benchmarks.tables --additive`; and for comparison as
many of the others, which were left out as well.  The documentation's
site has the table (additive_page.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.data_sets import public_data
from benchmarks.tables import figure_of, of_classes, of_numbers, outcome, unpacked
from testing.results import Row, conclude, recorded, rows_of_part, study_options, table

PART = "beyond-range"
#: The column of each table that is cut; of some with dates the later rows are beyond, too.
COLUMNS = {
    "diamonds": "carat", "deliveries": "distance", "ames": "Gr_Liv_Area", "baseball_hr": "ab",
    "movies_rating": "length", "hotel_rates": "lead_time", "taxi": "distance",
}  # fmt: skip
SIDES = ("linear-form", "splines", "additive", "boosting")
SHARE = 20  # one in so many rows is beyond
MOST = 20_000  # rows learnt from


def main() -> None:
    """Measure the tables that are asked for."""
    asked = study_options(__doc__, COLUMNS).parse_args()
    meta = json.loads(public_data("tables/meta.json").read_text(encoding="utf-8"))
    rows = measured_beyond(asked.sets, meta, asked.folder / "beyond")
    recorded(asked.results, PART, rows, str)
    made = rows_of_part(asked.results, PART, ("table",))
    conclude(asked.results, PART, beyond_found(made), ("numpy", "scikit-learn", "pandas"))


def measured_beyond(names: Sequence[str], meta: dict[str, Any], folder: Path) -> Iterator[Row]:
    """Yield a row per table: what each side came to, beyond the range and within."""
    for name in names:
        place, about = folder / name, meta[name]
        place.mkdir(parents=True, exist_ok=True)
        n_beyond = cut(name, place)
        row: Row = {"table": name, "column": COLUMNS[name]}
        for side in SIDES:
            row[side] = side_by_range(side, about, place, n_beyond)
        yield row | {"figure": "log loss" if about["kind"] != "reg" else "R2"}


def side_by_range(side: str, about: dict[str, Any], place: Path, n_beyond: int) -> Row:
    """Return the figure of a side on the first rows, which are beyond, and on the others."""
    done = outcome(side, about, place / "learnt.csv", place / "new.csv", place)
    if "failed" in done:
        return done
    target = pd.read_csv(place / "new.csv")[about["label"]]
    predicted = pd.read_csv(place / f"{side}.csv")
    figures = of_numbers if about["kind"] == "reg" else of_classes
    parts = {"beyond": slice(n_beyond), "within": slice(n_beyond, None)}
    return {
        where: figure_of(figures(target[own], predicted[own]))[1] for where, own in parts.items()
    }


def cut(name: str, place: Path) -> int:
    """Write the rows learnt from, and those beyond with as many others; return how many."""
    rows = pd.concat([pd.read_csv(unpacked(name, half, place)) for half in ("train", "test")])
    rows = rows.sample(frac=1.0, random_state=0)
    edge = rows[COLUMNS[name]].quantile(1.0 - 1.0 / SHARE)
    beyond, others = rows[rows[COLUMNS[name]] > edge], rows[~(rows[COLUMNS[name]] > edge)]
    pd.concat([beyond, others.head(len(beyond))]).to_csv(place / "new.csv", index=False)
    others.iloc[len(beyond) :].head(MOST).to_csv(place / "learnt.csv", index=False)
    return len(beyond)


def beyond_table(rows: list[Row]) -> str:
    """Tabulate what each side came to."""
    head = ("table", "column", "figure", "beyond: straight lines", "curves", "`--additive`",
            "boosting", "within: straight lines", "curves", "`--additive`", "boosting")  # fmt: skip
    cells = [
        [
            row["table"], row["column"], row["figure"],
            *(f"{row[side][where]:.3f}" for where in ("beyond", "within") for side in SIDES),
        ]
        for row in rows
    ]  # fmt: skip
    return table(head, cells, ("table", "column", "figure"))


def beyond_found(rows: list[Row]) -> list[str]:
    """Say where curves and pairs lose more than the others, beyond the range and within."""
    return [
        f"{where.capitalize()} the range curves and pairs are worse than boosting on "
        f"{_worse(rows, where, 'boosting')}, than straight lines on "
        f"{_worse(rows, where, 'linear-form')}."
        for where in ("beyond", "within")
    ]


def _worse(rows: list[Row], where: str, side: str) -> str:
    """Name the tables where curves and pairs lose more than a side."""
    worse = [row for row in rows if _lost(row, "additive", where) > _lost(row, side, where)]
    names = f" ({', '.join(row['table'] for row in worse)})" if worse else ""
    return f"{len(worse)} of {len(rows)} tables{names}"


def _lost(row: Row, side: str, where: str) -> float:
    """Return the log loss, or 1 - R2, of a side."""
    found: float = row[side][where]
    return 1.0 - found if row["figure"] == "R2" else found


if __name__ == "__main__":
    main()
