"""One untuned pass over real data, ours against scikit-learn's, both against the optimum.

    python -m benchmarks.real_data --results real-data.jsonl --page docs/real-data.md
    python -m benchmarks.real_data --quick

Ingests each set once per seed (the seed decides the order of the rows and, where the set has no
test file, which fifth of them is the test set), trains `TrainingPlan(dataset, loss, lam)` and
scikit-learn's averaged SGD on the same stored numbers, and appends one JSON line per set, loss and
lam to `--results`. `--page` writes the table and the figure from all lines of that file, the newest
line of each row; with a bare `--sets` it measures nothing before. Data sets and optima are kept in
`--folder` for the next time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import SGDClassifier, SGDRegressor

from benchmarks.data_sets import STUDIES, Half, Study, Vector, in_memory, ingested
from benchmarks.optimum import Aim, Linear, cached_optimum, objective
from benchmarks.real_data_page import better_objective, write_page
from benchmarks.results import append, as_json, newest
from pipeline.streaming.in_process import InProcess
from pipeline.training.model import load_model
from pipeline.training.plan import TrainingPlan, regularisation
from pipeline.training.run_folder import RunFolder
from pipeline.training.training_run import TrainingRun
from storage.dataset import Dataset

SEEDS = (0, 1, 2)
LAMS: tuple[float | str, ...] = (1e-4, "1/n")
QUICK = ("phishing", "reuters")
KEY = ("set", "loss", "lam")
ORDER = [(study.name, loss, lam) for study in STUDIES for loss in study.losses for lam in LAMS]
FIGURES = ("objective", "excess", "error", "seconds")


class Outcome(NamedTuple):
    """What one training came to."""

    objective: float
    excess: float
    error: float  # share of test rows on the wrong side, or mean squared error
    seconds: float
    per_row: Vector  # (test rows,) what `error` is the mean of


class Trained(NamedTuple):
    """A model and what it took."""

    at: Linear
    seconds: float
    restarts: int = 0


def ours(dataset: Dataset, loss: str, lam: float | str, positive: str | None) -> Trained:
    """One pass with nothing but defaults; the seconds of its spans: read, check, decode, step."""
    plan = TrainingPlan(dataset=dataset.folder.url, loss=loss, lam=lam, positive=positive)
    with tempfile.TemporaryDirectory() as place:
        run = TrainingRun.start(plan, f"{place}/run", InProcess())
        events = list(run)
        weights = load_model(RunFolder(f"{place}/run")).weights
    seconds = sum(e.facts["seconds"] for e in events if e.kind == "span")
    restarts = sum(e.kind == "restart" for e in events)
    return Trained(Linear(weights.coef, weights.intercept), seconds, restarts)


def theirs(rows: Half, aim: Aim, seed: int) -> Trained:
    """Run scikit-learn's averaged SGD with its defaults; the seconds of `fit`."""
    loss, lam, _ = aim
    common: dict[str, Any] = {
        "average": True, "max_iter": 1, "tol": None, "random_state": seed
    }  # fmt: skip
    if loss == "squared":
        model: Any = SGDRegressor(alpha=lam, **common)
    elif loss == "squared_hinge":  # theirs lacks our 1/2
        model = SGDClassifier(loss="squared_hinge", alpha=2.0 * lam, **common)
    else:
        model = SGDClassifier(loss="log_loss", alpha=lam, **common)
    began = time.perf_counter()
    try:
        model.fit(rows.X, rows.y)
    except ValueError as error:  # weights that are not finite
        if "overflow" not in str(error):
            raise
        return Trained(Linear(np.full(rows.X.shape[1], np.nan), np.nan), np.nan)
    seconds = time.perf_counter() - began
    return Trained(Linear(model.coef_.ravel(), float(model.intercept_[0])), seconds)


def judged(trained: Trained, train: Half, test: Half, aim: Aim, lowest: float) -> Outcome:
    """Objective on the training rows, error on the test rows."""
    reached = objective(trained.at, train, aim)
    with np.errstate(over="ignore", invalid="ignore"):
        p = test.X @ trained.at.w + trained.at.b
        per_row = (p - test.y) ** 2 if aim.loss == "squared" else ((p > 0) != (test.y > 0)) * 1.0
        error = float(per_row.mean())
    return Outcome(reached, reached - lowest, error, trained.seconds, per_row)


