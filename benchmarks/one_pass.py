"""One pass by every method that has one: how far its model ends above the optimum, how it predicts.

    .venv-peers/bin/python -m benchmarks.one_pass
    .venv-peers/bin/python -m benchmarks.one_pass --sets reuters --orders 0

Ours are `onepass`, `onepass` without streaming Newton, and `asgd`, by their defaults; the peers are
in one_pass_peers.py.  All read the same rows in the same order once; a set is ingested once per
order, whose seed also picks the test rows where it has no test file.  The objective is
F(w, b) = mean loss + lam/2 ||w||^2, whose intercept costs nothing.  Where there is a test file, a
pass without a lam is made as well: it learns from nine tenths of the training rows, and chooses
lam by the last tenth.  Appends one JSON line per set, lam and order to `--results`; with no sets
(`--sets`) it tells what all lines there come to.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.data_sets import (
    MORE_STUDIES,
    STUDIES,
    Half,
    Study,
    converted,
    folder_of,
    in_memory,
    ingested,
)
from benchmarks.one_pass_findings import PATH, findings
from benchmarks.one_pass_peers import (
    PEERS,
    Learnt,
    VowpalWabbit,
    metrics_of,
    peers,
    river,
)
from benchmarks.optimum import Aim, Linear, cached_optimum, objective
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset
from testing.results import Row, as_json, conclude, recorded, rows_of_part, study_options

PART, KEY = "one-pass-peers", ("set", "lam", "order")
LAMS = ("1/n", "100/n")
ORDERS = (0, 1, 2)
OURS: dict[str, dict[str, Any]] = {
    "onepass": {"kind": "onepass"},
    "without newton": {"kind": "onepass", "newton_columns": 0},
    "asgd": {"kind": "asgd"},
}
CONTESTANTS = (*OURS, *PEERS)
SETS = (*STUDIES, *MORE_STUDIES)
HELD_OUT = 0.1  # of the training rows


def ours(dataset: Dataset, **settings: Any) -> tuple[Learnt, Row]:
    """One pass by defaults; the learner that it is from and its lam."""
    plan = TrainingPlan(dataset=dataset.folder.url, **settings)
    with tempfile.TemporaryDirectory() as place:
        run = TrainingRun.start(plan, f"{place}/run", InProcess())
        events = list(run)
        model = load_model(RunFolder(f"{place}/run"))
    heard = [event.facts.metrics for event in events if event.kind == "span"][-1]
    each = [one for event in events if event.kind == "learners" for one in event.facts.models]
    at = Linear(model.weights.coef, float(model.weights.intercept))
    learner = each[0]["learner"] if len(each) == 1 else None
    learnt = Learnt(at, heard["loss_sum"] / heard["n_monitored"])
    return learnt, {"learner": learner, "lam_n": model.lam * dataset.n_rows}


def train_and_test(study: Study, seed: int, folder: Path) -> tuple[Dataset, Dataset]:
    """Ingest nine tenths of the training rows to learn from, and one to choose by."""
    place = folder_of(study, f"{seed}-held-out", folder)
    ingest(
        IngestPlan(
            sources=(str(converted(study, folder)),), dataset=str(place / "train"),
            options=study.options, scale=study.scale, task=study.task, seed=seed,
            test_fraction=HELD_OUT, test_dataset=str(place / "test"),
        )
    )  # fmt: skip
    return Dataset.open(str(place / "train")), Dataset.open(str(place / "test"))


def chosen_by_held_out(study: Study, seed: int, folder: Path, test: Half, aim: Aim) -> Row:
    """One pass without a lam."""
    train, held_out = train_and_test(study, seed, folder)
    learnt, told = ours(train, held_out=held_out.folder.url, loss=aim.loss, positive=study.positive)
    return metrics_of(learnt.at, test, aim) | {"lam_n": told["lam_n"]}


def measured(study: Study, orders: Iterable[int], folder: Path) -> Iterator[Row]:
    """Measure one set: a row per order and lam."""
    loss = study.losses[0]
    for seed in orders:
        found = ingested(study, seed, folder)
        train, test = (in_memory(half, loss, study.positive) for half in found[:2])
        vw = VowpalWabbit(train, loss)
        of_river = river(train, loss) if seed == ORDERS[0] else None
        for lam in LAMS:
            aim = Aim(loss, Lam.of(lam).values(len(train.y))[0])
            best = cached_optimum(found.train, train, aim, folder)
            lowest = objective(best, train, aim)
            common = {"loss": loss, "lam": lam, "positive": study.positive}
            sides, told = {}, {}
            for name, solver in OURS.items():
                sides[name], told[name] = ours(found.train, solver=solver, **common)
            sides |= peers(train, aim, vw, of_river)
            yield {
                "set": study.name, "lam": lam, "order": seed, "loss": loss,
                "rows": len(train.y), "features": train.X.shape[1], "lowest": lowest,
                "learner": told["onepass"]["learner"], "optimum": metrics_of(best, test, aim),
                "methods": {
                    name: figures(side, train, test, aim, lowest) for name, side in sides.items()
                },
                PATH: chosen_by_held_out(study, seed, folder, test, aim)
                if study.test and lam == LAMS[0] else None,
            }  # fmt: skip
        vw.close()


def figures(side: Learnt | None, train: Half, test: Half, aim: Aim, lowest: float) -> Row | None:
    """Everything that is told of one model."""
    if side is None:
        return None
    excess = objective(side.at, train, aim) - lowest
    found = {"excess": excess, **metrics_of(side.at, test, aim), "progressive": side.progressive}
    return {name: None if value is None else as_json(value) for name, value in found.items()}


def line(row: Row) -> str:
    """One row for the screen."""
    each = [f"{name} {cell(row['methods'][name], 'excess')}" for name in CONTESTANTS]
    return f"{row['set']} {row['lam']} {row['order']}  {'  '.join(each)}  {row['learner']}"


def cell(of_method: Row | None, figure: str) -> str:
    """A number in three digits; a dash where there is none."""
    known = of_method is not None and of_method[figure] is not None
    return f"{of_method[figure]:.3g}" if of_method and known else "-"


def main() -> None:
    """Measure and record; what is found is found in all rows of the results."""
    options = study_options(__doc__, [study.name for study in SETS])
    options.add_argument("--orders", nargs="*", type=int, default=ORDERS)
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    studies = [study for study in SETS if study.name in chosen.sets]
    rows = (row for one in studies for row in measured(one, chosen.orders, chosen.folder))
    recorded(chosen.results, PART, rows, line)
    packages = ("numpy", "numba", "scikit-learn", "vowpalwabbit", "river")
    conclude(chosen.results, PART, findings(rows_of_part(chosen.results, PART, KEY)), packages)


if __name__ == "__main__":
    main()
