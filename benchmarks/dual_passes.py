"""Passes of SDCA to a certified gap, over max(1, F), on real data, against LIBLINEAR's objective.

    python -m benchmarks.dual_passes [--sets SET ...] [--most 300] [--folder FOLDER]

Ingested, stored and trained as `fewpass` does it, without an intercept; the pass that certifies is
counted.  Rows of unit length at lam = 1/n and 1e-4, and rows as they are at lam = max ||x||^2 / n.
LIBLINEAR runs on the same rows, to its own tolerance of 1e-6 or 1000 iterations, and knows no
smoothed hinge.  Exits with 1 where its objective is below ours by more than the gap.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from benchmarks.data_sets import STUDIES, Half, Study, in_memory, training_rows
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset
from testing.oracles import phi

NAMES = ("a9a", "w8a", "ijcnn1", "reuters", "imdb")
RAW = ("a9a", "w8a")
TOLERANCES = {"hinge": 1e-4, "smoothed_hinge": 1e-6, "logistic": 1e-6}


def study_of(name: str, scale: str) -> Study:
    return dataclasses.replace(
        next(study for study in STUDIES if study.name == name),
        scale=scale, name=name if scale == "none" else f"{name}, unit rows",
    )  # fmt: skip


def ascend(plan: TrainingPlan, tol: float) -> tuple[float, float, float]:
    """Return passes, objective and gap once the gap is at most tol times the objective."""
    found = (0.0, np.nan, np.inf)
    with tempfile.TemporaryDirectory() as place:
        for event in TrainingRun.start(plan, f"{place}/run", InProcess()):
            if event.kind == "certificate":
                found = (event.cursor.passes, event.facts.objective, event.facts.gap)
                if found[2] <= tol * found[1]:
                    break
    return found


def liblinear(rows: Half, loss: str, lam: float) -> float | None:
    """Return the objective that LIBLINEAR comes to."""
    settings = {
        "C": 1.0 / (lam * len(rows.y)),
        "fit_intercept": False,
        "tol": 1e-6,
        "max_iter": 1000,
    }
    if loss == "hinge":
        peer = LinearSVC(loss="hinge", **settings)
    elif loss == "logistic":
        peer = LogisticRegression(solver="liblinear", **settings)
    else:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        w = peer.fit(rows.X, rows.y).coef_[0]
    return float(phi(loss, rows.X @ w, rows.y)[0].mean() + 0.5 * lam * w @ w)


def row(
    name: str, told: str, lam: float, loss: str, dataset: Dataset, rows: Half, most: int
) -> bool:
    """Print a line and say whether LIBLINEAR agrees."""
    plan = TrainingPlan(
        dataset=dataset.folder.url, solver={"kind": "sdca"}, loss=loss, lam=lam,
        intercept="none", passes=most, tol=1e-15,
    )  # fmt: skip
    began = time.perf_counter()
    passes, objective, gap = ascend(plan, TOLERANCES[loss])
    seconds = time.perf_counter() - began
    theirs = liblinear(rows, loss, lam)
    excess = "-" if theirs is None else f"{theirs - objective:.1e}"
    print(
        f"| {name} | {told} | {loss.replace('_', ' ')} | {passes:.0f} | {objective:.7f} |"
        f" {gap:.1e} | {excess} | {seconds:.1f} |",
        flush=True,
    )
    return theirs is None or theirs - objective >= -gap


def main() -> None:
    """Print a line per data set, loss and lam."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--sets", nargs="*", choices=NAMES, default=NAMES)
    options.add_argument("--most", type=int, default=300)
    options.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass-real"
    )
    chosen, agreed = options.parse_args(), []
    print("| data | lam | loss | passes | objective | gap | LIBLINEAR's above it | seconds |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for name in chosen.sets:
        for scale in ("unit-rows", "none") if name in RAW else ("unit-rows",):
            dataset = training_rows(study_of(name, scale), chosen.folder)
            rows, n = in_memory(dataset, "logistic", None), dataset.n_rows
            square = dataset.manifest.norms.max_square
            lams = {"R^2/n": square / n} if scale == "none" else {"1/n": 1 / n, "1e-4": 1e-4}
            called = name if scale == "unit-rows" else f"{name}, raw"
            agreed += [
                row(called, told, lam, loss, dataset, rows, chosen.most)
                for told, lam in lams.items() for loss in TOLERANCES
            ]  # fmt: skip
    if not all(agreed):
        sys.exit("LIBLINEAR came lower by more than a gap allows.")


if __name__ == "__main__":
    main()
