"""What it costs to charge the intercept less than a weight, and to charge it at all.

    python -m benchmarks.intercept_charge

First the excess of the optimum with the charge over that without, under the squared loss, by its
normal equations: columns far from 0 (two like latitude and longitude), as they are and
standardised.  Then the passes that methods take to certified gaps of 1e-2, 1e-4, 1e-6 of
max(1, F) on public sets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import STUDIES, in_memory, training_rows
from benchmarks.raw_data import METHODS, Case, Way, shuffled, trained
from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Solver
from testing.blocks import stats_of
from testing.results import study_options

SHARES = (1e-2, 1e-4, 1e-6)  # lam_b over lam
SETS = ("a9a", "ijcnn1")
TIMES = (1.0, 100.0)  # lam times n
WITH_NEWTON: dict[str, Solver] = METHODS | {"newton": Newton()}  # these sets have few columns
Matrix = NDArray[np.float64]


def main() -> None:
    """Print both tables."""
    chosen = study_options(__doc__, SETS).parse_args()
    print("excess over max(1, f*) at lam_b / lam of", *SHARES)
    X, y = far_from_zero()
    columns = {"as they are": X, "standardised": (X - X.mean(axis=0)) / X.std(axis=0)}
    for name, rows in columns.items():
        for times in TIMES:
            found = [f"{excess(rows, y, times / len(y), share):.1e}" for share in SHARES]
            print(f"columns {name}, lam {times:g}/n:", *found)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for study in (s for s in STUDIES if s.name in chosen.sets):
        rows = shuffled(in_memory(training_rows(study, chosen.folder), "logistic", None), 1)
        stats = stats_of(*rows, 1)
        for loss in ("logistic", "squared_hinge"):
            for times in TIMES:
                problem = Problem(LOSSES[loss](), L2(times / stats.n), 1.0, 0.0)
                case = Case((study.name, loss, f"{times:g}/n"), problem, stats, rows)
                for method in WITH_NEWTON:
                    print(*case.key, method, *passes(method, case))


def passes(method: str, case: Case) -> list[object]:
    """Return the passes to each tolerance, by the charge."""
    problem = case.problem
    charged = (problem._replace(lam_b=share * problem.lam) for share in SHARES)
    return [
        trained(WITH_NEWTON[method], case._replace(problem=each), Way())["passes"]
        for each in charged
    ]


def far_from_zero(n: int = 20_000) -> tuple[Matrix, Matrix]:
    """Return rows whose columns have means of up to 60 deviations, and targets of mean 2."""
    rng = np.random.default_rng(0)
    north = 2.1 * rng.standard_normal(n)
    east = 2.0 * rng.standard_normal(n) - 0.9 * north
    X = np.c_[35.6 + north, -119.6 + east, rng.lognormal(1.2, 0.5, n)]
    return X, 2.0 + 0.4 * rng.standard_normal(n) - 0.4 * (north + east)


def excess(X: Matrix, y: Matrix, lam: float, share: float) -> float:
    """Return how far the optimum with the charge is above the one without, over max(1, f)."""
    least = uncharged(X, y, lam, optimum(X, y, lam, 0.0))
    return (uncharged(X, y, lam, optimum(X, y, lam, share)) - least) / max(1.0, least)


def optimum(X: Matrix, y: Matrix, lam: float, share: float) -> Matrix:
    """Return weights and intercept (d + 1,), by the normal equations in scaled columns."""
    A = np.c_[X, np.ones(len(y))]
    scale = np.sqrt(np.mean(A**2, axis=0))
    charge = np.diag(np.append(np.full(X.shape[1], lam), share * lam) / scale**2)
    A = A / scale
    found: Matrix = np.linalg.solve(A.T @ A / len(y) + charge, A.T @ y / len(y)) / scale
    return found


def uncharged(X: Matrix, y: Matrix, lam: float, w: Matrix) -> float:
    """Return the objective that charges the weights alone."""
    away = X @ w[:-1] + w[-1] - y
    return float(0.5 * np.mean(away**2) + 0.5 * lam * w[:-1] @ w[:-1])


if __name__ == "__main__":
    main()
