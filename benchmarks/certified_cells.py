"""Every loss with every penalty by the methods that take both, on real data: what is certified.

    python -m benchmarks.certified_cells [--sets LOSS ...]

Rows are in memory and in random order, and every method has its own defaults: until it certifies
1e-4 of the objective, 40 passes are over, or 20 CPU seconds, compiling not counted.  Methods of one
pass certify nothing, and are not here.

- labels: a9a; numbers: bike, columns divided by their root mean square, counts of mean 52 for the
  losses with a log link; classes: 10,000 rows of mnist.
- group_lasso: churn and ames, encoded; a column's features are a group.
- lam: 1/n; with sizes in the penalty a tenth of the least at which all weights are 0.
"""

from __future__ import annotations

import io
import lzma
import time
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_svmlight_file
from threadpoolctl import threadpool_limits

from benchmarks.counts import bike
from benchmarks.data_sets import public_data
from benchmarks.multinomial import rows_of
from fewpass import TableEncoder
from fewpass.pipeline.planning.largest_lam import best_intercept
from fewpass.solvers.drive import sweeps
from fewpass.solvers.losses import Problem, slope
from fewpass.solvers.losses.constant_prediction import best_constants
from fewpass.solvers.multi_model import appraisal
from fewpass.solvers.needs import able_methods
from fewpass.solvers.penalties import strength
from fewpass.solvers.registry import (
    L1_RATIOS,
    LOSSES,
    PENALTIES,
    SECOND_ORDER,
    fit_for,
    loss_class,
    method_class,
    penalty_class,
)
from fewpass.storage.column_schema import groups_of
from testing.blocks import block_of, stats_of
from testing.results import Row, conclude, recorded, study_options

PART = "cells"
METHODS = ("newton", "psdca", "sdca", "lbfgs", "s2gd+")
TOL, MOST_PASSES, MOST_SECONDS = 1e-4, 40, 20.0
SHARE = 0.1  # of the least lam at which all weights are 0


class CellRows(NamedTuple):
    """Rows in memory."""

    name: str
    X: Any
    y: np.ndarray  # (n,)
    groups: Any = None  # (d,)


def main() -> None:
    """Measure the losses that are asked for."""
    asked = study_options(__doc__, LOSSES).parse_args()
    with threadpool_limits(1):
        rows = recorded(asked.results, PART, measured(asked.sets), in_short)
    conclude(asked.results, PART, findings(rows), ("numpy", "numba", "scikit-learn"))


def measured(losses: list[str]) -> Iterator[Row]:
    """Yield a row per loss, penalty and method."""
    for loss in losses:
        for penalty in PENALTIES:
            able = able_methods(loss, penalty)
            if not able:
                continue
            rows = rows_for(loss, penalty)
            for method in METHODS:
                if method in able and not (loss_class(loss).is_wide and method == SECOND_ORDER):
                    yield cell(loss, penalty, method, rows)


@cache
def rows_for(loss: str, penalty: str) -> CellRows:
    """Return the rows that a cell is measured on."""
    kind: Any = loss_class(loss)
    if kind.is_wide:
        rows = rows_of("mnist", 10_000)
        return CellRows("mnist, 10,000 rows", rows.X, rows.y.astype(float))
    if not penalty_class(penalty).by_column:
        return (
            encoded("ames", "Sale_Price", 1e-5) if kind.takes_numbers else encoded("churn", "churn")
        )
    if not kind.takes_numbers:
        with lzma.open(public_data("a9a/a9a.xz")) as file:
            X, y = load_svmlight_file(file, n_features=123)
        return CellRows("a9a", *mixed(X, y))
    X, counts = bike()
    targets = {"poisson": counts, "gamma": counts + 1.0}
    return CellRows("bike", *mixed(X, targets.get(loss, np.log1p(counts))))


