"""Figures 1 to 3 and Tables 3 to 5 of Konecny and Richtarik (2013), on data that we have.

    python -m benchmarks.papers.s2gd --results s2gd.jsonl [--sets ijcnn1 ...] [--theory] [--times]

Logistic regression with a regularised constant column and lam = 1/n, as in section 7.3.  Methods
are the project's own, run on rows in memory (no storage, no pipeline: a pass is a pass).  Steps
that the paper chose in hindsight are chosen so here, from the same kind of grid.  What is in
`--results` already is not run again; tables are printed, and a picture all of whose lines are
there is written to docs/figures.  `python -m benchmarks.papers.tables` makes the page's tables.
`--theory` makes Figure 1 and Table 3 (s2gd_theory.py).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.data_sets import STUDIES, Half, Study, in_memory, training_rows
from benchmarks.optimum import Aim, cached_optimum
from benchmarks.papers.curves import (
    FIGURES,
    Case,
    Curve,
    best,
    curve,
    draw,
    objective,
    say_missing,
)
from benchmarks.papers.s2gd_theory import figure_1, table_3
from fewpass.solvers.batch.gradient_descent import Gd
from fewpass.solvers.batch.lbfgs import Lbfgs
from fewpass.solvers.losses import Logistic, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Weights
from fewpass.solvers.s2gd.s2gd import S2gd, S2gdPlus, Svrg
from fewpass.solvers.sag import Sag, SagPlus
from fewpass.solvers.sgd.averaged_sgd import Sgd
from testing.blocks import block_of, stats_of
from testing.results import append

PASSES = 30
REPEATS = 3
UNIT = "unit-rows"
SETS = {"ijcnn1": "none", "reuters": "none", "a9a": "none", "w8a": "none", "imdb": UNIT}
CONSTANTS = "constants"  # in place of a method
PRECISION = 1e-17  # of the minimum, relative


class Smoothness(NamedTuple):
    """Constants of one set."""

    largest: float  # L of the paper: the largest of the rows'
    mean: float
    n: int


Settings = Callable[[Smoothness], dict[str, Any]]


def steps(make: Callable[[float], Any], shares: tuple[float, ...]) -> Settings:
    """The same method with several steps, given as shares of 1 over the mean L."""
    return lambda of: {f"1/({1 / share:g} L_mean)": make(share / of.mean) for share in shares}


HINDSIGHT = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
WIDER = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0)
ROUNDING = 1e-14  # below it f - f* is noise of a sum over the rows
#: Settings per method; of several the best in hindsight counts.
METHODS: dict[str, Settings] = {
    "SGD": steps(
        lambda h: Sgd(gamma0=h, c=0.0), (1 / 4096, 1 / 1024, 1 / 256, 1 / 64, 1 / 16, 1 / 4)
    ),
    "GD": lambda of: {"1/L_whole": Gd()},
    "L-BFGS": lambda of: {"line search": Lbfgs()},
    "SAG": steps(lambda h: Sag(step=h), WIDER),
    "SAG+": steps(lambda h: SagPlus(step=h), WIDER),
    "S2GDcon": lambda of: {"1/(10 L)": S2gd(step=0.1 / of.largest, subspace=0)},
    "S2GD": steps(lambda h: S2gd(step=h, subspace=0), HINDSIGHT),
    "SVRG": steps(lambda h: Svrg(step=h, subspace=0), HINDSIGHT),
    "S2GD+": steps(lambda h: S2gdPlus(step=h, subspace=0), HINDSIGHT),
    "s2gd+ as shipped": lambda of: {"1/(4 L_mean)": S2gdPlus()},
}
FIGURE_2 = ("SGD", "GD", "L-BFGS", "SAG", "S2GDcon", "SVRG", "S2GD")
FIGURE_3 = ("SAG", "SAG+", "S2GD", "S2GD+", "s2gd+ as shipped")
COLOURS = {
    "SGD": "tab:gray", "GD": "tab:olive", "L-BFGS": "tab:brown", "SAG": "tab:orange",
    "SAG+": "tab:red", "S2GDcon": "tab:cyan", "SVRG": "tab:green", "S2GD": "tab:blue",
    "S2GD+": "tab:purple", "s2gd+ as shipped": "black",
}  # fmt: skip


# -- problems --------------------------------------------------------------------------------------


def study_of(name: str) -> Study:
    """A set as it is used here."""
    study = next(s for s in STUDIES if s.name == name)
    scale = SETS[name]
    return dataclasses.replace(
        study, scale=scale, name=name if scale == "none" else f"{name}, unit rows"
    )


def case_of(name: str, folder: Path) -> tuple[Case, Smoothness]:
    """The set with a constant column, lam = 1/n, and its minimum."""
    study = study_of(name)
    dataset = training_rows(study, folder)
    rows = in_memory(dataset, "logistic", study.positive)
    lam = 1.0 / dataset.n_rows
    found = cached_optimum(dataset, rows, Aim("logistic", lam, lam_b=lam), folder, PRECISION)
    X = with_constant_column(rows)
    problem = Problem(Logistic(), L2(lam), intercept=0.0, lam_b=lam)
    case = Case(problem, stats_of(X, rows.y), block_of(X, rows.y), 0.0)
    lowest = objective(case, Weights(np.append(found.w, found.b), 0.0))
    squares = (case.stats.max_square, case.stats.mean_square)
    of = [problem.loss.curvature * square + lam for square in squares]
    return case._replace(lowest=lowest), Smoothness(*of, n=dataset.n_rows)


def with_constant_column(rows: Half) -> sparse.csr_matrix:
    """The paper's bias: a weight like any other."""
    return sparse.hstack([rows.X, np.ones((len(rows.y), 1))], format="csr")


