"""Certificates on real data: passes to a certified gap of 1e-6, and the true gap beside it.

    python -m benchmarks.certified

Trains every set named below, its rows scaled to unit length at ingest, with s2gd+ (with and without
subspace) and with s2gd until the certified gap is at most 1e-6 of max(1, objective), all else at
its defaults, and compares with a minimum that Newton's method found and its gradient proves.
Appends one JSON line per set, loss, lam and method to `--results`, and draws the figure of all.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.data_sets import STUDIES, Half, Study, in_memory, training_rows
from benchmarks.optimum import Aim, Linear, cached_optimum, objective
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.forecast import forecast
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.estimates.smoothness import smoothness
from fewpass.storage.dataset import Dataset
from testing.results import FIGURES, Row, conclude, recorded, study_options

NAMES = ("a9a", "w8a", "ijcnn1", "reuters", "imdb")
UNIT = tuple(dataclasses.replace(s, scale="unit-rows", name=f"{s.name}, unit rows")
             for s in STUDIES if s.name in NAMES)  # fmt: skip
RAW = next(study for study in STUDIES if study.name == "imdb")
LOSSES = ("logistic", "squared_hinge")
LAMS: tuple[float | str, ...] = ("1/n", 1e-4)
METHODS: dict[str, dict[str, Any]] = {
    "s2gd+": {"kind": "s2gd+"},
    "s2gd": {"kind": "s2gd"},
    "s2gd+, no subspace": {"kind": "s2gd+", "subspace": 0},
}
TOL = 1e-6
CAP = 3000  # passes
RAW_CAP = 400  # passes over raw rows
PRECISION = 1e-11  # of the minimum, relative


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
    """Train, and compare with the minimum of the very objective that was trained."""
    job = Planner(plan, dataset).job(plan.memory)
    assert plan.loss is not None
    aim = Aim(plan.loss, job.problem.lam, job.problem.lam_b)
    finish(plan.model_copy(update={"passes": 1}))  # compiles
    events, result, at = finish(plan)
    f = objective(at, rows, aim)
    course, best, reached = curve(events), None, None
    if lowest:
        best = objective(cached_optimum(dataset, rows, aim, folder, PRECISION), rows, aim)
        reached = next(p for p, g, _ in course if g - best <= TOL * max(1.0, g))
    return {
        "rows": dataset.n_rows,
        "features": dataset.n_features,
        "mean_length": job.stats.mean_square**0.5,
        "max_length": job.stats.max_square**0.5,
        "kappa": smoothness(job.problem, job.stats, job.stats.mean_square) / job.problem.lam,
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
        "true_passes": reached,
        "curve": course,
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
    told = [e.facts.metrics.get("rejected", 0) for e in events if e.kind == "span"]
    return int(max(told))


def curve(events: list[Event]) -> list[tuple[float, float, float]]:
    """Passes, objective and certificate after every gradient."""
    found = [e for e in events if e.kind == "certificate"]
    return [(e.cursor.passes, e.facts.objective, e.facts.gap) for e in found]


def line(row: Row) -> str:
    """One row for the screen."""
    excess = "" if row["excess"] is None else f"{row['excess']:.2e}"
    return (
        f"{row['set']:20} {row['loss']:13} {row['lam']!s:6} {row['method']:17}"
        f" kappa {row['kappa']:8.0f} passes {row['passes']:7.1f} s {row['seconds']:7.2f}"
        f" certified {row['relative']:.2e} true {excess:9} rejected {row['rejected']}"
    )


def main() -> None:
    """Measure, record and draw."""
    every = (*UNIT, RAW)
    options = study_options(__doc__, [study.name for study in every])
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    studies = [study for study in every if study.name in chosen.sets]
    measured = (row for study in studies for row in rows_of(study, chosen.folder))
    rows = recorded(chosen.results, "certified", measured, line)
    evaluated = [row for row in rows if row["excess"] is not None]
    conclude(
        chosen.results, "certified", findings(evaluated),
        ("numpy", "numba", "scipy"),
    )  # fmt: skip
    if studies == list(every):
        draw(FIGURES / "certified.png", [row for row in evaluated if row["lam"] == "1/n"])
    if any(row["excess"] > row["certificate"] for row in evaluated):
        sys.exit("On a row above the true gap is larger than the certificate.")


def findings(rows: list[Row]) -> list[str]:
    """Sentences on what was reached, how tight certificates are, and what the subspace brings."""
    late = [row for row in rows if row["relative"] > TOL]
    found = [f"{len(rows) - len(late)} of {len(rows)} trainings reach the certified gap."]
    found += [
        f"Not reached: {named(row)}: {row['relative']:.1e} after {row['passes']:.0f} passes."
        for row in late
    ]
    wrong = [row for row in rows if row["excess"] > row["certificate"]]
    found.append(f"The true gap is above the certificate on {len(wrong)} of {len(rows)}.")
    found += [f"Above it: {named(row)}." for row in wrong]
    ratios = [row["certificate"] / row["excess"] for row in rows if row["excess"] > 0.0]
    found.append(
        f"At the end the certificate is {min(ratios):.1f} to {max(ratios):.0f} times the true gap, "
        f"{statistics.median(ratios):.0f} times in the middle."
    )
    spent = statistics.fmean(row["true_passes"] / row["passes"] for row in rows)
    found.append(
        f"The true gap was at most 1e-6 after {spent:.0%} of the passes on average; the rest went "
        "into proving it."
    )
    ahead = [row["foreseen"] / row["passes"] for row in rows if row["method"] in ("s2gd+", "s2gd")]
    found.append(
        f"`fewpass train --plan` forecasts {min(ahead):.1f} to {max(ahead):.1f} times the passes "
        f"that s2gd+ and s2gd take, {statistics.geometric_mean(ahead):.2f} times on (geometric) "
        "average."
    )
    return found + [comparison(rows, other) for other in list(METHODS)[1:]]


def comparison(rows: list[Row], other: str) -> str:
    """Passes of one method over those of s2gd+, on the same problems."""
    passes = {(r["set"], r["loss"], r["lam"], r["method"]): r["passes"] for r in rows}
    ratios = [
        passes[*key, other] / taken
        for (*key, method), taken in passes.items() if method == "s2gd+" and (*key, other) in passes
    ]  # fmt: skip
    return (
        f"{other} takes {min(ratios):.2f} to {max(ratios):.2f} times the passes of s2gd+, "
        f"{statistics.geometric_mean(ratios):.2f} times on (geometric) average."
    )


def named(row: Row) -> str:
    """Name a row in a sentence."""
    return f"{row['set']}, {row['loss'].replace('_', ' ')}, lam {row['lam']}, {row['method']}"


def draw(path: Path, rows: list[Row]) -> None:
    """A panel per set and loss: certificate and true gap of s2gd+ and s2gd after every gradient."""
    import matplotlib as mpl  # only the page needs it

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["set"] for row in rows))
    losses = list(dict.fromkeys(row["loss"] for row in rows))
    figure, axes = plt.subplots(
        len(losses), len(names), figsize=(2.6 * len(names), 5.4), layout="constrained",
        sharey=True, squeeze=False,
    )  # fmt: skip
    for row in rows:
        place = axes[losses.index(row["loss"])][names.index(row["set"])]
        colour = {"s2gd+": "tab:blue", "s2gd": "tab:orange"}.get(row["method"], "tab:gray")
        passes = [p for p, _, _ in row["curve"]]
        place.semilogy(passes, [g for _, _, g in row["curve"]], color=colour, label=row["method"])
        true = [max(f - row["lowest"], 1e-13) for _, f, _ in row["curve"]]
        place.semilogy(passes, true, "--", color=colour, linewidth=1)
        place.set_title(f"{row['set'].partition(',')[0]}, {row['loss'].replace('_', ' ')}", size=9)
        place.grid(visible=True, linewidth=0.3)
    axes[0][0].legend(fontsize=8)
    for place in axes[-1]:
        place.set_xlabel("passes")
    axes[0][0].set_ylabel("gap")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