def encoded(name: str, label: str, unit: float = 1.0) -> CellRows:
    """Return a table's training rows as features, and the group of each."""
    table = pd.read_csv(
        io.BytesIO(lzma.decompress(public_data(f"tables/{name}_train.csv.xz").read_bytes()))
    )
    y = table.pop(label)
    numbers = (
        y.to_numpy(float) * unit if unit != 1.0 else np.where(y == sorted(set(y))[1], 1.0, -1.0)
    )
    encoder = TableEncoder()
    X = encoder.fit_transform(table)
    return CellRows(name, *mixed(X, numbers), groups_of(X.shape[1], encoder.recipe_.groups))


def mixed(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return rows in random order."""
    order = np.random.default_rng(1).permutation(len(y))
    return X[order], np.ascontiguousarray(y[order], float)


def cell(loss: str, penalty: str, word: str, rows: CellRows) -> Row:
    """Train until the tolerance, and tell what is certified."""
    kind: Any = loss_class(loss)
    made = kind(len(set(rows.y))) if kind.is_wide else kind()
    block, known = block_of(rows.X, rows.y), stats_of(rows.X, rows.y)
    problem = problem_for(made, penalty, rows)
    known = known._replace(target_mean=float(rows.y.mean()))
    kind = method_class(word)
    method = fit_for(
        kind(**kind.better.get(loss, {})), made.width, smooth=problem.penalty.is_smooth
    )
    next(sweeps(method, problem, known, block))  # compiles
    began, passes, found, end = time.process_time(), 0.0, None, None
    for moment in sweeps(method, problem, known, block):
        end, passes = moment.state, moment.passes
        found = method.certificate(end)
        spent = time.process_time() - began
        done = found is not None and found.relative <= TOL
        if done or passes >= MOST_PASSES or spent > MOST_SECONDS:
            break
    if found is None:
        what, point, prove, _ = appraisal(method)
        at = point(end)
        found = prove(problem, at, what.add(problem, at, block, what.zero(at)))
    weights = method.weights(end).coef
    return {
        "loss": loss, "penalty": penalty, "method": word, "set": rows.name,
        "lam": problem.penalty.total, "passes": passes, "gap": found.relative,
        "cpu_s": spent, "not_zero": int(np.count_nonzero(weights)), "of": weights.size,
    }  # fmt: skip


def problem_for(loss: Any, penalty: str, rows: CellRows) -> Problem:
    """Return the problem of a cell, with lam as the module says."""
    n, ratio = len(rows.y), L1_RATIOS[penalty]
    up = 0.0
    if loss.has_level and loss.width == 1:
        (up,) = best_constants(loss, rows.y, np.ones((1, n)), intercept=True).scores
    made = penalty_class(penalty).of(1.0, ratio).with_groups(rows.groups)
    lam = 1.0 / n
    if not made.is_smooth:
        ones = np.ones(n)
        b = best_intercept(loss, rows.y, ones)
        G = rows.X.T @ slope(loss, np.full(n, b), rows.y) / n
        lam = SHARE * float(made.slopes(np.asarray(G).ravel()).max()) / ratio
    charge = made.at(lam)
    squares = float(strength(charge))
    lam_b = squares / 100 if squares else 1e-6 * loss.rate(float(np.mean(rows.y)))
    return Problem(loss, charge, 1.0, lam_b, up)


def in_short(row: Row) -> str:
    """Say a cell in a line."""
    return (
        f"{row['loss']} {row['penalty']} {row['method']} ({row['set']}): {row['passes']:.1f} "
        f"passes, gap {row['gap']:.1e}, {row['cpu_s']:.2f} s, "
        f"{row['not_zero']} of {row['of']} not 0"
    )


def findings(rows: list[Row]) -> list[str]:
    """Say how many cells of many passes arrived."""
    there = sum(row["gap"] <= TOL for row in rows)
    return [f"{there} of {len(rows)} cells are certified to 1e-4 within 40 passes."]


if __name__ == "__main__":
    main()
