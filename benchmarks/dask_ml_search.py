"""A search for lam over a Dask array: a path of our estimator beside dask-ml's searches.

    .venv-peers/bin/python -m benchmarks.dask_ml_search

Everybody chooses among the same eight values of lam, on a cluster of two threads in a process of
its own.  The rows are a stack of .npy blocks on disk: 24 columns on scales from 1 to 1/100, so that
the strength matters, and noisy labels.  "Loss" is that of the model chosen, on rows that nobody
trained on.  "Passes" is how often rows were read, over the rows there are: a candidate of dask-ml's
reads its own, those of a path share one reading.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import log_loss

BLOCKS, BLOCK, COLUMNS = 16, 50_000, 24
LAMS = [10.0**-k for k in range(1, 9)]
MEMORY = "256MB"


class Search(NamedTuple):
    """A model that predicts probabilities, its lam, and how often rows were read for it."""

    model: Any
    lam: float
    passes: float


def block(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (BLOCK, COLUMNS) and labels (BLOCK,)."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((BLOCK, COLUMNS)) * np.logspace(0.0, -2.0, COLUMNS)
    score = 3.0 * X @ np.random.default_rng(99).standard_normal(COLUMNS)
    return X, (score + rng.logistic(size=BLOCK) > 0.0).astype(int)


def path(X: Any, y: Any) -> Search:
    """Search by one training of our estimator, all lam in the same passes."""
    from fewpass import LinearClassifier

    model = LinearClassifier(lam=LAMS, held_out=0.1, memory=MEMORY, tol=1e-4).fit(X, y)
    return Search(model, model.lam_, model.passes_)


def ours_in(search: str, X: Any, y: Any) -> Search:
    """Search by dask-ml, our estimator taking its batches."""
    from fewpass import LinearClassifier, mend_dask_ml

    mend_dask_ml()
    return _found(search, LinearClassifier(lam=LAMS[0]), "lam", X, y)


def sgd_in(search: str, X: Any, y: Any) -> Search:
    """Search by dask-ml, scikit-learn's averaged SGD taking its batches."""
    from sklearn.linear_model import SGDClassifier

    from fewpass import mend_dask_ml

    mend_dask_ml()
    learner = SGDClassifier("log_loss", average=True, random_state=0)
    return _found(search, learner, "alpha", X, y)


def _found(search: str, learner: Any, name: str, X: Any, y: Any) -> Search:
    from dask_ml import model_selection

    more = {"n_initial_parameters": len(LAMS)} if search == "IncrementalSearchCV" else {}
    kind = getattr(model_selection, search)
    found = kind(learner, {name: LAMS}, max_iter=BLOCKS, test_size=0.1, random_state=0, **more)
    found.fit(X, y, classes=[0, 1])
    calls = {one["model_id"]: one["partial_fit_calls"] for one in found.history_}
    passes = 0.9 * sum(calls.values()) / BLOCKS  # a call gets a block of the rows not held out
    return Search(found.best_estimator_, found.best_params_[name], passes)


def grid(X: Any, y: Any) -> Search:
    """Search by dask-ml's grid, which holds all rows in memory: three folds and a last fit."""
    from dask_ml.model_selection import GridSearchCV

    from fewpass import LinearClassifier

    rows = X.compute(), y.compute()
    found = GridSearchCV(LinearClassifier(tol=1e-4), {"lam": LAMS}, cv=3).fit(*rows)
    each = found.best_estimator_.passes_
    return Search(found.best_estimator_, found.best_params_["lam"], each * (2 * len(LAMS) + 1))


SEARCHES: dict[str, Callable[[Any, Any], Search]] = {
    "`LinearClassifier(lam=[...], held_out=0.1, tol=1e-4)`": path,
    "`GridSearchCV(LinearClassifier(tol=1e-4), cv=3)`": grid,
    "`IncrementalSearchCV(LinearClassifier())`": lambda X, y: ours_in("IncrementalSearchCV", X, y),
    "`HyperbandSearchCV(LinearClassifier())`": lambda X, y: ours_in("HyperbandSearchCV", X, y),
    "`IncrementalSearchCV(SGDClassifier())`": lambda X, y: sgd_in("IncrementalSearchCV", X, y),
    "`HyperbandSearchCV(SGDClassifier())`": lambda X, y: sgd_in("HyperbandSearchCV", X, y),
}


def search(name: str, folder: str) -> None:
    """Search in this process, on two blocks first, and print what came of all as JSON."""
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    from fewpass.pipeline.memory import peak_memory_bytes

    warnings.simplefilter("ignore")  # dask-ml's own, of Dask, NumPy and scikit-learn
    where = {"n_workers": 1, "threads_per_worker": 2, "processes": False}
    with LocalCluster(**where, dashboard_address=None) as cluster, Client(cluster):
        X, y = (da.from_npy_stack(f"{folder}/{part}") for part in ("X", "y"))
        SEARCHES[name](X[: 2 * BLOCK], y[: 2 * BLOCK])  # compiles
        before, began, used = peak_memory_bytes(), time.perf_counter(), cpu_seconds()
        found = SEARCHES[name](X, y)
        seconds, cpu = time.perf_counter() - began, cpu_seconds() - used
    held = block(BLOCKS)
    loss = log_loss(held[1], found.model.predict_proba(held[0]))
    print(json.dumps({
        "seconds": seconds, "cpu": cpu, "peak": peak_memory_bytes(), "before": before,
        "passes": found.passes, "lam": found.lam, "loss": loss,
    }))  # fmt: skip


def cpu_seconds() -> float:
    """Processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def write_rows(folder: Path) -> None:
    """Write the blocks as Dask stacks them."""
    import dask.array as da

    parts = [block(number) for number in range(BLOCKS)]
    for name, arrays in zip(("X", "y"), zip(*parts, strict=True), strict=True):
        whole = da.concatenate([da.from_array(one, chunks=one.shape) for one in arrays])
        da.to_npy_stack(folder / name, whole)


def main() -> None:
    """Print the table; a name as the only argument searches once."""
    if len(sys.argv) == 3:
        return search(*sys.argv[1:])
    print("| | seconds | CPU seconds | peak MB | passes | lam | loss |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder))
        for name in SEARCHES:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.dask_ml_search", name, folder], check=True,
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            it = json.loads(done.stdout.splitlines()[-1])
            print(
                f"| {name} | {it['seconds']:.1f} | {it['cpu']:.1f} | {it['peak'] / 1e6:.0f} "
                f"| {it['passes']:.1f} | {it['lam']:g} | {it['loss']:.5f} |",
                flush=True,
            )
    return None


if __name__ == "__main__":
    main()
