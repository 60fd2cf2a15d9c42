"""Passes of SDCA to a certified relative gap on real data, against LIBLINEAR's objective.

    python -m benchmarks.dual_passes [--data FOLDER] [--most 300]

Rows of unit length, in memory, one random permutation per pass, no intercept; the gap is that of
the free certificate, over the objective, so the pass that certifies is counted.  LIBLINEAR runs to
its own tolerance of 1e-6, or 3000 iterations, and knows no smoothed hinge.
"""

from __future__ import annotations

import argparse
import bz2
import lzma
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from solvers.losses import Hinge, Logistic, Problem, SmoothedHinge
from solvers.rows import SparseRows
from solvers.sdca import Sdca
from tests import oracles
from tests.dual import Data, Run, primal_objective

FILES = {
    "a9a": "a9a/a9a.xz",
    "w8a": "w8a/w8a.xz",
    "ijcnn1": "ijcnn1/ijcnn1.trn.bz2",
    "reuters": "reuters/reuters.trn.bz2",
}
LOSSES = {
    "hinge": (Hinge(), 1e-4),
    "smoothed": (SmoothedHinge(), 1e-6),
    "logistic": (Logistic(), 1e-6),
}


def load(path: Path) -> Data:
    """Read LIBSVM text and give every row unit length."""
    with (lzma.open if path.suffix == ".xz" else bz2.open)(path) as file:
        X, y = load_svmlight_file(file)
    X = normalize(X)
    lengths = np.sqrt(X.multiply(X).sum(axis=1).A1)[:, None]
    facts = oracles.facts(lengths, SparseRows)._replace(d=X.shape[1])
    return Data(X, np.where(y > 0, 1.0, -1.0), np.ones(len(y)), oracles.sparse_rows(X), facts)


def ascend(of: Data, problem: Problem, tol: float, most: int) -> tuple[int, float, float]:
    """Return passes, objective and gap once the gap is at most tol times the objective."""
    run = Run(Sdca(), problem, of)
    found, passes = None, 0
    while passes < most and (found is None or found.gap > tol * found.objective):
        found = run.solver.certificate(run.one_pass().state)
        passes += 1
    return passes, found.objective, found.gap


def liblinear(of: Data, problem: Problem) -> float | None:
    """Return the objective that LIBLINEAR comes to."""
    settings = {"C": 1.0 / (problem.lam * len(of.y)), "fit_intercept": False, "tol": 1e-6}
    if isinstance(problem.loss, SmoothedHinge):
        return None
    if isinstance(problem.loss, Hinge):
        peer = LinearSVC(loss="hinge", max_iter=3000, **settings)
    else:
        peer = LogisticRegression(solver="liblinear", max_iter=3000, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return float(primal_objective(problem, of, peer.fit(of.X, of.y).coef_[0], 0.0))


def main() -> None:
    """Print a line per data set, loss and lam."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, default=os.environ.get("FEWPASS_DATA"))
    options.add_argument("--most", type=int, default=300)
    chosen = options.parse_args()
    print("| data | lam | loss | passes | objective | gap | LIBLINEAR's excess | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name, path in FILES.items():
        of = load(Path(chosen.data) / path)
        for told, lam in (("1/n", 1.0 / len(of.y)), ("1e-4", 1e-4)):
            for word, (loss, tol) in LOSSES.items():
                problem = Problem(loss, lam, 0.0, lam)
                began = time.perf_counter()
                passes, objective, gap = ascend(of, problem, tol, chosen.most)
                seconds = time.perf_counter() - began
                theirs = liblinear(of, problem)
                excess = "-" if theirs is None else f"{theirs - objective:.1e}"
                print(
                    f"| {name} | {told} | {word} | {passes} | {objective:.7f} | {gap:.1e} | "
                    f"{excess} | {seconds:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
