"""Passes to a certified gap on rows of very different length, as they are.

    python -m benchmarks.raw_data

Every set and loss at lam = 1/n and 10/n, from zero, until a relative gap of 1e-2, 1e-4 and 1e-6 is
certified, at most 100 passes.  Rows lie in memory in one random order, in 64 chunks; every pass
deals them into 8 windows anew and permutes the rows of each.  A pass is n rows visited, gradients
too.  The intercept is a constant column of 1, charged like a weight.  One JSON line per training
goes to `--results`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import STUDIES, Half, in_memory, training_rows
from solvers.batch.newton import Newton
from solvers.drive import Orders, block_of, stats_of, sweeps
from solvers.dual.psdca import Psdca
from solvers.dual.sdca import Sdca
from solvers.losses import LOSSES, Problem
from solvers.protocol import ProblemStats, Solver
from solvers.s2gd.s2gd import S2gdPlus
from testing.results import Row, conclude, recorded, study_options
from testing.synthetic import word_counts

COUNTS = "word counts"
RAW = (COUNTS, "imdb", "w8a", "a9a", "mnist 9")
CONTROL = ("reuters",)  # rows of unit length
PIXELS = dataclasses.replace(
    next(study for study in STUDIES if study.name == "mnist 9"), name="mnist 9, raw", scale="none"
)
LOSS_NAMES = ("logistic", "squared_hinge")
METHODS: dict[str, Solver] = {"psdca": Psdca(), "sdca": Sdca(), "s2gd+": S2gdPlus()}
FEW_COLUMNS: dict[str, Solver] = {"newton": Newton()}
TOLS = (1e-2, 1e-4, 1e-6)
CAP = 100  # passes
CHUNKS, WINDOWS = 64, 8
KEY = ("set", "loss", "lam", "method")


def main() -> None:
    """Measure and record."""
    options = study_options(__doc__, RAW + CONTROL)  # and "mnist 9, raw"
    options.add_argument("--methods", nargs="*", default=list(METHODS))
    options.add_argument("--lams", nargs="*", type=float, default=[1.0, 10.0], help="times 1/n")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    rows = recorded(chosen.results, "raw-data", measured(chosen), json.dumps)
    conclude(chosen.results, "raw-data", found(rows), ("numpy", "numba"))


def measured(chosen: argparse.Namespace) -> Iterator[Row]:
    """Measure every method on every problem."""
    for name in chosen.sets:
        rows = rows_of(name, chosen)
        X, y = shuffled(rows, chosen.seed)
        stats = stats_of(X, y, chosen.seed)
        for times in chosen.lams:
            for loss in LOSS_NAMES:
                lam = times / stats.n
                problem = Problem(LOSSES[loss](), lam, 1.0, lam)
                for method in chosen.methods:
                    yield {
                        **dict(zip(KEY, (name, loss, f"{times:g}/n", method), strict=True)),
                        "K": LOSSES[loss].curvature * stats.mean_square / times,
                        "max_over_mean": stats.max_square / stats.mean_square,
                        **trained((METHODS | FEW_COLUMNS)[method], problem, stats, X, y),
                    }


def rows_of(name: str, chosen: argparse.Namespace) -> Half:
    """Return a set's rows, one class against the rest."""
    if name == COUNTS:
        X, label = word_counts()
        return Half(X, np.where(label == 0.0, 1.0, -1.0))
    study = next(study for study in (*STUDIES, PIXELS) if study.name == name)
    return in_memory(training_rows(study, chosen.folder), "logistic", study.positive)


def shuffled(rows: Half, seed: int) -> Half:
    """Return rows in one random order."""
    order = np.random.default_rng(seed).permutation(len(rows.y))
    return Half(rows.X[order], rows.y[order])


def dealt(n: int, seed: int) -> Orders:
    """Every turn deals the chunks into windows anew and permutes the rows of each."""
    chunks = np.array_split(np.arange(n), CHUNKS)

    def order(sweep: int, turn: int) -> NDArray[np.int64]:
        rng = np.random.default_rng([seed, sweep, turn])
        windows = np.array_split(rng.permutation(CHUNKS), WINDOWS)
        return np.concatenate(
            [rng.permutation(np.concatenate([chunks[k] for k in window])) for window in windows]
        )

    return order


def trained(
    method: Solver, problem: Problem, stats: ProblemStats, X: object, y: NDArray[np.float64]
) -> Row:
    """Train; passes until each tolerance that was certified, and the last relative gap."""
    left, passes, relative = list(TOLS), [], np.inf
    for after in sweeps(method, problem, stats, block_of(X, y), dealt(stats.n, stats.seed)):
        if after.passes > CAP + 1e-9:
            break
        certified = method.certificate(after.state)
        relative = certified.relative if certified else np.inf
        while left and relative <= left[0]:
            passes.append(round(after.passes))
            left.pop(0)
        if not left:
            break
    return {"passes": passes + [None] * len(left), "relative": relative}


def found(rows: list[Row]) -> list[str]:
    """Say where psdca is not the first."""
    best: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in rows:
        problem = row["set"], row["loss"], row["lam"]
        best.setdefault(problem, {})[row["method"]] = [p or np.inf for p in row["passes"]]
    said = []
    for k, tol in enumerate(TOLS):
        cells = [
            (p["psdca"][k], min(v[k] for v in p.values()))
            for p in best.values()
            if "psdca" in p and np.isfinite(min(v[k] for v in p.values()))
        ]
        first = sum(own <= least for own, least in cells)
        said.append(f"To {tol:g} psdca is first or level on {first} of {len(cells)}.")
    return said


if __name__ == "__main__":
    main()
