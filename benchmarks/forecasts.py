"""Passes foreseen and passes found, on real data, for docs/forecasts.md.

    python -m benchmarks.forecasts

Trains every set, loss and lam to a certified relative gap of 1e-8 or for 200 passes, and prints a
table of the passes after which each tolerance was certified beside those that `fewpass plan`
foresees for it, and how far all are from each other.  `--solver '{"kind": "sdca"}'` does so for
another method.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data_sets import STUDIES, Study, training_rows
from benchmarks.results import table
from pipeline.streaming.in_process import InProcess
from pipeline.training.forecast import forecast
from pipeline.training.job import make_job
from pipeline.training.plan import TrainingPlan
from pipeline.training.training_run import TrainingRun

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
HEAD = ("set", "loss", "lam", "K", *(f"1e-{digits}" for digits in DIGITS))


class Comparison(NamedTuple):
    """One problem."""

    names: tuple[str, str, str]
    K: float
    passes: list[tuple[float, float | None]]  # foreseen and found, per number of digits


def compare(
    study: Study, loss: str, lam: float | str, solver: dict[str, Any], folder: Path
) -> Comparison:
    """Foresee, then train."""
    dataset = training_rows(study, folder)
    last, passes = (1e-6, 400) if study.name == HARD else (1e-8, 200)
    plan = TrainingPlan(
        dataset=dataset.folder.url, solver=solver,
        loss=loss, lam=lam, tol=last, passes=passes
    )  # fmt: skip
    job = make_job(plan, dataset)
    told = [
        forecast(plan.model_copy(update={"tol": 10.0**-digits}), job).usual_passes
        for digits in DIGITS
    ]
    with tempfile.TemporaryDirectory() as place:
        events = list(TrainingRun.start(plan, f"{place}/run", InProcess()))
    proven = [
        (e.cursor.passes, e.facts["gap"] / max(1.0, e.facts["objective"]))
        for e in events
        if e.kind == "certificate"
    ]
    found = [next((at for at, gap in proven if gap <= 10.0**-digits), None) for digits in DIGITS]
    known = forecast(plan, job)
    K = known.mean_smoothness / known.strong_convexity / known.n_rows
    return Comparison(
        (study.name, loss.replace("_", " "), str(lam)), K, [*zip(told, found, strict=True)]
    )


def problems() -> Iterator[tuple[Study, str, float | str]]:
    """Every set with its losses and lams; of the hard one the first."""
    for study in SETS:
        if study.name == HARD:
            yield study, "logistic", "1/n"
            continue
        for loss in study.losses:
            for lam in LAMS:
                yield study, loss, lam


def cells(row: Comparison) -> list[str]:
    """A row of the table."""
    passes = [
        f"{told:.0f} / {'-' if found is None else f'{found:.0f}'}" for told, found in row.passes
    ]
    return [*row.names, f"{row.K:.2g}", *passes]


def spread(rows: list[Comparison]) -> str:
    """How far passes found are from those foreseen, from three digits on."""
    ratios = [
        found / told
        for row in rows
        for digits, (told, found) in zip(DIGITS, row.passes, strict=True)
        if found is not None and digits >= 3
    ]
    low, middle, high = np.percentile(ratios, [10, 50, 90])
    return (
        f"Found over foreseen, 1e-3 to 1e-8: median {middle:.2f}, from {min(ratios):.2f} to "
        f"{max(ratios):.2f}, eight of ten between {low:.2f} and {high:.2f} ({len(ratios)} pairs)."
    )


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--solver", type=json.loads, default={"kind": "s2gd+"})
    options.add_argument("--sets", nargs="*", default=[study.name for study in SETS])
    options.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass-real"
    )
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for study, loss, lam in problems():
        if study.name in chosen.sets:
            rows.append(compare(study, loss, lam, chosen.solver, chosen.folder))
            print(cells(rows[-1]), flush=True)
    print("\n" + table(HEAD, [cells(row) for row in rows], HEAD[:3]))
    print("\n" + spread(rows))


if __name__ == "__main__":
    main()
