"""Fits of estimators on rows in memory, beside scikit-learn's, all to the same objective.

No intercept, so that all minimise the same: mean loss + (lam/2) ||w||^2.  Ours proves that it is
within `ACCURACY` of the optimum; theirs are given the least effort of a ladder that arrives there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.suite.linear_peers import quiet
from benchmarks.suite.one_pass import Work

ACCURACY = 1e-4  # f - f* over max(1, f*)
DENSITY = 0.2  # of sparse rows
VALUES = 1e5  # fitted in a turn at least, small sets again and again
TOLERANCES = tuple(10.0**-k for k in range(9))
EPOCHS = (1, 3, 8, 20, 60)

#: scikit-learn's C and alpha are 1 each: lam by loss, times the rows.
LAM = {"logistic": 1.0, "squared_hinge": 0.5, "squared": 1.0}


class Task(NamedTuple):
    """What everybody minimises."""

    X: Any  # (n, d)
    y: np.ndarray  # (n,) 0 and 1, or numbers
    loss: str
    lam: float

    def objective(self, w: np.ndarray) -> float:
        """Return mean loss + (lam/2) ||w||^2."""
        p, sign = self.X @ w, 2.0 * self.y - 1.0
        losses = {
            "logistic": lambda: np.logaddexp(0.0, -sign * p),
            "squared_hinge": lambda: 0.5 * np.maximum(0.0, 1.0 - sign * p) ** 2,
            "squared": lambda: 0.5 * (p - self.y) ** 2,
        }
        return float(losses[self.loss]().mean() + 0.5 * self.lam * w @ w)


class Peer(NamedTuple):
    """An estimator of some effort, and the efforts to try, easiest first."""

    make: Callable[[Task, Any], Any]
    ladder: tuple[Any, ...]


def task(rows: int, columns: int, layout: str, loss: str) -> Task:
    """Make a problem: normal rows, a noisy linear score."""
    rng = np.random.default_rng(0)
    X: Any = rng.standard_normal((rows, columns))
    if layout == "sparse":
        X = sparse.csr_matrix(np.where(rng.random(X.shape) < DENSITY, X, 0.0))
    score = X @ rng.standard_normal(columns) / columns**0.5 + 0.5 * rng.standard_normal(rows)
    y = score if loss == "squared" else (score > 0).astype(int)
    return Task(X, y, loss, LAM[loss] / rows)


def ours(of: Task, tol: float) -> Any:
    """Return our estimator."""
    from fewpass import LinearClassifier, LinearRegressor

    kind: Any = LinearRegressor if of.loss == "squared" else LinearClassifier
    return kind(loss=of.loss, lam=of.lam, tol=tol, fit_intercept=False)


def logistic_regression(of: Task, tol: float) -> Any:
    """Return scikit-learn's, by L-BFGS, its default."""
    from sklearn.linear_model import LogisticRegression

    C = 1.0 / (of.lam * len(of.y))
    return LogisticRegression(C=C, tol=tol, max_iter=10_000, fit_intercept=False)


def linear_svc(of: Task, tol: float) -> Any:
    """Return scikit-learn's LIBLINEAR."""
    from sklearn.svm import LinearSVC

    C = 0.5 / (of.lam * len(of.y))
    return LinearSVC(C=C, tol=tol, max_iter=100_000, fit_intercept=False, random_state=0)


def ridge(of: Task, tol: float) -> Any:
    """Return scikit-learn's, its solver by default."""
    from sklearn.linear_model import Ridge

    return Ridge(of.lam * len(of.y), tol=tol, fit_intercept=False)


def sgd_classifier(of: Task, epochs: int) -> Any:
    """Return scikit-learn's averaged SGD."""
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(
        "log_loss", alpha=of.lam, max_iter=epochs, tol=None, average=True, fit_intercept=False,
        random_state=0,
    )  # fmt: skip


PEERS = {
    "ours": Peer(ours, (ACCURACY,)),
    "logistic_regression": Peer(logistic_regression, TOLERANCES),
    "linear_svc": Peer(linear_svc, TOLERANCES),
    "ridge": Peer(ridge, TOLERANCES),
    "sgd_classifier": Peer(sgd_classifier, EPOCHS),
}


def fit(rows: int, columns: int, layout: str, loss: str, peer: str) -> Work:
    """Fit as often as makes a turn that can be timed, with the effort that is enough."""
    of, (make, ladder) = task(rows, columns, layout, loss), PEERS[peer]
    least = of.objective(coefficients(ours(of, 1e-10), of))
    effort, above = enough(of, make, ladder, least)
    times = max(1, round(VALUES / (rows * columns)))

    def work() -> dict[str, Any]:
        for _ in range(times):
            coefficients(make(of, effort), of)
        return {"pieces": times, "above": above, "effort": effort}

    return work


def enough(of: Task, make: Any, ladder: tuple[Any, ...], least: float) -> tuple[Any, float]:
    """Return the least effort that arrives, or the most there is, and how far above it ends."""
    above = np.inf
    for effort in ladder:
        found = of.objective(coefficients(make(of, effort), of))
        above = (found - least) / max(1.0, least)
        if above <= ACCURACY:
            break
    return effort, above


def coefficients(model: Any, of: Task) -> np.ndarray:
    """Fit, and return w (d,)."""
    with quiet():
        return np.ravel(model.fit(of.X, of.y).coef_)
