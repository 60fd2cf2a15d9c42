"""Passes of `--solver auto` beside those of every single method.

    python -m benchmarks.auto

Trains every set and loss at lam = 1/n with each method, all at its defaults, until a gap of 1e-6 of
max(1, F) is certified, and notes how often the rows were read until 1e-4 and 1e-6 were; what only
certifies is counted, too.  A method is given up after three times the passes of the best one before
it.  `auto` is asked for each tolerance by itself, as it chooses by it.  Every training is made
twice, and the lesser CPU time of the two is kept: the first one compiles.  One JSON line per
training goes to `--results`; those that are there are not made again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.data_sets import STUDIES, Study, training_rows
from benchmarks.forecasts import SETS
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset
from testing.results import Row, conclude, recorded, study_options

KNOWN = ("a9a", "w8a", "ijcnn1", "reuters", "imdb, unit rows")  # the forecasts were made of these
OTHERS = ("mnist 9", "protein, standard", "keggundirected, standard")  # and of these not
METHODS = ("psdca", "sdca", "s2gd+", "lbfgs", "newton", "sag+", "gd", "asgd")
TOLS = (1e-4, 1e-6)
CAP = 150  # passes
GIVE_UP = 3  # times the best
KEY = ("set", "loss", "method", "tol")

Rows = dict[tuple[Any, ...], Row]


def main() -> None:
    """Measure and record."""
    options = study_options(__doc__, KNOWN + OTHERS)
    options.add_argument("--methods", nargs="*", default=(*METHODS, "auto"))
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    recorded(chosen.results, "auto", measured(chosen), json.dumps)
    rows = known_rows(chosen.results)
    fell = sum(", then " in row["solver"] for row in rows.values())
    found = [f"`auto` fell back on another method in {fell} of these trainings."]
    conclude(chosen.results, "auto", found, ("numpy", "numba"))


def measured(chosen: argparse.Namespace) -> Iterator[Row]:
    """Measure what is not measured yet."""
    for name in chosen.sets:
        study = next(study for study in (*SETS, *STUDIES) if study.name == name)
        dataset = training_rows(study, chosen.folder)
        for loss in study.losses:
            yield from rows_of(study, dataset, loss, chosen)


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
    return {
        tuple(row[name] for name in KEY): row
        for row in rows if row.get("part") == "auto" and "about" not in row
    }  # fmt: skip


def trained(study: Study, dataset: Dataset, loss: str, method: str, tol: float, cap: int) -> Row:
    """Train; passes until each tolerance that was certified."""
    plan = TrainingPlan(
        dataset=dataset.folder.url, solver={"kind": method}, loss=loss, tol=tol, passes=cap,
        lam="1/n", positive=study.positive,
    )  # fmt: skip
    cpu = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as place:
            began = time.process_time()
            training = TrainingRun.start(plan, f"{place}/run", InProcess())
            for _ in training:
                pass
            cpu.append(time.process_time() - began)
            proven = list(readings(training.run.events(), dataset.manifest.n_rows))
            result = training.result
    found = [next((p for p, gap in proven if gap <= wanted), None) for wanted in TOLS]
    return {
        "passes": found, "solver": result.solver, "cap": cap, "seconds": result.seconds,
        "cpu": min(cpu),
    }  # fmt: skip


def readings(events: Iterator[dict[str, Any]], n: int) -> Iterator[tuple[float, float]]:
    """How often the rows had been read, and the gap over max(1, F), at each certificate."""
    rows = 0
    for event in events:
        if event["event"] in ("span", "reduce"):
            rows += event["rows"]
        elif event["event"] == "certificate":
            yield rows / n, event["gap"] / max(1.0, abs(event["objective"]))


if __name__ == "__main__":
    main()
