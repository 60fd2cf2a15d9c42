"""Passes of psdca and newton to a certified gap for Poisson and gamma losses, on bike.

    python -m benchmarks.counts

Columns divided by their root mean square; counts are round(exp(1.2 y + 3)) of the set's y, and the
targets of the gamma loss one more.  Gaps are relative to max(1, F).
"""

from __future__ import annotations

import gzip

import numpy as np
from sklearn.linear_model import GammaRegressor, PoissonRegressor

from benchmarks.data_sets import public_data
from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.drive import sweeps
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from testing.dual_runs import Run, data
from testing.oracles import block, dense_rows

TOLERANCES = (1e-2, 1e-4, 1e-6)
THEIRS = {"poisson": PoissonRegressor, "gamma": GammaRegressor}
MOST = 60


def bike() -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(public_data("regression/bike.data.csv.gz"), "rt") as file:
        raw = np.loadtxt(file, delimiter=",")
    X = raw[:, :-1] / np.sqrt((raw[:, :-1] ** 2).mean(axis=0))
    return X, np.round(np.exp(1.2 * raw[:, -1] + 3.0))


def reached(gaps: list[tuple[float, float]]) -> str:
    """Write the passes after which each tolerance was certified."""
    firsts = [next((k for k, gap in gaps if gap <= tol), None) for tol in TOLERANCES]
    return ", ".join("-" if k is None else f"{k:.0f}" for k in firsts)


def main() -> None:
    X, counts = bike()
    n = len(counts)
    for loss, y in (("poisson", counts), ("gamma", counts + 1.0)):
        for lam in (1.0 / n, 1e-3, 1e-2, 0.1):
            kind, of = LOSSES[loss](), data(X, y)
            of = of._replace(stats=of.stats._replace(target_mean=y.mean()))
            problem = Problem(kind, L2(lam), 1.0, lam / 100, float(kind.best_constant(y.mean())))
            run, dual = Run(Psdca(), problem, of, 1), []
            for k in range(MOST):
                if certified := run.one_pass().solver.certificate(run.state):
                    dual.append((k, certified.relative))
                    if certified.relative <= TOLERANCES[-1]:
                        break
            newton, rows = [], block(dense_rows(X), y, np.ones(n))
            for moment in sweeps(Newton(), problem, of.stats, rows):
                newton.append((moment.passes, Newton().certificate(moment.state).relative))
                if newton[-1][1] <= 1e-12 or moment.passes > MOST:
                    break
            w = Newton().weights(moment.state).coef
            theirs = THEIRS[loss](alpha=lam, solver="newton-cholesky", tol=1e-10).fit(X, y)
            apart = np.abs(theirs.coef_ - w).max()
            print(
                f"{loss} lam = {lam:.2g}: psdca {reached(dual)}; newton {reached(newton)}; "
                f"weights {apart:.1e} from scikit-learn's"
            )


if __name__ == "__main__":
    main()