# -- running ---------------------------------------------------------------------------------------


def measure(name: str, method: str, case: Case, of: Smoothness) -> dict[str, Any]:
    """Run a method with all its settings and keep the best curve."""
    solvers = METHODS[method](of)
    curve(case, next(iter(solvers.values())), 1.0)  # compiles
    curves = {label: curve(case, solver, PASSES) for label, solver in solvers.items()}
    label = best(curves, PASSES)
    return {
        "set": name, "method": method, "step": label, **curves[label]._asdict(),
        "reached": {key: finite(found.after(PASSES)) for key, found in curves.items()},
    }  # fmt: skip


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def known(results: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The newest line of every set and method."""
    lines = results.read_text().splitlines() if results.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(row["set"], row["method"]): row for row in rows}


def curves_of(rows: dict[tuple[str, str], Any], name: str, methods: tuple[str, ...]):
    """The curves of a panel."""
    return {
        method: Curve(*(rows[name, method][field] for field in Curve._fields))
        for method in methods if (name, method) in rows
    }  # fmt: skip


# -- tables ----------------------------------------------------------------------------------------


def constants(name: str, case: Case, of: Smoothness) -> dict[str, Any]:
    """What Table 4 tells of a set."""
    return {
        "set": name, "method": CONSTANTS, "n": of.n, "d": case.stats.d, "L": of.largest,
        "mean L": of.mean, "kappa": of.largest / case.problem.lam,
    }  # fmt: skip


def print_table_5(rows: dict[tuple[str, str], Any], name: str, folder: Path) -> None:
    """Seconds of every method with its best step: the least of several runs."""
    case, of = case_of(name, folder)
    for method, settings in METHODS.items():
        if (name, method) not in rows:
            continue
        solver = settings(of)[rows[name, method]["step"]]
        seconds = min(curve(case, solver, PASSES).seconds for _ in range(REPEATS))
        print(f"| {name} | {method} | {seconds:.2f} |")


def print_reached(rows: dict[tuple[str, str], Any], names: list[str]) -> None:
    """f - f* after some passes, and the step."""
    for name in names:
        print(f"\n| {name} | step | 5 | 10 | 20 | 30 |\n|---|---|---:|---:|---:|---:|")
        for method in METHODS:
            if (name, method) not in rows:
                continue
            found = curves_of(rows, name, (method,))[method]
            cells = [shown(found.after(p)) for p in (5, 10, 20, 30)]
            step = rows[name, method]["step"]
            print(f"| {method} | {step} | {' | '.join(cells)} |")


def shown(excess: float) -> str:
    return f"{excess:.1e}" if excess >= ROUNDING else "< 1e-14"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--results", type=Path, required=True, help="file of JSON lines")
    options.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    options.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    options.add_argument("--times", action="store_true", help="Table 5, too")
    options.add_argument("--theory", action="store_true", help="Figure 1 and Table 3, too")
    options.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass-real"
    )
    chosen = options.parse_args()
    if chosen.theory:
        table_3()
        figure_1()
    for name in chosen.sets:
        missing = [
            m for m in (CONSTANTS, *chosen.methods) if (name, m) not in known(chosen.results)
        ]
        if not missing:
            continue
        case, of = case_of(name, chosen.folder)
        if CONSTANTS in missing:
            append(chosen.results, constants(name, case, of))
            missing.remove(CONSTANTS)
        for method in missing:
            append(chosen.results, measure(name, method, case, of))
    rows = known(chosen.results)
    print_reached(rows, chosen.sets)
    for name in chosen.sets if chosen.times else ():
        print_table_5(rows, name, chosen.folder)
    for number, methods in ((2, FIGURE_2), (3, FIGURE_3)):
        picture = f"s2gd-{number}.png"
        if missing := [f"{m} on {name}" for name in SETS for m in methods if (name, m) not in rows]:
            say_missing(picture, missing)
            continue
        panels = {name: curves_of(rows, name, methods) for name in SETS}
        draw(FIGURES / picture, panels, COLOURS, PASSES)


if __name__ == "__main__":
    main()
