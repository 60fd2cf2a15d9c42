"""Averaged SGD kernels against scikit-learn's SGDClassifier in the same run; S2GD's inner step.

    python -m benchmarks.kernels [--quick]

One pass in stored order, everything in memory, CPU seconds of the calling thread (BLAS threads go
on spinning after scikit-learn's fit), the least of several turns taken in alternation, so that a
busy machine slows both.  scikit-learn: average=True, shuffle=False,
float32, one epoch, no stopping rule; its input checks are part of what it costs.

S2GD's inner step is dense on paper (the gradient and the decay touch every weight); the second
table shows that it costs its row's non-zeros, whatever the number of columns.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier

from solvers.gradient import GRADIENT_AND_SLOPES, add_gradient, no_gradient
from solvers.losses import LOSSES, Problem
from solvers.protocol import Block, Facts, Weights
from solvers.rows import DenseRows, SparseRows
from solvers.s2gd import S2gd
from solvers.sgd import Asgd

LAM = 1e-5
PEER = {"hinge": "hinge", "squared_hinge": "squared_hinge", "logistic": "log_loss"}


def dense(n: int, d: int):
    """D1 (d = 54) and D2 (d = 2000): rows of unit length on average."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32) / np.float32(np.sqrt(d))
    return X, labels(X @ rng.standard_normal(d).astype(np.float32), rng)


def sparse(n: int, d: int, nnz: int):
    """S1 (d = 47,236): unit rows of about `nnz` values, column popularity 1 / (10 + rank)."""
    rng = np.random.default_rng(0)
    popularity = np.cumsum(1.0 / (10.0 + np.arange(d)))
    columns = rng.permutation(d)[np.searchsorted(popularity, rng.random(n * nnz) * popularity[-1])]
    values = rng.random(n * nnz, dtype=np.float32) + np.float32(0.1)
    X = csr_matrix((values, columns.astype(np.int32), np.arange(n + 1) * nnz), shape=(n, d))
    X.sum_duplicates()
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1).A1), np.diff(X.indptr)).astype(np.float32)
    X.indices = X.indices.astype(np.int32)
    return X, labels(X @ rng.standard_normal(d), rng)


def labels(score, rng):
    noisy = score + 0.3 * score.std() * rng.standard_normal(len(score))
    return np.where(noisy > np.median(noisy), 1.0, -1.0)


def as_block(X, y, order):
    if isinstance(X, np.ndarray):
        rows = DenseRows(X)
    else:
        rows = SparseRows(X.data, X.indices.view(np.uint32), X.indptr.astype(np.int64))
    return Block(rows, y, np.ones(len(y)), order, np.empty(0))


def least(functions: dict, turns: int) -> dict[str, float]:
    """CPU seconds of each, the least of its turns."""
    seconds = dict.fromkeys(functions, np.inf)
    for turn in range(turns + 1):  # the first compiles
        for name, function in functions.items():
            start = time.thread_time()
            function()
            if turn:
                seconds[name] = min(seconds[name], time.thread_time() - start)
    return seconds


def measure(name: str, X, y, turns: int) -> None:
    n = len(y)
    unit = n if isinstance(X, np.ndarray) else X.nnz
    rng = np.random.default_rng(1)
    stored, random = as_block(X, y, np.arange(n)), as_block(X, y, rng.permutation(n))
    known = Facts(n, X.shape[1], type(stored.rows), 1.0, 1.0, 1.0, n, shuffled=True,
                  target_square=1.0, sigma_square=1.0, streams=1, seed=0)  # fmt: skip
    solver = Asgd(gamma0=0.1)  # no loss diverges
    for loss, peer in PEER.items():
        problem = Problem(LOSSES[loss](), LAM, 1.0, LAM / 100.0)
        model = SGDClassifier(loss=peer, alpha=LAM, average=True, shuffle=False, max_iter=1,
                              tol=None)  # fmt: skip
        at = Weights(np.zeros(known.d), 0.0)

        def visit(block, problem=problem):
            solver.step(problem, known, solver.init(problem, known), block)

        found = least(
            {
                "peer": lambda model=model: model.fit(X, y),
                "stored": lambda visit=visit: visit(stored),
                "random": lambda visit=visit: visit(random),
                "gradient": lambda problem=problem, at=at: add_gradient(
                    problem, at, stored, no_gradient(at)
                ),
            },
            turns,
        )
        cost = {what: seconds / unit * 1e9 for what, seconds in found.items()}
        print(
            f"{name:4}{loss:>15}{cost['peer']:13.1f}{cost['stored']:9.1f}"
            f"{cost['peer'] / cost['stored']:8.2f}x{cost['random']:9.1f}"
            f"{cost['random'] / cost['stored']:8.2f}x{cost['gradient']:10.1f}"
        )


def measure_inner_steps(d: int, n: int, turns: int) -> None:
    """100 non-zeros a row for any d; a gradient and n inner steps of S2GD."""
    X, y = sparse(n, d, 100)
    block = as_block(X, y, np.random.default_rng(1).permutation(n))
    known = Facts(n, d, SparseRows, 1.0, 1.0, 1.0, n, shuffled=True,
                  target_square=1.0, sigma_square=1.0, streams=1, seed=0)  # fmt: skip
    problem, solver = Problem(LOSSES["logistic"](), LAM, 1.0, LAM / 100.0), S2gd(secants=0)
    anchor, slopes = solver.init(problem, known), np.empty(n)
    at, sum_of = solver.newest(anchor), GRADIENT_AND_SLOPES
    stored = block._replace(order=np.arange(n), row_state=slopes)
    total = sum_of.add(problem, at, stored, sum_of.zero(at))
    anchor = solver.absorb(problem, known, anchor, total, 0)._replace(left=n)
    walk = block._replace(row_state=slopes)
    seconds = least(
        {
            "step": lambda: solver.step_rows(problem, known, anchor, walk),
            "gradient": lambda: sum_of.add(problem, at, stored, sum_of.zero(at)),
        },
        turns,
    )
    nnz = X.nnz / n
    print(f"{d:>9,}{nnz:>11.1f}" + "".join(
        f"{seconds[what] / n * 1e6:>13.2f}{seconds[what] / X.nnz * 1e9:>12.1f}"
        for what in ("step", "gradient")
    ))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="toy sizes: shows that it runs")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("ns per row (D1, D2) or per non-zero (S1)")
    print(f"{'set':4}{'loss':>15}{'scikit-learn':>13}{'asgd':>9}{'ratio':>9}"
          f"{'random':>9}{'/stored':>9}{'gradient':>10}")  # fmt: skip
    turns, shrink = (1, 100) if quick else (7, 1)
    measure("D1", *dense(300_000 // shrink, 54), turns)
    measure("D2", *dense(20_000 // shrink, 2000), turns)
    measure("S1", *sparse(100_000 // shrink, 47_236, 100), turns)
    print("\nS2GD, logistic loss, random order: microseconds per row, ns per non-zero")
    print(f"{'columns':>9}{'values/row':>11}{'inner step':>13}{'':>12}{'gradient':>13}")
    for d in (10_000, 100_000, 1_000_000):
        measure_inner_steps(d, 50_000 // shrink, turns)


if __name__ == "__main__":
    main()
