"""Default options on tables of others, beside a careful pipeline of scikit-learn and boosting.

    python -m benchmarks.tables [--sets NAME ...] [--sides NAME ...] [--before DIR] [--additive]

Every table is trained by the commands `ingest`, `train --tol 1e-3` and `predict` with no other
option than the label, by table_peers.py twice, and evaluated on its test file: error, AUC
and log loss of classes, R2 of numbers.  Seconds are of the processor, all processes together,
memory is the peak of the largest.  The side `before` is another checkout's, by the same commands.

With --additive ours is trained four times, with what `--encode auto` chooses, without curves, with
curves and with chosen pairs, and the careful pipeline is left out; then, unless sides are named, on
small samples of some tables (small_samples.py).  The side `ebm` is InterpretML's (pip install
interpret-core), with four outer bags and pairs for three times the columns.  A later line of a
table adds its sides.
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score

from benchmarks.data_sets import public_data
from benchmarks.small_samples import measure_small
from benchmarks.table_peers import LIMITED, ONE_THREAD, ended_by
from testing.results import Row, conclude, recorded, study_options, table

PART = "tables"
LATER = ("births_time", "flights_late_time", "hotel_rates")  # the test rows are later ones
SIDES = ("before", "fewpass", "linear", "boosting", "ebm")
PACKAGES = ("numpy", "scikit-learn", "pandas")
#: Ours with what `ingest` is given more; and the sides of such a comparison.
FORMS = {
    "before": [], "fewpass": [], "linear-form": ["--encode", "linear"],
    "splines": ["--additive", "splines"], "additive": ["--additive"],
    "same-days": ["--test-fraction", "0.1"],
}  # fmt: skip
ADDITIVE_PART, PLAIN, DEFAULT = "additive", "linear-form", "fewpass"
ADDITIVE_SIDES = (PLAIN, "splines", "additive", "boosting")
TOLERATED = 0.003  # of R2 or log loss
FEWPASS = str(Path(sys.executable).with_name("fewpass"))
LAUNCH = Path(__file__).parent / "suite/launch.py"
SMALLEST = 1e-15  # a probability that counts as 0
CHECKOUTS: dict[str, str] = {}  # of sides that are not this one


def main() -> None:
    """Measure the tables that are asked for."""
    meta = json.loads(public_data("tables/meta.json").read_text(encoding="utf-8"))
    options = study_options(__doc__, meta)
    options.add_argument("--additive", action="store_true", help="compare forms of ours")
    options.add_argument("--sides", nargs="*", choices=(*FORMS, *SIDES[2:]))
    options.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    asked = options.parse_args()
    if asked.before:
        CHECKOUTS["before"] = str(asked.before)
    forms = ADDITIVE_PART, (DEFAULT, *ADDITIVE_SIDES)
    part, sides = forms if asked.additive else (PART, SIDES[1:4])
    found = measured(asked.sets, meta, asked.folder / "tables", asked.sides or sides)
    rows = recorded(asked.results, part, found, in_short)
    said = by_form(rows) if asked.additive else findings(rows)
    conclude(asked.results, part, said, PACKAGES)
    if asked.additive and not asked.sides:
        measure_small(asked)


def measured(
    names: list[str], meta: dict[str, Any], folder: Path, sides: Sequence[str] = SIDES[1:4]
) -> Iterator[Row]:
    """Yield a row per table: what each side came to."""
    for name in names:
        about, place = meta[name], folder / name
        place.mkdir(parents=True, exist_ok=True)
        train, test = unpacked(name, "train", place), unpacked(name, "test", place)
        row: Row = {"table": name, "kind": about["kind"], "rows": about["rows"]}
        for side in sides:
            row[side] = outcome(side, about, train, test, place)
        yield row | {"lam": chosen_lam(place / "run")}


def chosen_lam(run: Path) -> str | None:
    """Return the lam that the newest training of ours chose."""
    record = run / "run.json"
    origin = json.loads(record.read_text())["lam_origin"] if record.exists() else None
    return origin[0] if origin else None


def unpacked(name: str, half: str, place: Path) -> Path:
    """Write a table's half as a CSV file, once."""
    path = place / f"{half}.csv"
    if not path.exists():
        path.write_bytes(lzma.decompress(public_data(f"tables/{name}_{half}.csv.xz").read_bytes()))
    return path


