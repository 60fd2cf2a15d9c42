"""CPU seconds to a logistic model with l1 in memory: Newton on a working set beside celer.

    python -m benchmarks.l1_peers [--sets SET ...] [--shares .1 .01] [--folder FOLDER]

Without an intercept, which celer does not have; l1 as a share of the smallest at which all weights
are 0.  celer, skglm (coordinate descent on columns) and LIBLINEAR (`-s 6`) take part where they are
installed (`pip install celer skglm liblinear-official`); each runs to its own tolerances, so their
objectives are printed, too.  Every one runs once before it is measured, on one thread.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks.data_sets import STUDIES, Half, in_memory, training_rows
from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.drive import block_of, stats_of, sweeps
from fewpass.solvers.losses import Logistic, Problem
from fewpass.solvers.penalties import ElasticNet
from testing.results import study_options

NAMES = ("reuters", "imdb")
SHARES = (0.1, 0.01)
TOLERANCES = (1e-4, 1e-6)
MOST_PASSES = 60


class L1Run(NamedTuple):
    """Weights, and what they took."""

    w: np.ndarray  # (d,)
    seconds: float  # of this process's CPU
    says: str = ""


Fit = Callable[[Half, float, float], tuple[np.ndarray, str]]


def newton(rows: Half, l1: float, tol: float) -> tuple[np.ndarray, str]:
    """Newton's method, until the gap is certified to be at most tol."""
    block = block_of(rows.X, rows.y)
    stats = stats_of(rows.X[:1000], rows.y[:1000])._replace(n=len(rows.y), d=rows.X.shape[1])
    problem, solver = Problem(Logistic(), ElasticNet(l1), 0.0, 1.0), Newton()
    for moment in sweeps(solver, problem, stats, block):
        certified = solver.certificate(moment.state)
        if certified and (certified.gap <= tol or moment.passes > MOST_PASSES):
            break
    weights = solver.weights(moment.state)
    return weights.coef, f"{moment.state.evaluations} passes, certified {certified.gap:.1e}"


def celer(rows: Half, l1: float, tol: float) -> tuple[np.ndarray, str]:
    """Celer's coordinate descent on working sets, with extrapolated dual points."""
    from celer import LogisticRegression

    model = LogisticRegression(C=1.0 / (l1 * len(rows.y)), tol=tol, fit_intercept=False)
    return model.fit(rows.X.tocsc(), rows.y).coef_.ravel(), ""


def skglm(rows: Half, l1: float, tol: float) -> tuple[np.ndarray, str]:
    """Skglm's prox-Newton solver on working sets."""
    from skglm import SparseLogisticRegression

    model = SparseLogisticRegression(alpha=l1, tol=tol, fit_intercept=False)
    return model.fit(rows.X.tocsc(), rows.y).coef_.ravel(), ""


def liblinear(rows: Half, l1: float, tol: float) -> tuple[np.ndarray, str]:
    """LIBLINEAR's own solver; its tolerance is relative to its first gradient."""
    from liblinear.liblinearutil import parameter, problem, train

    own = parameter(f"-s 6 -c {1.0 / (l1 * len(rows.y)):.17g} -e {100.0 * tol:g} -q")
    model = train(problem(rows.y, sparse.csr_matrix(rows.X)), own)
    w = np.array(model.w[: rows.X.shape[1]])
    return w if model.label[0] == 1 else -w, ""


PEERS: dict[str, Fit] = {"celer": celer, "skglm": skglm, "liblinear": liblinear}
FITS: dict[str, Fit] = {"newton": newton} | {
    name: fit for name, fit in PEERS.items() if find_spec(name)
}


def largest(rows: Half) -> float:
    """Return the smallest l1 at which all weights are 0."""
    return float(np.abs(rows.X.T @ (-0.5 * rows.y)).max()) / len(rows.y)


def objective(rows: Half, l1: float, w: np.ndarray) -> float:
    """Return the mean loss and the charge on w."""
    return float(np.logaddexp(0.0, -rows.y * (rows.X @ w)).mean() + l1 * np.abs(w).sum())


def timed(fit: Fit, rows: Half, l1: float, tol: float) -> L1Run:
    """Run a solver, and count its CPU seconds."""
    began = time.process_time()
    w, says = fit(rows, l1, tol)
    return L1Run(w, time.process_time() - began, says)


def main() -> None:
    """Print a line for every solver and tolerance."""
    options = study_options(__doc__, NAMES)
    options.add_argument("--shares", nargs="+", type=float, default=SHARES)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    for study in (study for study in STUDIES if study.name in given.sets):
        rows = in_memory(training_rows(study, given.folder), "logistic", study.positive)
        few = Half(rows.X[:500], rows.y[:500])
        for fit in FITS.values():
            fit(few, 0.5 * largest(few), 1e-2)
        for share in given.shares:
            l1 = share * largest(rows)
            for name, fit in FITS.items():
                for tol in TOLERANCES:
                    run = timed(fit, rows, l1, tol)
                    F, nonzeros = objective(rows, l1, run.w), np.count_nonzero(run.w)
                    print(
                        f"{study.name} {share:g} {name} {tol:g}: {run.seconds:.2f} s, F {F:.9f}, "
                        f"{nonzeros} not 0 {run.says}", flush=True,
                    )  # fmt: skip


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
