"""Forecast and actual passes on real data.

    python -m benchmarks.forecasts

Trains every set, loss and lam to a certified relative gap (of --tol) of 1e-8 or for 200 passes, and
records the passes after which each tolerance was certified, and those that `fewpass train --plan`
forecasts for it, and how far all are from each other.  `--solver '{"kind": "sdca"}'` does so for
another method.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data_sets import STUDIES, Study, training_rows
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.forecast import forecast
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from testing.results import Row, conclude, recorded, study_options

RAW = ("phishing", "reuters", "ijcnn1", "a9a", "w8a")
SETS = (
    *(study for study in STUDIES if study.name in RAW),
    *(
        dataclasses.replace(study, name="imdb, unit rows", scale="unit-rows")
        for study in STUDIES
        if study.name == "imdb"
    ),
    *(study for study in STUDIES if study.name == "imdb"),
)
LAMS: tuple[float | str, ...] = ("1/n", 1e-4)
DIGITS = (2, 3, 4, 6, 8)
HARD = "imdb"  # its raw rows: one problem of four, and not as far


def compare(study: Study, loss: str, lam: float | str, solver: dict[str, Any], folder: Path) -> Row:
    """Forecast, then train; `passes` are forecast and actual ones, by the number of digits."""
    dataset = training_rows(study, folder)
    last, passes = (1e-6, 400) if study.name == HARD else (1e-8, 200)
    plan = TrainingPlan(
        dataset=dataset.folder.url, solver=solver,
        loss=loss, lam=lam, tol=last, passes=passes
    )  # fmt: skip
    job = Planner(plan, dataset).job(plan.memory)
    told = [
        forecast(plan.model_copy(update={"tol": 10.0**-digits}), job).usual_passes
        for digits in DIGITS
    ]
    with tempfile.TemporaryDirectory() as place:
        events = list(TrainingRun.start(plan, f"{place}/run", InProcess()))
    proven = [
        (e.cursor.passes, e.facts.gap / max(1.0, e.facts.objective))
        for e in events
        if e.kind == "certificate"
    ]
    found = [next((at for at, gap in proven if gap <= 10.0**-digits), None) for digits in DIGITS]
    known = forecast(plan, job)
    assert known.mean_smoothness is not None, "the losses here are smooth"
    return {
        "set": study.name, "loss": loss, "lam": lam, "solver": solver["kind"],
        "K": known.mean_smoothness / known.strong_convexity / known.n_rows,
        "passes": {str(d): pair for d, *pair in zip(DIGITS, told, found, strict=True)},
    }  # fmt: skip


def problems() -> Iterator[tuple[Study, str, float | str]]:
    """Every set with its losses and lams; of the hard one the first."""
    for study in SETS:
        if study.name == HARD:
            yield study, "logistic", "1/n"
            continue
        for loss in study.losses:
            for lam in LAMS:
                yield study, loss, lam


def line(row: Row) -> str:
    """One problem for the screen."""
    return f"{row['set']:16} {row['loss']:13} {row['lam']!s:6} K {row['K']:.2g} {row['passes']}"


def spread(rows: list[Row], kind: str) -> str:
    """Compare actual passes with forecast ones, from three digits on."""
    ratios = [
        found / told
        for row in rows
        for digits, (told, found) in row["passes"].items()
        if found is not None and int(digits) >= 3
    ]
    low, middle, high = np.percentile(ratios, [10, 50, 90])
    return (
        f"{kind}: actual over forecast, 1e-3 to 1e-8: median {middle:.2f}, from {min(ratios):.2f} "
        f"to {max(ratios):.2f}, eight of ten between {low:.2f} and {high:.2f} "
        f"({len(ratios)} pairs)."
    )


def main() -> None:
    """Measure and record."""
    options = study_options(__doc__, [study.name for study in SETS])
    options.add_argument("--solver", type=json.loads, default={"kind": "s2gd+"})
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    kind = chosen.solver["kind"]
    part = "forecasts" if chosen.solver == {"kind": "s2gd+"} else f"forecasts {kind}"
    measured = (
        compare(study, loss, lam, chosen.solver, chosen.folder)
        for study, loss, lam in problems() if study.name in chosen.sets
    )  # fmt: skip
    rows = recorded(chosen.results, part, measured, line)
    conclude(chosen.results, part, [spread(rows, kind)], ("numpy", "numba"))


if __name__ == "__main__":
    main()