def outcome(side: str, about: dict[str, Any], train: Path, test: Path, place: Path) -> Row:
    """Train one side, and evaluate what it predicts; where it fails, say by what."""
    out = place / f"{side}.csv"
    commands = own(about, train, test, out, FORMS[side]) if side in FORMS else [
        [*LIMITED, sys.executable, "-m", "benchmarks.table_peers", side, json.dumps(about),
         str(train), str(test), str(out)]
    ]  # fmt: skip
    launched = [sys.executable, str(LAUNCH), json.dumps(commands)]
    own_places = {"PYTHONPATH": CHECKOUTS[side]} if side in CHECKOUTS else {}
    places = os.environ | (own_places if side in FORMS else ONE_THREAD)
    done = subprocess.run(launched, capture_output=True, text=True, check=False, env=places)
    if done.returncode:
        return {"failed": ended_by(done.stderr)}
    took = json.loads(done.stdout)
    target = pd.read_csv(test)[about["label"]]
    figures = of_numbers if about["kind"] == "reg" else of_classes
    return figures(target, pd.read_csv(out)) | {"cpu": took["cpu_s"], "peak": took["peak_rss"]}


def own(
    about: dict[str, Any], train: Path, test: Path, out: Path, form: list[str]
) -> list[list[str]]:
    """Return the commands of ours."""
    data, run = str(out.with_name("data")), str(out.with_name("run"))
    words = [] if about["kind"] == "reg" else ["--probability"]
    return [
        ["rm", "-rf", data, run, str(out)],
        [FEWPASS, "ingest", str(train), data, "--label", about["label"], *form],
        [FEWPASS, "train", data, run, "--tol", "1e-3"],
        [FEWPASS, "predict", run, str(test), str(out), "--label", about["label"], *words],
    ]


def of_numbers(target: pd.Series, found: pd.DataFrame) -> Row:
    """Return R2 of predicted numbers."""
    return {"r2": float(r2_score(target, found.iloc[:, 0]))}


def of_classes(target: pd.Series, found: pd.DataFrame) -> Row:
    """Return error, log loss and, of two classes, AUC of the probabilities of classes."""
    sure, y = chances_of(found), target.astype(str).to_numpy()
    classes, each = sure.columns.to_numpy(), sure.to_numpy()
    figures = {
        "error": float(1.0 - accuracy_score(y, classes[each.argmax(axis=1)])),
        "log_loss": float(log_loss(y, each, labels=classes)),
    }
    if len(classes) == 2:
        figures["auc"] = float(roc_auc_score(y == classes[1], each[:, 1]))
    return figures


def chances_of(found: pd.DataFrame) -> pd.DataFrame:
    """Return the probabilities of classes, which are the columns, in their order."""
    ours = {
        name: name.removeprefix("probability_") for name in found if name.startswith("probability_")
    }
    chances = (found[list(ours)].rename(columns=ours) if ours else found).clip(SMALLEST, 1.0)
    return chances.div(chances.sum(axis=1), axis=0)[sorted(chances)]


def in_short(row: Row) -> str:
    """Say in a line what came of a table."""
    parts = []
    for side in (side for side in (*FORMS, *SIDES[2:]) if side in row):
        figures = row[side]
        each = (f"{name} {value:.4g}" for name, value in figures.items() if name != "peak") \
            if "failed" not in figures else [figures["failed"]]  # fmt: skip
        parts.append(f"{side}: {', '.join(each)}")
    return f"{row['table']}: " + "; ".join(parts)


def lost(row: Row, one: str = "fewpass", other: str = "linear") -> float:
    """Return how much worse one side is than another, relative: log loss, or 1 - R2."""
    sides = [row[side] for side in (one, other)]
    ours, theirs = (1.0 - side["r2"] if "r2" in side else side["log_loss"] for side in sides)
    return float(ours / theirs - 1.0)


def by_form(rows: list[Row]) -> list[str]:
    """Say on how many tables curves and pairs are better than ours without, and at what price.

    Then where the form that is chosen without being asked is worse than without by over .003.
    """
    both = measured_sides(rows, "additive", PLAIN)
    changes = {row["table"]: lost(row, "additive", PLAIN) for row in both}
    better, worse = (sum(sign * one < -0.01 for one in changes.values()) for sign in (1, -1))
    named = ", ".join(f"{name} {100 * one:+.0f} %" for name, one in changes.items() if one > 0.01)
    seconds = [sum(row[form]["cpu"] for row in both) for form in ("additive", PLAIN)]
    said = (
        f"Log loss, or 1 - R2, with curves and pairs in place of without: better by over 1 % on "
        f"{better} of {len(both)} tables, worse on {worse}{': ' + named if worse else ''}. "
        f"Seconds of the processor, all tables: {seconds[0]:.0f} and {seconds[1]:.0f}."
    )
    return [said, *by_default(rows)]


