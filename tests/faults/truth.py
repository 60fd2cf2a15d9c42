"""The optimum of small problems, found without fewpass: what a certificate must agree with."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from fewpass.solvers.losses import Problem
from testing import oracles
from tests.faults.subjects import ROWS, SEED, Bits, Subject

#: How far two ways to sum the same numbers may be apart, and how exactly optima are found.
ROUNDING, FOUND = 1e-9, 1e-8

SPARSE = {"d": 12, "layout": "sparse", "nnz": 4}
TABLES: dict[str, dict[str, Any]] = {
    "sparse": SPARSE, "chunks": SPARSE, "evaluated": SPARSE, "dense": {"d": 6},
    "classes": {"d": 6, "classes": 3},
}  # fmt: skip


class Optimum(NamedTuple):
    """The least objective lies between these."""

    lowest: float
    highest: float


def rows(data: str) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d) and the codes of the labels (n,) as they were made, not as stored."""
    from testing.datasets import random_table

    told = TABLES[data]
    table = random_table(ROWS, seed=SEED, **told)
    if "layout" not in told:
        return table.X.astype(float), table.target
    X = np.zeros((ROWS, told["d"]))
    np.put_along_axis(X, table.indices.reshape(ROWS, -1), table.data.reshape(ROWS, -1), axis=1)
    return X, table.target


@cache
def optimum(data: str, loss: str, lam: float, label: int, level: float) -> Optimum:
    """Return where the optimum of one model lies; `label` counts as +1."""
    X, codes = rows(data)
    y = np.where(codes == label, 1.0, -1.0)
    problem = oracles.problem_of(loss, lam, "free")._replace(level=level)
    if loss != "hinge":
        least = oracles.optimum(loss, problem, X, y, np.ones(len(y)))
        return Optimum(least - FOUND, least + FOUND)
    return _of_the_hinge(problem, X, y)


def _of_the_hinge(problem: Problem, X: np.ndarray, y: np.ndarray) -> Optimum:
    """Solve the dual with bounds: it is below the optimum, the weights it gives are above."""
    n, stretch = len(y), problem.lam / problem.lam_b
    Z = np.column_stack([X, np.full(n, stretch**0.5)]) * y[:, None]

    def loss(a: np.ndarray) -> tuple[float, np.ndarray]:
        v = Z.T @ a / (problem.lam * n)
        return 0.5 * problem.lam * v @ v - a.mean(), (Z @ v - 1.0) / n

    found = minimize(loss, np.full(n, 0.5), jac=True, method="L-BFGS-B", bounds=[(0, 1)] * n,
                     options={"maxiter": 50_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 1e-13})  # fmt: skip
    v = Z.T @ found.x / (problem.lam * n)
    above = np.maximum(0.0, 1.0 - Z @ v).mean() + 0.5 * problem.lam * v @ v
    return Optimum(-found.fun - FOUND, above + FOUND)


def disagreement(subject: Subject, at: Path, bits: Bits) -> str | None:
    """Say where a finished training's certificate is false; None when it is true.

    The objective is computed anew from the weights in the newest snapshot, and its distance to the
    independent optimum compared with what was certified.
    """
    run = json.loads((at / "run" / "run.json").read_text())
    plan, snapshot = run["plan"], _newest(at / "run")
    weights, told = snapshot.arrays["coef"], snapshot.attributes
    loss = plan["loss"] or "logistic"
    lam = told["choice"]["lam"] if told.get("choice") else _lam(plan["lam"])
    X, codes = rows(subject.data)
    labels = range(len(weights)) if weights.ndim == 2 else (1,)
    intercepts = np.ravel(told["intercept"])
    levels = np.broadcast_to(run["level"], len(labels)).tolist()
    objectives, gaps, lowest = [], [], []
    each = zip(labels, np.atleast_2d(weights), intercepts, levels, strict=True)
    for label, coef, b, level in each:
        problem = oracles.problem_of(loss, lam, "free")._replace(level=level)
        y = np.where(codes == label, 1.0, -1.0)
        objectives.append(oracles.objective(loss, problem, X, y, np.ones(ROWS), coef, b)[0])
        best = optimum(subject.data, loss, lam, label, level)
        lowest.append(objectives[-1] - best.lowest)
        gaps.append(objectives[-1] - best.highest)
    objective = float(np.mean(objectives))
    if abs(objective - bits["objective"]) > ROUNDING:
        return f"the objective is said to be {bits['objective']!r} and is {objective!r}"
    if max(gaps) > bits["certificate"] + ROUNDING:
        return f"the gap is certified to be {bits['certificate']:.3g} and is {max(gaps):.3g}"
    if min(lowest) < -ROUNDING:
        return f"the objective {objective!r} is below the optimum"
    return None


def _newest(run: Path) -> Any:
    from fewpass.storage.folder import Folder
    from fewpass.storage.snapshot import SnapshotStore

    newest, _ = SnapshotStore(Folder(str(run / "snapshots"))).latest()
    assert newest is not None, "the run has finished"
    return newest


def _lam(lam: float | str) -> float:
    head, share, _ = str(lam).partition("/")
    return float(head) / ROWS if share else float(head)