def noise(left: list[Outcome], right: list[Outcome]) -> float | None:
    """Standard error of the difference of two test errors on the same rows, mean over seeds."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = [
            float((a.per_row - b.per_row).std()) / len(a.per_row) ** 0.5
            for a, b in zip(left, right, strict=True)
        ]
    return as_json(statistics.fmean(found))


def rows_of(study: Study, folder: Path) -> Iterator[dict[str, Any]]:
    """Measure one set: a row per loss and lam."""
    sets = [ingested(study, seed, folder) for seed in SEEDS]
    for loss in study.losses:
        halves = [
            tuple(in_memory(half, loss, study.positive) for half in found[:2]) for found in sets
        ]
        ours(sets[0].train, loss, 1e-4, study.positive)  # compiles
        for lam in LAMS:
            sides: dict[str, list[Outcome]] = {"ours": [], "sklearn": [], "optimum": []}
            restarts = 0
            for seed, found, (train, test) in zip(SEEDS, sets, halves, strict=True):
                aim = Aim(loss, regularisation(lam, len(train.y)))
                best = cached_optimum(found.train, train, aim, folder)
                mine = ours(found.train, loss, lam, study.positive)
                restarts += mine.restarts
                other = theirs(train, aim, seed)
                lowest = objective(best, train, aim)
                exact = Trained(best, 0.0)
                for side, trained in (("ours", mine), ("sklearn", other), ("optimum", exact)):
                    outcome = judged(trained, train, test, aim, lowest)
                    sides[side].append(outcome)
            yield {
                "set": study.name,
                "loss": loss,
                "lam": lam,
                "rows": sets[0].train.n_rows,
                "test_rows": sets[0].test.n_rows,
                "features": sets[0].train.n_features,
                "scale": study.scale,
                "ingest_seconds": statistics.median(s.seconds for s in sets),
                "restarts": restarts,
                "noise": noise(sides["ours"], sides["sklearn"]),
                **{side: summary(outcomes) for side, outcomes in sides.items()},
            }


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """Mean and worst of each figure over the seeds (median if one is not finite)."""
    found: dict[str, Any] = {}
    for figure in FIGURES:
        values = [getattr(o, figure) for o in outcomes]
        finite = bool(np.isfinite(values).all())
        middle = statistics.fmean(values) if finite else statistics.median(values)
        worst = max(values) if finite else float("nan")
        found[figure] = {
            "mean": as_json(middle), "worst": as_json(worst), "all": [as_json(v) for v in values]
        }  # fmt: skip
    return found


def main() -> None:
    """Measure, append, and write the page."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--results", type=Path, help="file to append a JSON line per row to")
    options.add_argument("--sets", nargs="*", help="some of: " + "; ".join(s.name for s in STUDIES))
    options.add_argument("--quick", action="store_true", help="two small sets; fails if we lose")
    options.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass-real"
    )
    options.add_argument("--page", type=Path, help="Markdown page to write from --results")
    chosen = options.parse_args()
    if chosen.page and not chosen.results:
        options.error("--page needs --results: the page is made from its lines.")
    wanted = QUICK if chosen.quick else chosen.sets
    chosen.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="sklearn")
    lost = False
    for study in STUDIES:
        if wanted is not None and study.name not in wanted:
            continue
        for row in rows_of(study, chosen.folder):
            print(line(row), flush=True)
            lost = lost or not better_objective(row)
            if chosen.results:
                append(chosen.results, row)
    if chosen.page:
        write_page(chosen.page, newest(chosen.results, KEY, ORDER))
    if chosen.quick and lost:
        sys.exit("On a row above our objective is higher than scikit-learn's.")


def line(row: dict[str, Any]) -> str:
    """One row for the screen."""

    def pair(figure: str, form: str) -> str:
        cells = []
        for side in ("ours", "sklearn"):
            for which in ("mean", "worst"):
                value = row[side][figure][which]
                cells.append("inf" if value is None else format(value, form))
        return f"{cells[0]} ({cells[1]}) / {cells[2]} ({cells[3]})"

    lowest = {figure: row["optimum"][figure]["mean"] for figure in ("objective", "error")}
    return (
        f"{row['set']:24} {row['loss']:13} {row['lam']!s:6} F* {lowest['objective']:.4f}"
        f" excess {pair('excess', '.1e'):40} error {pair('error', '.4f'):36}"
        f" at F* {lowest['error']:.4f} s {pair('seconds', '.2f')} restarts {row['restarts']}"
    )


if __name__ == "__main__":
    main()
