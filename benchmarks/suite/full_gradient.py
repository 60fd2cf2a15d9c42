"""The full gradient of the logistic loss at given weights, over rows in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suite.one_pass import Work, problem_of
from benchmarks.suite.workloads import load
from fewpass.solvers.gradient import add_gradient, no_gradient
from fewpass.solvers.protocol import Weights, add_parts
from testing.blocks import block_of

SCALE = 0.1  # of the weights, drawn from N(0, 1)


def weights_for(d: int) -> np.ndarray:
    """The weights that everybody takes the gradient at."""
    return SCALE * np.random.default_rng(7).standard_normal(d)


def ours(place: str, threads: int = 1) -> Work:
    """The reduce's own kernel, float64 sums; a share of the rows per thread."""
    X, y = load(Path(place))
    block, problem, at = block_of(X, y), problem_of("logistic"), Weights(weights_for(X.shape[1]), 0)
    shares = [block._replace(order=rows) for rows in np.array_split(block.order, threads)]
    pool = ThreadPoolExecutor(threads)

    def share(part: Any) -> Any:
        return add_gradient(problem, at, part, no_gradient(at))

    def work() -> dict[str, Any]:
        first, *rest = pool.map(share, shares)
        for part in rest:
            first = add_parts(first, part)
        return checked(first.G)

    return work


def numpy_products(place: str) -> Work:
    """Two matrix-vector products in float32, as many BLAS threads as the process may use."""
    X, y = load(Path(place))
    w, y = weights_for(X.shape[1]).astype(np.float32), y.astype(np.float32)
    return lambda: checked(X.T @ slopes(X @ w, y))


def scipy_products(place: str) -> Work:
    """SciPy's CSR products with float64 weights."""
    X, y = load(Path(place))
    w = weights_for(X.shape[1])
    return lambda: checked(X.T @ slopes(X @ w, y))


def dask_products(place: str) -> Work:
    """dask.array with the threaded scheduler, two workers, chunks of about 16 MB."""
    import dask
    import dask.array as da

    X, y = load(Path(place))
    w, y = weights_for(X.shape[1]).astype(np.float32), y.astype(np.float32)
    rows = max(1, (16 << 20) // (4 * X.shape[1]))
    A, b = da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)

    def work() -> dict[str, Any]:
        gradient = A.T @ slopes(A @ w, b)
        with dask.config.set(scheduler="threads", num_workers=2):
            return checked(gradient.compute())

    return work


def slopes(p: Any, y: Any) -> Any:
    """Derivatives of log(1 + exp(-y p))."""
    return -y / (1 + np.exp(y * p))


def checked(G: np.ndarray) -> dict[str, Any]:
    """Tell the gradient's length, by which all can be seen to have done the same."""
    return {"norm": float(np.linalg.norm(G))}
