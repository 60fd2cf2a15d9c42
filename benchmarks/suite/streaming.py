"""Rows that stay on disk: one pass over a Zarr set, warm and cold, and passes in memory beside."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.suite.one_pass import LAM, LOSS_NAMES, problem_of
from benchmarks.suite.workloads import load, training_orders
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.drive import sweeps
from fewpass.storage.dataset import Dataset
from fewpass.storage.table_buffer import TableBuffer
from testing.blocks import block_of, stats_of

BUDGET_MB = 256.0
MEMORY = f"{BUDGET_MB:.0f}MB"
TINY, WARM_UP_ROWS = "tiny", 2_000


def stored(place: Path) -> Path:
    """Ingest a set, and a tiny one of its first rows, unless they are there.

    Returns the data set's folder; the tiny one, beside it, is what trainings compile on.
    """
    for name, rows in (("dataset", None), (TINY, WARM_UP_ROWS)):
        if not (place / name / "manifest.json").exists():
            X, y = load(place)
            keep(X[:rows], y[:rows], place / "rows.npz")
            ingest(IngestPlan(sources=(str(place / "rows.npz"),), dataset=str(place / name)))
            (place / "rows.npz").unlink()
    return place / "dataset"


def keep(X: Any, y: np.ndarray, path: Path) -> None:
    """Write rows as an archive that ingest reads."""
    if isinstance(X, np.ndarray):
        np.savez(path, X=X, y=y)
    else:
        np.savez(
            path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, format="csr", y=y
        )


def forget(folder: str) -> None:
    """Drop a folder's files from the system's page cache."""
    for path in Path(folder).rglob("*"):
        if path.is_file():
            forget_file(path)


def forget_file(path: Path) -> None:
    """Drop a file from the system's page cache; what is not on the disk yet is written first."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Streamed:
    """Ours: a training by `fewpass train`'s own code, from opening the set to the finished run.

    The Dask cluster of the process (threads; none with dask=False) is up before, as a notebook's
    or a company's would be.
    """

    def __init__(self, dataset: str, method: str = "asgd", *, cold: bool = False,
                 dask: bool = True, **fields: Any) -> None:  # fmt: skip
        self._stack = ExitStack()
        execution = Execution(scheduler="local" if dask else "none")
        self._executor = self._stack.enter_context(open_executor(execution))
        chosen = {"loss": "logistic", "lam": LAM, "memory": MEMORY, "tol": None, **fields}
        self._plan = TrainingPlan(dataset=dataset, solver={"kind": method}, intercept="none",
                                  **chosen)  # fmt: skip
        tiny = Path(dataset).parent / TINY
        if tiny.exists():  # compiles
            self._train(self._plan.model_copy(update={"dataset": str(tiny)}))
        self.imported = psutil.Process().memory_info().rss
        self.before = (lambda: forget(dataset)) if cold else None

    def __call__(self) -> dict[str, Any]:
        """Train."""
        return self._train(self._plan)

    def _train(self, plan: TrainingPlan) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            run = TrainingRun.start(plan, f"{folder}/run", self._executor)
            for _ in run:
                pass
            found = {"passes": run.result.passes, "gap": run.result.certificate}
            if plan.passes == 1 or plan.tol is not None:
                return found
            return found | {"pieces": run.result.passes} | later_passes(run)


def later_passes(run: TrainingRun) -> dict[str, Any]:
    """Return what a pass after the first sweep took, by the run's own log."""
    events = [Event.read(line) for line in run.run.events()]
    sweeps = [event for event in events if event is not None and event.kind == "sweep"]
    first, *later = (event.facts.seconds for event in sweeps)
    passes = sweeps[-1].cursor.passes - sweeps[0].cursor.passes
    return {"later_s": sum(later) / passes, "first_s": first, "logged_s": first + sum(later)}


class InMemory:
    """Ours on the same rows held in memory: the methods alone, without storage or Dask."""

    def __init__(self, dataset: str, method: str, passes: int, lam: float = LAM) -> None:
        X, y = load(Path(dataset).parent)
        plan = TrainingPlan(dataset=dataset, solver={"kind": method}, passes=passes)
        self._problem, self._solver = problem_of("logistic", lam), plan.solver
        self._passes = passes
        self._stats, self._block = stats_of(X, y), block_of(X, y)

    def __call__(self) -> dict[str, Any]:
        """Go through the rows as often."""
        orders, first = training_orders(self._stats.n), (0.0, 0.0)
        for moment in sweeps(self._solver, self._problem, self._stats, self._block, orders):
            now = time.perf_counter()
            first = (now, moment.passes) if first[1] == 0.0 else first
            if moment.passes >= self._passes:
                later = (now - first[0]) / (moment.passes - first[1])
                return {"pieces": moment.passes, "later_s": later}
        raise AssertionError


