"""Passes to the default tolerance at the lam that is chosen, on every public set.

    python -m benchmarks.default_tolerance

Every set as it lies, and the training half of every table as `ingest` encodes it, with the loss
that suits it and all else at its defaults: `fewpass train SET RUN --tol 1e-3 --passes 50`. lam is
chosen, the tolerance is relative to the objective. No certificate may be false: the same problem is
trained again to 1e-5, from zeros, and what that comes to must not be below the bound that the first
proved. One JSON line per set goes to `--results`; the CPU seconds are of the training and its
choice of lam.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.data_sets import (
    MORE_STUDIES,
    STUDIES,
    Study,
    public_data,
    regression,
    training_rows,
)
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset
from testing.results import Row, conclude, recorded, rows_of_part, study_options

TWEETS = Study("tweets", "tweets/tweets.train.svm.xz", "tweets/tweets.test.svm.xz")
SETS = (
    *(study for study in STUDIES if not study.name.endswith(", raw")),
    *MORE_STUDIES, TWEETS, regression("bike", "standard"),
)  # fmt: skip
TOL, MOST, CLOSER = 1e-3, 50, 1e-5
MUCH_LONGER = 500  # passes
KINDS = {"reg": "regression", "bin": "classification", "multi": "classification"}


def tables() -> Iterator[Study]:
    """Yield the tables as sets."""
    folder = public_data("tables")
    for name, about in json.loads((folder / "meta.json").read_text()).items():
        yield Study(
            f"table {name}", f"tables/{name}_train.csv.xz", task=KINDS[about["kind"]],
            options={"label": about["label"]}, scale="auto",
        )  # fmt: skip


def main() -> None:
    """Measure and record; fails where a tolerance was missed or a certificate is false."""
    every = {study.name: study for study in (*SETS, *tables())}
    chosen = study_options(__doc__, every).parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    measured = (row_of(every[name], chosen.folder) for name in chosen.sets)
    recorded(chosen.results, "default-tolerance", measured, json.dumps)
    rows = rows_of_part(chosen.results, "default-tolerance", ("set",))
    conclude(chosen.results, "default-tolerance", found(rows), ("numpy", "numba"))
    if missed(rows) or false(rows):
        sys.exit("Not every set came to its tolerance, or a certificate is false.")


def row_of(study: Study, folder: Path) -> Row:
    """Train twice on one set."""
    dataset = training_rows(study, folder)
    settings: dict[str, Any] = {"positive": study.positive, "dataset": dataset.folder.url}
    if study.task == "regression":
        settings["loss"] = "squared"
    first = trained(dataset, TrainingPlan(**settings, tol=TOL, passes=MOST))
    again = TrainingPlan(**settings, lam=first["lam"], tol=CLOSER, passes=MUCH_LONGER)
    second = trained(dataset, again)
    return {
        "set": study.name, "rows": dataset.n_rows, "columns": dataset.n_features, **first,
        "below": first["objective"] - first["gap"] - second["objective"],
    }  # fmt: skip


def trained(dataset: Dataset, plan: TrainingPlan) -> Row:
    """Train once."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as place:
        training = TrainingRun.start(plan, f"{place}/run", InProcess())
        for _ in training:
            pass
        result = training.result
    return {
        "loss": result.loss, "solver": result.solver, "lam": result.lam,
        "lam_n": result.lam * dataset.n_rows, "passes": result.passes,
        "relative": result.relative_gap, "objective": result.objective, "gap": result.certificate,
        "reached": result.converged, "cpu": time.process_time() - began,
    }  # fmt: skip


def missed(rows: list[Row]) -> list[str]:
    """Return the sets whose tolerance was missed."""
    return [row["set"] for row in rows if not row["reached"]]


def false(rows: list[Row]) -> list[str]:
    """Return the sets where an objective below the proven bound was reached."""
    return [row["set"] for row in rows if row["below"] > 1e-9 * max(1.0, abs(row["objective"]))]


def found(rows: list[Row]) -> list[str]:
    """Say on how many sets the tolerance is reached, and whether all that is certified is true."""
    late, wrong = missed(rows), false(rows)
    which = f" Not: {', '.join(late)}." if late else ""
    came = f"{len(rows) - len(late)} of {len(rows)}"
    return [
        f"{TOL:g} of the objective within {MOST} passes on {came}.{which}",
        f"False certificates: {', '.join(wrong) or 'none'}.",
    ]


if __name__ == "__main__":
    main()
