"""One untuned pass over real data, ours against scikit-learn's, both against the optimum.

    python -m benchmarks.real_data
    python -m benchmarks.real_data --quick

Ingests each set once per seed (the seed decides the order of the rows and, where the set has no
test file, which fifth of them is the test set), trains `TrainingPlan(dataset, loss, lam)` and
scikit-learn's averaged SGD on the same stored numbers, appends one JSON line per set, loss and lam
to `--results`, and draws the figure of all rows there; with no sets (`--sets`) it tells what all
of them come to.  `--quick` records nothing.
"""

from __future__ import annotations

import os
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
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset
from testing.results import (
    EVIDENCE,
    FIGURES,
    Row,
    as_json,
    conclude,
    recorded,
    rows_of_part,
    study_options,
)

SEEDS = (0, 1, 2)
LAMS: tuple[float | str, ...] = (1e-4, "1/n")
QUICK = ("phishing", "reuters")
TOLD = ("objective", "excess", "error", "seconds")


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
    seconds = sum(e.facts.seconds for e in events if e.kind == "span")
    restarts = sum(e.kind == "restart" for e in events)
    return Trained(Linear(weights.coef, weights.intercept), seconds, restarts)


def theirs(rows: Half, aim: Aim, seed: int, **settings: Any) -> Trained:
    """Run scikit-learn's averaged SGD, by its defaults but for `settings`; the seconds of `fit`."""
    loss, lam, _ = aim
    common: dict[str, Any] = {
        "average": True, "max_iter": 1, "tol": None, "random_state": seed, **settings
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


def evaluated(trained: Trained, train: Half, test: Half, aim: Aim, lowest: float) -> Outcome:
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
                aim = Aim(loss, Lam.of(lam).values(len(train.y))[0])
                best = cached_optimum(found.train, train, aim, folder)
                mine = ours(found.train, loss, lam, study.positive)
                restarts += mine.restarts
                other = theirs(train, aim, seed)
                lowest = objective(best, train, aim)
                exact = Trained(best, 0.0)
                for side, trained in (("ours", mine), ("sklearn", other), ("optimum", exact)):
                    outcome = evaluated(trained, train, test, aim, lowest)
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
    for figure in TOLD:
        values = [getattr(o, figure) for o in outcomes]
        finite = bool(np.isfinite(values).all())
        middle = statistics.fmean(values) if finite else statistics.median(values)
        worst = max(values) if finite else float("nan")
        found[figure] = {
            "mean": as_json(middle), "worst": as_json(worst), "all": [as_json(v) for v in values]
        }  # fmt: skip
    return found


def main() -> None:
    """Measure, record and draw."""
    options = study_options(__doc__, [study.name for study in STUDIES])
    options.add_argument("--quick", action="store_true", help="two small sets; fails if we lose")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.sets, chosen.results = QUICK, Path(os.devnull)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="sklearn")
    studies = [study for study in STUDIES if study.name in chosen.sets]
    measured = (row for study in studies for row in rows_of(study, chosen.folder))
    rows = recorded(chosen.results, "one-pass", measured, line)
    if chosen.quick:
        if not all(map(better_objective, rows)):
            sys.exit("On a row above our objective is higher than scikit-learn's.")
        return
    rows = rows_of_part(chosen.results, "one-pass", ("set", "loss", "lam"))
    conclude(chosen.results, "one-pass", findings(rows), ("numpy", "numba", "scikit-learn"))
    if chosen.results == EVIDENCE:
        draw(FIGURES / "real-data-excess.png", rows)


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


def better_objective(row: Row) -> bool:
    """Whether our mean objective is at most theirs; one that is not finite is the worst."""
    mine, other = (row[side]["excess"]["mean"] for side in ("ours", "sklearn"))
    return mine is not None and (other is None or mine <= other)


def error_verdict(row: Row) -> str:
    """Lower, equal within two standard errors, or higher: our test error against theirs."""
    mine, other = (row[side]["error"]["mean"] for side in ("ours", "sklearn"))
    if row["noise"] is None or other is None:
        return "lower"
    if abs(mine - other) <= 2.0 * row["noise"]:
        return "equal"
    return "lower" if mine < other else "higher"


def findings(rows: list[Row]) -> list[str]:
    """Sentences on where ours is better, equal or worse."""
    good = [row for row in rows if better_objective(row)]
    found = [f"Objective: ours is at most scikit-learn's on {len(good)} of {len(rows)} rows."]
    found += [f"Objective higher: {named(row)}." for row in rows if row not in good]
    verdicts = [error_verdict(row) for row in rows]
    count = {verdict: verdicts.count(verdict) for verdict in ("lower", "equal", "higher")}
    found.append(
        f"Test error: ours is lower on {count['lower']} rows, equal within two standard errors "
        f"of the difference on {count['equal']}, higher on {count['higher']}."
    )
    for row, verdict in zip(rows, verdicts, strict=True):
        if verdict == "higher":
            mine, other, best = (
                row[side]["error"]["mean"] for side in ("ours", "sklearn", "optimum")
            )
            found.append(
                f"Test error higher: {named(row)}: {mine:.4f} against {other:.4f}; "
                f"the exact minimum of F has {best:.4f}."
            )
    return found


def named(row: Row) -> str:
    """Name a row in a sentence."""
    return f"{row['set']}, {row['loss'].replace('_', ' ')}, lam {row['lam']}"


def draw(path: Path, rows: list[Row]) -> None:
    """Dots of both sides' excess, one line per row; what is beyond an edge lies on it."""
    import matplotlib as mpl  # only the page needs it

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    least, edge = 1e-8, 1e2  # the optimum is known no better than that
    figure, axes = plt.subplots(figsize=(7.5, 0.22 * len(rows) + 1.2), layout="constrained")
    for side, colour, label in (
        ("ours", "tab:blue", "fewpass"), ("sklearn", "tab:orange", "scikit-learn")
    ):  # fmt: skip
        means = [row[side]["excess"]["mean"] for row in rows]
        places = [edge if value is None else min(max(value, least), edge) for value in means]
        axes.scatter(places, range(len(rows)), color=colour, s=18, label=label, zorder=3)
    names = [f"{r['set']} · {r['loss'].replace('_', ' ')} · {r['lam']}" for r in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    for side_edge in (least, edge):
        axes.axvline(side_edge, color="grey", linewidth=0.6)
    axes.set_xlabel("F - F* after one pass (at 1e-8: that or less; at 1e2: that or more)")
    axes.grid(axis="both", linewidth=0.3)
    axes.legend(loc="upper right", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