class PartialFit:
    """scikit-learn's partial_fit on chunk after chunk of the same store, read by Zarr."""

    def __init__(self, dataset: str, *, loss: str = "logistic", cold: bool = False) -> None:
        from sklearn.linear_model import SGDClassifier

        self._model = lambda: SGDClassifier(loss=LOSS_NAMES[loss], alpha=LAM, average=True,
                                            shuffle=False, fit_intercept=False)  # fmt: skip
        self._dataset = dataset
        self.imported = psutil.Process().memory_info().rss
        self.before = (lambda: forget(dataset)) if cold else None

    def __call__(self) -> None:
        """Make a pass."""
        model = self._model()
        for X, y in zarr_chunks(self._dataset):
            model.partial_fit(X, y, classes=[0.0, 1.0])


def zarr_chunks(dataset: str) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield the rows of each chunk of one of our sets as any user of Zarr reads them."""
    import zarr

    group: Any = zarr.open_group(dataset, mode="r")
    target = group["target"]
    rows = target.chunks[0]
    for k in range(-(-target.shape[0] // rows)):
        part = slice(k * rows, (k + 1) * rows)
        X = group["X"][part] if "X" in group else sparse_chunk(group[f"rows-{k:06d}"])
        yield X, target[part]


def sparse_chunk(group: Any) -> Any:
    """Read one chunk in anndata's encoding."""
    from scipy.sparse import csr_matrix

    parts = (group[name][:] for name in ("data", "indices", "indptr"))
    return csr_matrix(tuple(parts), shape=tuple(group.attrs["shape"]))


class Incremental:
    """dask-ml's Incremental around the same SGDClassifier, threads of the process.

    Dense sets come by dask.array.from_zarr, sparse ones by a task per chunk that reads it.
    """

    def __init__(self, dataset: str, *, loss: str = "logistic", cold: bool = False) -> None:
        import dask.array as da
        from dask.delayed import delayed
        from dask_ml.wrappers import Incremental as Wrapper
        from sklearn.linear_model import SGDClassifier

        manifest = Dataset.open(dataset).manifest
        y = da.from_zarr(dataset, component="target")
        if manifest.layout == "dense":
            X = da.from_zarr(dataset, component="X")
        else:
            read = delayed(read_sparse)
            blocks = [
                da.from_delayed(read(dataset, k), (rows, manifest.n_features), np.float32)
                for k, rows in enumerate(manifest.chunks.rows.tolist())
            ]
            X = da.concatenate(blocks)
        model = SGDClassifier(loss=LOSS_NAMES[loss], alpha=LAM, average=True, shuffle=False,
                              fit_intercept=False)  # fmt: skip
        self._fit = lambda: Wrapper(model, shuffle_blocks=False, assume_equal_chunks=True).fit(
            X, y, classes=[0.0, 1.0]
        )
        self.imported = psutil.Process().memory_info().rss
        self.before = (lambda: forget(dataset)) if cold else None

    def __call__(self) -> None:
        """Make a pass."""
        import dask

        with dask.config.set(scheduler="threads", num_workers=2):
            self._fit()


def read_sparse(dataset: str, k: int) -> Any:
    """Read chunk k of a sparse set by Zarr."""
    import zarr

    group: Any = zarr.open_group(dataset, mode="r")
    return sparse_chunk(group[f"rows-{k:06d}"])


class FileRead:
    """Limit: all objects of the set's rows read into one buffer, nothing looked at."""

    def __init__(self, dataset: str, *, cold: bool = False) -> None:
        folder = Path(dataset)
        self._paths = sorted(p for p in folder.rglob("c.*") if p.is_file())
        self._room = np.empty(max(p.stat().st_size for p in self._paths), np.uint8)
        self.before = (lambda: forget(dataset)) if cold else None

    def __call__(self) -> dict[str, Any]:
        """Read them."""
        size = 0
        for path in self._paths:
            with path.open("rb", buffering=0) as file:
                size += file.readinto(self._room) or 0
        return {"bytes": size}


class Decoding:
    """Limit: the same, checked against the checksums and decompressed into one buffer."""

    def __init__(self, dataset: str, *, cold: bool = False) -> None:
        self._set = Dataset.open(dataset)
        chunks = self._set.manifest.chunks
        self._buffer = TableBuffer(
            self._set.manifest, int(chunks.rows.max()), int(chunks.nnz.max())
        )
        self.before = (lambda: forget(dataset)) if cold else None

    def __call__(self) -> dict[str, Any]:
        """Read and decode all chunks."""
        size = 0
        for k in range(self._set.n_chunks):
            self._buffer.clear()
            size += self._set.read_into(k, self._buffer)
        return {"bytes": size}
