"""One pass by every method that has one: how far its model ends above the optimum.

    .venv-peers/bin/python -m benchmarks.one_pass
    python -m benchmarks.one_pass --sets a9a reuters        where Vowpal Wabbit is not installed

All read the same rows in the same order once: our `onepass` and `asgd`, Vowpal Wabbit by its
defaults and with a constant rate (`--power_t 0`), scikit-learn's averaged SGD by its defaults.  The
objective is F(w, b) = mean loss + lam/2 ||w||^2, whose intercept costs nothing.  Prints a line per
set and lam, then the table for the page; nothing is tuned.
"""

from __future__ import annotations

import re
import tempfile
import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.data_sets import STUDIES, Half, Study, in_memory, ingested
from benchmarks.optimum import Aim, Linear, cached_optimum, objective
from benchmarks.real_data import Trained, theirs
from pipeline.execution.threads import InProcess
from pipeline.runs.model import load_model
from pipeline.runs.run_folder import RunFolder
from pipeline.settings.regularisation import Lam
from pipeline.settings.training_plan import TrainingPlan
from pipeline.training.training_run import TrainingRun
from solvers.onepass.state import NAMES
from storage.dataset import Dataset
from testing.results import Row, recorded, study_options

LAMS = ("1/n", "100/n")
OURS: dict[str, dict[str, Any]] = {
    "onepass": {"kind": "onepass"},
    "without newton": {"kind": "onepass", "newton_columns": 0},
    "asgd": {"kind": "asgd"},
}
VW = {"vw": "", "vw --power_t 0": "--power_t 0"}
THEIRS = (*VW, "scikit-learn")
BITS = 22  # of Vowpal Wabbit's table of weights: more than columns, so that none share one
CONSTANT = 11650396 % (1 << BITS)  # where it keeps the intercept
ROUNDING = 1e-12  # of an excess
REPEATS = 3  # of a pass that is timed: the shortest counts


def ours(dataset: Dataset, method: str, aim: Aim, positive: str | None) -> tuple[Trained, str]:
    """One pass by defaults: the model, the seconds of its steps, and which learner it is from."""
    each = [one_of_ours(dataset, method, aim, positive) for _ in range(REPEATS)]
    return min(each, key=lambda found: found[0].seconds)


