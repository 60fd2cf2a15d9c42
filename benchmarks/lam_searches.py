"""A search for lam by dask-ml's, beside a path of the same values in one training.

    python -m benchmarks.lam_searches

Every search runs in a process of its own, on a Dask cluster of two threads in it; what is printed
is the time on the clock, CPU and peak memory of that process beyond what it had before, passes over
the rows (rows read by all fits over rows of the set) and the accuracy on other rows of what was
chosen.  docs/dask-ml.md has the table.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.estimators import LinearClassifier, mend_dask_ml

ROWS, COLUMNS, BLOCK = 400_000, 20, 50_000
LAMS = (1e-2, 1e-3, 1e-4, 1e-5)
MB = 1e6


class Counted(LinearClassifier):
    """Knows how many rows all of its fits have read."""

    rows_read = 0.0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and count the passes."""
        found = super().fit(X, y, sample_weight)
        Counted.rows_read += found.passes_ * X.shape[0]
        return found

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn from a batch, and count it."""
        Counted.rows_read += X.shape[0]
        return super().partial_fit(X, y, classes, sample_weight)


def rows(seed: int) -> tuple[Any, Any]:
    """Return rows and labels as arrays of Dask's: a noisy linear score."""
    import dask.array as da

    random = da.random.default_rng(seed)
    X = random.standard_normal((ROWS, COLUMNS), chunks=(BLOCK, COLUMNS))
    w = np.random.default_rng(0).standard_normal(COLUMNS)
    return X, (X @ w + 2.0 * random.standard_normal(ROWS, chunks=BLOCK) > 0.0).astype(int)


def path(X: Any, y: Any) -> Any:
    """Train all of lam in the same passes."""
    return Counted(lam=list(LAMS), held_out=0.1, tol=1e-4, memory="256MB").fit(X, y)


def grid(X: Any, y: Any) -> Any:
    """Search with three folds, rows in memory."""
    from dask_ml.model_selection import GridSearchCV

    search = GridSearchCV(Counted(tol=1e-4), {"lam": list(LAMS)}, cv=3, scheduler="synchronous")
    return search.fit(X.compute(), y.compute()).best_estimator_


def increments(X: Any, y: Any) -> Any:
    """Search by partial_fit, dropping candidates on the way."""
    from dask_ml.model_selection import IncrementalSearchCV

    search = IncrementalSearchCV(
        Counted(), {"lam": list(LAMS)}, n_initial_parameters=4, max_iter=9, random_state=0
    )
    return search.fit(X, y, classes=[0, 1]).best_estimator_


def hyperband(X: Any, y: Any) -> Any:
    """Search by partial_fit in brackets."""
    from dask_ml.model_selection import HyperbandSearchCV

    search = HyperbandSearchCV(Counted(), {"lam": list(LAMS)}, max_iter=9, random_state=0)
    return search.fit(X, y, classes=[0, 1]).best_estimator_


SEARCHES: dict[str, Callable[[Any, Any], Any]] = {
    "path": path, "GridSearchCV": grid, "IncrementalSearchCV": increments,
    "HyperbandSearchCV": hyperband,
}  # fmt: skip


def measure(name: str) -> dict[str, float]:
    """Search in this process."""
    from dask.distributed import Client, LocalCluster

    X, y = rows(0)
    few = X[:1000].compute(), y[:1000].compute()
    Counted(lam=list(LAMS), held_out=0.1).fit(*few)  # imports, and kernels of the cache
    Counted().fit(*few).partial_fit(*few)
    mend_dask_ml()
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        Counted.rows_read = 0.0
        before, wall, cpu = peak(), time.perf_counter(), time.process_time()
        best = SEARCHES[name](X, y)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        passes, more = Counted.rows_read / ROWS, peak() - before
        return {
            "wall_s": wall, "cpu_s": cpu, "memory_mb": more / MB, "passes": passes,
            "lam": best.lam_, "accuracy": float(best.score(*rows(1))),
        }  # fmt: skip


def peak() -> int:
    """Return the most bytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Print the table, or with a name what one search took."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    print("| search | wall s | CPU s | memory MB | passes | lam | accuracy |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in SEARCHES:
        command = [sys.executable, "-m", "benchmarks.lam_searches", name]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found = json.loads(told.splitlines()[-1])
        print(
            f"| `{name}` | {found['wall_s']:.1f} | {found['cpu_s']:.1f} | "
            f"{found['memory_mb']:.0f} | {found['passes']:.1f} | {found['lam']:g} | "
            f"{found['accuracy']:.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
