"""Passes of the default method on every public set as it lies, to a certified 1e-4 and 1e-6.

    python -m benchmarks.public_sets

Every set with the logistic loss, the squared hinge and the hinge, at lam = 1/n and 10/n, unscaled,
all else at its defaults, one seed: `fewpass train SET RUN --loss LOSS --lam LAM --tol 1e-6 --passes
100`.  A pass is n rows read, those that only certify included.  More than two classes: one against
the rest.  One JSON line per training goes to `--results`.  Runs stay in `--folder`: one that was
killed goes on from its newest snapshot, one that is there is told of again.  With no sets
(`--sets`) it tells what all lines there come to.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.auto import readings
from benchmarks.data_sets import MORE_STUDIES, PIXELS, STUDIES, Study, training_rows
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset
from testing.results import Row, conclude, recorded, rows_of_part, study_options

SETS = (
    *(
        study if study.scale == "none" else PIXELS
        for study in STUDIES
        if study.task == "classification"
    ),
    *MORE_STUDIES,
)
LOSS_NAMES = ("logistic", "squared_hinge", "hinge")
LAMS = ("1/n", "10/n")
ALLOWED = {1e-4: 50, 1e-6: 100}  # passes
KEY = ("set", "loss", "lam")


def main() -> None:
    """Measure and record."""
    options = study_options(__doc__, [study.name for study in SETS])
    options.add_argument("--losses", nargs="*", default=LOSS_NAMES)
    options.add_argument("--lams", nargs="*", default=LAMS)
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    recorded(chosen.results, "public-sets", measured(chosen), json.dumps)
    rows = rows_of_part(chosen.results, "public-sets", KEY)
    conclude(chosen.results, "public-sets", found(rows), ("numpy", "numba"))


def measured(chosen: argparse.Namespace) -> Iterator[Row]:
    """Measure every problem."""
    for study in SETS:
        if study.name not in chosen.sets:
            continue
        dataset = training_rows(study, chosen.folder)
        for lam in chosen.lams:
            for loss in chosen.losses:
                key = dict(zip(KEY, (study.name, loss, lam), strict=True))
                name = "-".join(key.values()).replace("/", "-of-").replace(" ", "-")
                yield key | trained(study, dataset, loss, lam, chosen.folder / "runs" / name)


def trained(study: Study, dataset: Dataset, loss: str, lam: str, at: Path) -> Row:
    """Train; passes until each tolerance that was certified, and what is certified in the end."""
    plan = TrainingPlan(
        dataset=dataset.folder.url, loss=loss, lam=lam, tol=min(ALLOWED),
        passes=max(ALLOWED.values()), positive=study.positive,
    )  # fmt: skip
    training = TrainingRun.start(plan, str(at), InProcess())
    for _ in training:
        pass
    proven, result = list(readings(training.run.events(), dataset.n_rows)), training.result
    return {
        "passes": [next((p for p, gap in proven if gap <= tol), None) for tol in ALLOWED],
        "relative": result.relative_gap, "solver": result.solver, "seconds": result.seconds,
        "rows": dataset.n_rows, "columns": dataset.n_features,
    }  # fmt: skip


def found(rows: list[Row]) -> list[str]:
    """Say how many are certified in how many passes, and which are not."""
    said = []
    for k, (tol, most) in enumerate(ALLOWED.items()):
        late = [row for row in rows if row["passes"][k] is None or row["passes"][k] > most + 1]
        names = "; ".join(", ".join(row[name] for name in KEY) for row in late)
        which = f" Not: {names}." if late else ""
        said.append(
            f"{tol:g} within {most} passes on {len(rows) - len(late)} of {len(rows)}.{which}"
        )
    return said


if __name__ == "__main__":
    main()
