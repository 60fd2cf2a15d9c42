"""Certificates on real data: passes to a certified gap of 1e-6, and the true gap beside it.

    python -m benchmarks.certified --results certified.jsonl --page docs/certified.md

Trains every set named below, its rows scaled to unit length at ingest, with s2gd+ (with and without
secants) and with s2gd until the certified gap is at most 1e-6 of max(1, objective), all else at its
defaults, and compares with a minimum that Newton's method found and its gradient proves.  One JSON
line per set, loss, lam and method goes to `--results`; `--page` writes the page from the newest
line of each.  With a bare `--sets` nothing is measured before.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.certified_page import TOL, write_page
from benchmarks.data_sets import STUDIES, Half, Study, in_memory, training_rows
from benchmarks.optimum import Aim, Linear, cached_optimum, objective
from benchmarks.results import Row, append, newest
from pipeline.streaming.in_process import InProcess
from pipeline.training.forecast import forecast
from pipeline.training.job import make_job
from pipeline.training.model import load_model
from pipeline.training.plan import TrainingPlan
from pipeline.training.run_folder import RunFolder
from pipeline.training.training_run import Event, TrainingRun
from solvers.smoothness import smoothness
from storage.dataset import Dataset

NAMES = ("a9a", "w8a", "ijcnn1", "reuters", "imdb")
UNIT = tuple(dataclasses.replace(s, scale="unit-rows", name=f"{s.name}, unit rows")
             for s in STUDIES if s.name in NAMES)  # fmt: skip
RAW = next(study for study in STUDIES if study.name == "imdb")
LOSSES = ("logistic", "squared_hinge")
LAMS: tuple[float | str, ...] = ("1/n", 1e-4)
METHODS: dict[str, dict[str, Any]] = {
    "s2gd+": {"kind": "s2gd+"},
    "s2gd": {"kind": "s2gd"},
    "s2gd+, no secants": {"kind": "s2gd+", "secants": 0},
}
CAP = 3000  # passes
RAW_CAP = 400  # passes over raw rows
PRECISION = 1e-11  # of the minimum, relative
KEY = ("set", "loss", "lam", "method")
ORDER = [
    (study.name, loss, lam, method)
    for study in (*UNIT, RAW) for loss in LOSSES for lam in LAMS for method in METHODS
]  # fmt: skip


def rows_of(study: Study, folder: Path) -> Iterator[Row]:
    """Measure one set: a row per loss, lam and method."""
    dataset = training_rows(study, folder)
    raw = study is RAW
    for loss in LOSSES[:1] if raw else LOSSES:
        rows = in_memory(dataset, loss, study.positive)
        for lam in LAMS[:1] if raw else LAMS:
            for method in ("s2gd+",) if raw else METHODS:
                plan = TrainingPlan(
                    dataset=dataset.folder.url, solver=METHODS[method], loss=loss, lam=lam,
                    tol=TOL, passes=RAW_CAP if raw else CAP,
                )  # fmt: skip
                yield {"set": study.name, "loss": loss, "lam": lam, "method": method} | trained(
                    plan, dataset, rows, folder, lowest=not raw
                )


def trained(plan: TrainingPlan, dataset: Dataset, rows: Half, folder: Path, *, lowest: bool) -> Row:
    """Train, and judge by the minimum of the very objective that was trained."""
    job = make_job(plan, dataset)
    assert plan.loss is not None
    aim = Aim(plan.loss, job.problem.lam, job.problem.lam_b)
    finish(plan.model_copy(update={"passes": 1}))  # compiles
    events, result, at = finish(plan)
    f = objective(at, rows, aim)
    best = None
    if lowest:
        best = objective(cached_optimum(dataset, rows, aim, folder, PRECISION), rows, aim)
    return {
        "rows": dataset.n_rows,
        "features": dataset.n_features,
        "mean_length": job.facts.mean_square**0.5,
        "max_length": job.facts.max_square**0.5,
        "kappa": smoothness(job.problem, job.facts, job.facts.mean_square) / job.problem.lam,
        "foreseen": forecast(plan, job).usual_passes,
        "theory": forecast(plan, job).theory_passes,
        "passes": result.passes,
        "seconds": result.seconds,
        "rejected": rejected(events),
        "objective": f,
        "certificate": result.certificate,
        "relative": result.certificate / max(1.0, f),
        "lowest": best,
        "excess": None if best is None else f - best,
        "curve": curve(events),
    }


def finish(plan: TrainingPlan) -> tuple[list[Event], Any, Linear]:
    """Train to the end, in this process."""
    with tempfile.TemporaryDirectory() as place:
        run = TrainingRun.start(plan, f"{place}/run", InProcess())
        events = list(run)
        weights = load_model(RunFolder(f"{place}/run")).weights
    return events, run.result, Linear(weights.coef, weights.intercept)


def rejected(events: list[Event]) -> int:
    """How many epochs were undone, as far as a walk after them told."""
    told = [e.facts["metrics"].get("rejected", 0) for e in events if e.kind == "span"]
    return int(max(told))


def curve(events: list[Event]) -> list[tuple[float, float, float]]:
    """Passes, objective and certificate after every gradient."""
    found = [e for e in events if e.kind == "certificate"]
    return [(e.cursor.passes, e.facts["objective"], e.facts["gap"]) for e in found]


def line(row: Row) -> str:
    """One row for the screen."""
    excess = "" if row["excess"] is None else f"{row['excess']:.2e}"
    return (
        f"{row['set']:20} {row['loss']:13} {row['lam']!s:6} {row['method']:17}"
        f" kappa {row['kappa']:8.0f} passes {row['passes']:7.1f} s {row['seconds']:7.2f}"
        f" certified {row['relative']:.2e} true {excess:9} rejected {row['rejected']}"
    )


def main() -> None:
    """Measure, append, and write the page."""
    names = [study.name for study in (*UNIT, RAW)]
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--results", type=Path, required=True, help="file of JSON lines")
    options.add_argument("--sets", nargs="*", default=names, help="some of: " + "; ".join(names))
    options.add_argument("--page", type=Path, help="Markdown page to write from --results")
    options.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass-real"
    )
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    broken = False
    for study in (*UNIT, RAW):
        if study.name not in chosen.sets:
            continue
        for row in rows_of(study, chosen.folder):
            print(line(row), flush=True)
            append(chosen.results, row)
            broken = broken or (row["excess"] or 0.0) > row["certificate"]
    if chosen.page:
        write_page(chosen.page, newest(chosen.results, KEY, ORDER))
    if broken:
        sys.exit("On a row above the true gap is larger than the certificate.")


if __name__ == "__main__":
    main()