def by_default(rows: list[Row]) -> list[str]:
    """Say where the form that is chosen without being asked is worse than straight lines."""
    both = measured_sides(rows, DEFAULT, PLAIN)
    if not both:
        return []
    worse = {row["table"]: worse_by(row, DEFAULT, PLAIN) for row in both}
    over = ", ".join(f"{name} by {by:.4f}" for name, by in worse.items() if by > TOLERATED)
    said = (
        f"What `--encode auto` chooses is worse than straight lines by over {TOLERATED:g} of R2 or "
        f"log loss on {sum(by > TOLERATED for by in worse.values())} of {len(both)} tables"
        f"{': ' + over if over else ''}, and takes "
        f"{sum(row[DEFAULT]['cpu'] for row in both):.0f} s."
    )
    return [said]


def measured_sides(rows: list[Row], *sides: str) -> list[Row]:
    """Return the rows that have all of the sides, and none that failed."""
    return [row for row in rows if all("cpu" in row.get(side, {}) for side in sides)]


def worse_by(row: Row, one: str, other: str) -> float:
    """Return by how much R2 is lower, or the log loss higher, of one side than of another."""
    (name, ours), (_, theirs) = (figure_of(row[side]) for side in (one, other))
    return theirs - ours if name == "R2" else ours - theirs


def form_tables(rows: list[Row]) -> str:
    """Tabulate what straight lines, curves, chosen pairs and others came to."""
    head = ("table", "figure", "default", "straight lines", "curves", "`--additive`", "boosting",
            "EBM", "CPU s: default", "straight", "`--additive`", "boosting", "EBM")  # fmt: skip
    cells = []
    both = measured_sides(rows, PLAIN)
    for row in sorted(both, key=lambda row: (figure_of(row[PLAIN])[0], row["table"])):
        sides = [row.get(side, {}) for side in (DEFAULT, *ADDITIVE_SIDES, "ebm")]
        values = [f"{figure_of(side)[1]:.4f}" if "cpu" in side else "-" for side in sides]
        seconds = [f"{side['cpu']:.1f}" if "cpu" in side else "-" for side in sides]
        name = f"{row['table']}{' (later rows)' if row['table'] in LATER else ''}"
        cells.append([name, figure_of(row[PLAIN])[0], *values, *seconds[:2], *seconds[3:]])
    return table(head, cells, ("table", "figure"))


def figure_of(side: Row) -> tuple[str, float]:
    """Return what a side is evaluated by: R2 of numbers, else log loss."""
    return ("R2", side["r2"]) if "r2" in side else ("log loss", side["log_loss"])


def findings(rows: list[Row]) -> list[str]:
    """Say on how many tables ours is better, level and worse, where both sides were asked for."""
    rows = [row for row in rows if {"fewpass", "linear"} <= row.keys()]
    failed = [row["table"] for row in rows if "failed" in row["fewpass"]]
    ratios = {
        row["table"]: lost(row) for row in rows
        if not any("failed" in row[side] for side in ("fewpass", "linear"))
    }  # fmt: skip
    better, worse = (sum(sign * ratio < -0.01 for ratio in ratios.values()) for sign in (1, -1))
    worst = ", ".join(
        f"{name} {100 * ratio:+.0f} %" for name, ratio in ratios.items() if ratio > 0.01
    )
    level = len(ratios) - better - worse
    said = (
        f"Log loss, or 1 - R2, beside the careful pipeline: better by over 1 % on {better} tables, "
        f"within 1 % on {level}, worse on {worse}{': ' + worst if worst else ''}."
    )
    return [said] + [f"Refused: {', '.join(failed)}."] * bool(failed)


def figure(side: Row | None) -> str:
    """Write R2, or error and log loss, of two classes AUC, too, of a side."""
    if side is None:
        return "-"
    if "failed" in side:
        return "refused"
    if "r2" in side:
        return f"{side['r2']:.4f}"
    area = f", {side['auc']:.3f}" if "auc" in side else ""
    return f"{side['error']:.2%}, {side['log_loss']:.4f}{area}"


def tables(rows: list[Row]) -> str:
    """Tabulate what each side came to."""
    head = ("table", "rows", "before", "now", "lam", "careful pipeline", "1 % and more",
            "HistGradientBoosting",
            "CPU s: before", "now", "pipeline", "boosting", "peak")  # fmt: skip
    cells = []
    for row in sorted(rows, key=lambda row: row["table"]):
        ours, ratio = row["fewpass"], lost(row)
        verdict = "worse" if ratio > 0.01 else "better" if ratio < -0.01 else ""
        sides = (row.get("before"), ours, row["linear"], row.get("boosting"))
        seconds = [f"{side['cpu']:.1f}" if side and "cpu" in side else "-" for side in sides]
        cells.append([
            row["table"], f"{row['rows']:,}", figure(row.get("before")), figure(ours),
            row["lam"] or "-", figure(row["linear"]), verdict,
            figure(row.get("boosting")), *seconds, f"{ours['peak'] / 1e6:.0f} MB",
        ])  # fmt: skip
    return table(head, cells, ("table", "before", *head[3:8]))


if __name__ == "__main__":
    main()
