"""Passes of `--solver auto` beside those of every single method, for docs/auto.md.

    python -m benchmarks.auto --results auto.jsonl

Trains every set and loss at lam = 1/n with each method, all at its defaults, until a relative gap
of 1e-6 is certified, and notes how often the rows were read until 1e-4 and 1e-6 were; what only
certifies is counted, too.  A method is given up after three times the passes of the best one before
it.  `auto` is asked for each tolerance by itself, as it chooses by it.  One JSON line per training
goes to `--results`; those that are there are not made again.  Prints the tables.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.data_sets import STUDIES, Study, training_rows
from benchmarks.forecasts import SETS
from benchmarks.results import Row, append, table, versions
from pipeline.streaming.in_process import InProcess
from pipeline.training.plan import TrainingPlan
from pipeline.training.training_run import TrainingRun
from storage.dataset import Dataset

KNOWN = ("a9a", "w8a", "ijcnn1", "reuters", "imdb, unit rows")  # the forecasts were made of these
OTHERS = ("mnist 9", "protein, standard", "keggundirected, standard")  # and of these not
METHODS = ("sdca", "s2gd+", "lbfgs", "newton", "sag+", "gd", "asgd")
TOLS = (1e-4, 1e-6)
CAP = 150  # passes
GIVE_UP = 3  # times the best
KEY = ("set", "loss", "method", "tol")
HEAD = ("set", "loss", *METHODS, "auto chose", "auto", "of the best")

Rows = dict[tuple[Any, ...], Row]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--results", type=Path, required=True)
    options.add_argument("--sets", nargs="*", default=KNOWN + OTHERS)
    options.add_argument("--methods", nargs="*", default=(*METHODS, "auto"))
    options.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass-real"
    )
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for name in chosen.sets:
        study = next(study for study in (*SETS, *STUDIES) if study.name == name)
        dataset = training_rows(study, chosen.folder)
        for loss in study.losses:
            for row in rows_of(study, dataset, loss, chosen):
                append(chosen.results, row)
                print(json.dumps(row), flush=True)
    rows = known_rows(chosen.results)
    for names in (KNOWN, OTHERS):
        print("\n" + tables(rows, names))
    print("\n" + versions("numpy", "numba"))


def rows_of(study: Study, dataset: Dataset, loss: str, chosen: argparse.Namespace) -> Iterator[Row]:
    """Measure what is not measured yet of one problem."""
    known = known_rows(chosen.results)
    best = CAP / GIVE_UP
    for method in chosen.methods:
        for tol in TOLS if method == "auto" else TOLS[-1:]:
            key = (study.name, loss, method, tol)
            row = known.get(key) or {
                **dict(zip(KEY, key, strict=True)),
                **trained(study, dataset, loss, method, tol, round(GIVE_UP * best)),
            }
            if key not in known:
                yield row
            if method != "auto" and row["passes"][-1] is not None:
                best = min(best, row["passes"][-1])


def known_rows(results: Path) -> Rows:
    """The newest result of each training."""
    lines = results.read_text().splitlines() if results.exists() else []
    rows = [json.loads(line) for line in lines]
    return {tuple(row[name] for name in KEY): row for row in rows}


def trained(study: Study, dataset: Dataset, loss: str, method: str, tol: float, cap: int) -> Row:
    """Train; passes until each tolerance that was certified."""
    plan = TrainingPlan(
        dataset=dataset.folder.url, solver={"kind": method}, loss=loss, tol=tol, passes=cap,
        positive=study.positive,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        training = TrainingRun.start(plan, f"{place}/run", InProcess())
        for _ in training:
            pass
        proven = list(readings(training.run.events(), dataset.manifest.n_rows))
        seconds, solver = training.result.seconds, training.result.solver
    found = [next((p for p, gap in proven if gap <= wanted), None) for wanted in TOLS]
    return {"passes": found, "solver": solver, "cap": cap, "seconds": seconds}


def readings(events: Iterator[dict[str, Any]], n: int) -> Iterator[tuple[float, float]]:
    """How often the rows had been read, and the relative gap, at each certificate."""
    rows = 0
    for event in events:
        if event["event"] in ("span", "gather"):
            rows += event["rows"]
        elif event["event"] == "certificate":
            yield rows / n, event["gap"] / max(1.0, abs(event["objective"]))


def tables(rows: Rows, names: tuple[str, ...]) -> str:
    """A table for each tolerance."""
    text = ("set", "loss", "auto chose")
    return "\n\n".join(
        f"To a certified {tol:g}:\n\n{table(HEAD, cells(rows, tol, names), text)}" for tol in TOLS
    )


def cells(rows: Rows, tol: float, names: tuple[str, ...]) -> list[list[str]]:
    """The lines of a table: where auto and at least one method came to the tolerance."""
    at, found = TOLS.index(tol), []
    for (name, loss, method, wanted), row in rows.items():
        if name not in names or method != "auto" or wanted != tol or not row["passes"][at]:
            continue
        singles = [rows.get((name, loss, single, TOLS[-1])) for single in METHODS]
        best = min((s["passes"][at] for s in singles if s and s["passes"][at]), default=None)
        if best:
            passes = row["passes"][at]
            own = [row["solver"], f"{passes:.0f}", f"{passes / best:.2f}"]
            counts = [shown(single, at) for single in singles]
            found.append([name, loss.replace("_", " "), *counts, *own])
    return sorted(found, key=lambda line: names.index(line[0]))


def shown(row: Row | None, at: int) -> str:
    """Passes of a method; "> cap" where it was given up."""
    if row is None:
        return ""
    return f"{row['passes'][at]:.0f}" if row["passes"][at] else f"> {row['cap']}"


if __name__ == "__main__":
    main()
