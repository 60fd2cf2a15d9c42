"""Fits of other libraries, each on one thread and without an intercept, as functions of effort.

`PEERS[loss]` maps a peer's name to a function (X, y, lam) -> (effort -> weights); what that
function prepares once is not part of a fit.  Efforts are numbers of iterations, or tolerances: its
ladder, easiest first.  Peers minimise sum loss + (lam n / 2) ||w||^2, LIBLINEAR with C = 1/(lam n).
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Fit = Callable[[Any], np.ndarray]

ITERATIONS = (3, 5, 8, 12, 18, 27, 40, 60, 90)
TOLERANCES = (10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
NEVER = 1e-30  # a tolerance that is never met


class Peer(NamedTuple):
    """How to fit, and with how much effort."""

    prepare: Callable[[Any, np.ndarray, float], Fit]
    ladder: tuple[Any, ...]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let nobody complain that an iteration limit was reached."""
    with warnings.catch_warnings(), Path(os.devnull).open("w") as nowhere:
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(nowhere):
            yield


def snapml(loss: str) -> Peer:
    """IBM Snap ML: dual coordinate descent."""

    def prepare(X, y, lam):
        from snapml import LogisticRegression, SupportVectorMachine

        settings = {"regularizer": lam * len(y), "n_jobs": 1, "fit_intercept": False}

        def fit(most):
            kind = LogisticRegression if loss == "logistic" else SupportVectorMachine
            with quiet():
                model = kind(max_iter=most, tol=NEVER, random_state=0, **settings).fit(X, y)
            return np.asarray(model.coef_, float).ravel()

        return fit

    return Peer(prepare, ITERATIONS)


def scikit_learn(solver: str, ladder: tuple[Any, ...]) -> Peer:
    """LogisticRegression with one of its solvers."""

    def prepare(X, y, lam):
        from sklearn.linear_model import LogisticRegression

        def fit(effort):
            by_steps = isinstance(effort, int)
            model = LogisticRegression(
                C=1.0 / (lam * len(y)), fit_intercept=False, solver=solver, random_state=0,
                max_iter=effort if by_steps else 1000, tol=NEVER if by_steps else effort,
            )  # fmt: skip
            with quiet():
                return np.asarray(model.fit(X, y).coef_, float).ravel()

        return fit

    return Peer(prepare, ladder)


def linear_svc() -> Peer:
    """scikit-learn's LIBLINEAR for the hinge."""

    def prepare(X, y, lam):
        from sklearn.svm import LinearSVC

        def fit(most):
            model = LinearSVC(
                loss="hinge", C=1.0 / (lam * len(y)), fit_intercept=False, max_iter=most,
                tol=1e-9, random_state=0,
            )  # fmt: skip
            with quiet():
                return np.asarray(model.fit(X, y).coef_, float).ravel()

        return fit

    return Peer(prepare, ITERATIONS)


def liblinear(kind: int) -> Peer:
    """LIBLINEAR's own package; what it does before its solver starts is prepared once."""

    def prepare(X, y, lam):
        from liblinear.liblinear import parameter, problem
        from liblinear.liblinearutil import train
        from scipy.sparse import csr_matrix

        rows = problem(np.asarray(y, float), csr_matrix(X).astype(float))

        def fit(tol):
            given = parameter(f"-s {kind} -c {1.0 / (lam * len(y)):.17g} -B -1 -e {tol:g} -q")
            with quiet():
                model = train(rows, given)
            return np.array(
                model.w[: X.shape[1]]
            )  # +1 is what points along w, where labels are +-1

        return fit

    return Peer(prepare, TOLERANCES)


PEERS: dict[str, dict[str, Peer]] = {
    "logistic": {
        "snapml": snapml("logistic"),
        "scikit-learn lbfgs": scikit_learn("lbfgs", ITERATIONS),
        "scikit-learn saga": scikit_learn("saga", ITERATIONS[:6]),
        "scikit-learn liblinear": scikit_learn("liblinear", TOLERANCES),
        "liblinear -s 0": liblinear(0),
        "liblinear -s 7": liblinear(7),
    },
    "hinge": {
        "snapml": snapml("hinge"),
        "scikit-learn LinearSVC": linear_svc(),
        "liblinear -s 3": liblinear(3),
    },
}