def one_of_ours(
    dataset: Dataset, method: str, aim: Aim, positive: str | None
) -> tuple[Trained, str]:
    """One such pass."""
    plan = TrainingPlan(
        dataset=dataset.folder.url, loss=aim.loss, lam=aim.lam, positive=positive,
        solver=OURS[method],
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        run = TrainingRun.start(plan, f"{place}/run", InProcess())
        events = list(run)
        model = load_model(RunFolder(f"{place}/run"))
        snapshot = RunFolder(f"{place}/run").snapshots.load(model.snapshot)
    seconds = sum(e.facts["step_s"] for e in events if e.kind == "span")
    restarts = sum(e.kind == "restart" for e in events)
    chosen = snapshot.attributes["streams"][0].get("chosen")
    at = Linear(model.weights.coef, float(model.weights.intercept))
    return Trained(at, seconds, restarts), "" if chosen is None else NAMES[chosen]


def vowpal_wabbit(rows: Half, aim: Aim, settings: str) -> Trained:
    """One pass of Vowpal Wabbit over the same rows; the weights as its readable model has them."""
    from vowpalwabbit import Workspace

    loss = "logistic" if aim.loss == "logistic" else "squared"
    with tempfile.TemporaryDirectory() as folder:
        text, model = Path(folder) / "rows.vw", Path(folder) / "model.txt"
        with text.open("w") as file:
            file.writelines(vw_lines(rows))
        began = time.perf_counter()
        Workspace(
            f"-d {text} --loss_function {loss} -b {BITS} {settings} --readable_model {model} "
            "--no_stdin --quiet"
        ).finish()
        seconds = time.perf_counter() - began
        found = re.findall(r"^(\d+):(\S+)", model.read_text(), re.MULTILINE)
    w, b = np.zeros(rows.X.shape[1]), 0.0
    for place, weight in ((int(place), float(weight)) for place, weight in found):
        if place == CONSTANT:
            b = weight
        else:
            w[place] = weight
    return Trained(Linear(w, b), seconds)


def vw_lines(rows: Half) -> Iterator[str]:
    """Write rows as Vowpal Wabbit wants them."""
    X = sparse.csr_matrix(rows.X)
    for i, target in enumerate(rows.y):
        own = slice(X.indptr[i], X.indptr[i + 1])
        pairs = zip(X.indices[own], X.data[own], strict=True)
        yield f"{target:.17g} | {' '.join(f'{j}:{x:.9g}' for j, x in pairs)}\n"


def rows_of(study: Study, folder: Path) -> Iterator[Row]:
    """Measure one set: a row per lam."""
    found = ingested(study, 0, folder)
    loss = study.losses[0]
    train, test = (in_memory(half, loss, study.positive) for half in found[:2])
    values = int(found.train.manifest.nnz)
    for lam in LAMS:
        aim = Aim(loss, Lam.of(lam).values(len(train.y))[0])
        best = cached_optimum(found.train, train, aim, folder)
        lowest = objective(best, train, aim)
        row: Row = {"set": study.name, "loss": loss, "lam": lam, "lowest": lowest}
        row |= {"rows": len(train.y), "features": train.X.shape[1]}
        row |= {"optimum, test": test_loss(best, test, aim)}
        sides: dict[str, Trained] = {}
        for method in OURS:
            sides[method], told = ours(found.train, method, aim, study.positive)
            row[f"{method}, ns"] = 1e9 * sides[method].seconds / values
            row[f"{method}, learner"] = told
        if find_spec("vowpalwabbit"):
            sides |= {name: vowpal_wabbit(train, aim, settings) for name, settings in VW.items()}
        sides["scikit-learn"] = theirs(train, aim, 0)
        for name, side in sides.items():
            row[name] = objective(side.at, train, aim) - lowest
            row[f"{name}, test"] = test_loss(side.at, test, aim)
        yield row


def test_loss(at: Linear, test: Half, aim: Aim) -> float:
    """Mean loss on the test rows."""
    return objective(at, test, aim._replace(lam=0.0))


def line(row: Row) -> str:
    """One row for the screen."""
    each = "  ".join(f"{name} {cell(row.get(name))}" for name in (*OURS, *THEIRS))
    times = " ".join(f"{row[f'{method}, ns']:.1f}" for method in OURS)
    return f"{row['set']:24} {row['lam']:6} {each}  ns {times}  {row['onepass, learner']}"


def cell(excess: float | None) -> str:
    """A number in three digits, 0 where it is rounding; a dash where the method was not there."""
    return "-" if excess is None else f"{0.0 if abs(excess) <= ROUNDING else excess:.3g}"


def table(rows: list[Row], figure: str) -> str:
    """A table for the page, of the excess ("") or the test loss (", test"); the least is bold."""
    names = [*OURS, *(name for name in THEIRS if f"{name}{figure}" in rows[0])]
    heads = ["set", "lam", *names, "of onepass, the learner" if not figure else "optimum"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        values = [row[f"{name}{figure}"] for name in names]
        least = min(value for value in values if np.isfinite(value))
        cells = [f"**{cell(v)}**" if v <= max(1.005 * least, ROUNDING) else cell(v) for v in values]
        last = cell(row["optimum, test"]) if figure else row["onepass, learner"]
        lines.append(f"| {row['set']} | {row['lam']} | {' | '.join(cells)} | {last} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    options = study_options(__doc__, [study.name for study in STUDIES])
    options.set_defaults(results=Path("/dev/null"))
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="sklearn")
    studies = [study for study in STUDIES if study.name in chosen.sets]
    measured: Iterator[dict[str, Any]] = (
        row for study in studies for row in rows_of(study, chosen.folder)
    )
    rows = recorded(chosen.results, "one-pass-methods", measured, line)
    print(table(rows, ""), table(rows, ", test"), sep="\n\n")


if __name__ == "__main__":
    main()
