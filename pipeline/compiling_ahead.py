"""Compilation of kernels ahead of time: in an image, or before a service starts.

Small trainings are run as users would run them, each combination of loss and rows in some process;
the compiled kernels stay in the cache on disk (`solvers/kernels/dispatch.py`).
"""

from __future__ import annotations

import logging
import os
import py_compile
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.semaphores import require_semaphores
from fewpass.solvers.bad_input import shown
from fewpass.solvers.registry import (
    DUAL,
    LOSS_OF_LABELS,
    LOSS_OF_NUMBERS,
    LOSSES,
    PRIMAL,
    SECOND_ORDER,
    SEVERAL_LEARNERS,
    loss_class,
)

Layout = Literal["dense", "sparse"]
LAYOUTS: tuple[Layout, ...] = ("dense", "sparse")
DTYPES = ("float32", "float64")  # of rows in data sets, and of rows given to estimators
USUAL_LOSSES = (LOSS_OF_LABELS, LOSS_OF_NUMBERS)  # defaults of plans and estimators
METHODS = (SEVERAL_LEARNERS, SECOND_ORDER, DUAL, PRIMAL)  # those that `auto` chooses from
#: Files, by the layout of their rows: numbers with labels, with numbers as targets, with words, and
#: sparse rows.
FILES = {"csv": "dense", "numbers": "dense", "words": "dense", "svm": "sparse"}
CHUNK_BYTES = 1 << 14  # several chunks, whose rows are mixed

ROWS, COLUMNS = 400, 6
ROWS_OF_PAIRS = 1_000  # fewer than 500 have no pairs
CLICK_COLUMNS = 1 << 14  # so many that they are stored by frequency


class Combination(NamedTuple):
    """One unit of work: a loss on one kind of rows, or files of one kind."""

    loss: str | None  # None: files, from ingest to predictions
    layout: str
    dtype: str

    def __str__(self) -> str:
        if self.loss is None:
            return f"{self.layout} files, ingested, trained, evaluated, predicted"
        return f"{self.loss}, {self.layout} rows of {self.dtype}"


class WarmedCombination(NamedTuple):
    """The result of a combination."""

    combination: Combination
    kernels: int  # 0: all were cached
    seconds: float  # of compiling
    modules: int = 0  # whose bytecode was written
    files: tuple[str, ...] = ()  # of kernels that were not compiled


class WarmUp(NamedTuple):
    """The result of a warm-up, as in `fewpass warm-up --json`."""

    kernels: int
    seconds: float  # wall time
    processes: int
    combinations: int
    folder: str
    modules: int  # whose bytecode was written


def warm_up(
    losses: Sequence[str] = USUAL_LOSSES,
    layouts: Sequence[str] = LAYOUTS,
    *,
    processes: int | None = None,
    on_compiled: Callable[[WarmedCombination], None] = lambda _: None,
) -> WarmUp:
    """Compile the usual kernels in advance, for images and services.

    Compiled kernels lie in ~/.cache/fewpass (XDG_CACHE_HOME); what is there is not compiled again.
    Modules become bytecode where they are installed, whatever PYTHONDONTWRITEBYTECODE says.

    Parameters
    ----------
    losses
        Names of losses [default: logistic, squared].
    layouts
        Layouts of rows [default: dense, sparse].
    processes
        Processes that compile at a time [default: one per core].
    on_compiled
        Called with a `WarmedCombination` (combination, kernels, seconds) after each combination of
        loss and rows.

    Returns
    -------
    WarmUp
        kernels, seconds, processes, combinations, folder (of the cache), modules (whose bytecode
        was written).

    Raises
    ------
    BadInput
        A loss or layout is unknown, or processes cannot be started here.
    """
    from fewpass.solvers.kernels.kernel_files import cache_folder  # noqa: PLC0415 - loads LLVM

    todo = list(combinations(losses, layouts))
    require_semaphores("do without: kernels are compiled when they are first needed")
    began, kernels, modules = time.perf_counter(), 0, keep_bytecode()
    if processes is not None and not (isinstance(processes, int) and processes > 0):
        raise BadInput(f"processes is {shown(processes)}. Give a whole number from 1 on.")
    at_a_time = min(processes or os.cpu_count() or 1, len(todo))
    with ProcessPoolExecutor(at_a_time, get_context("spawn")) as pool:
        for done in as_completed([pool.submit(compile_for, one) for one in todo]):
            kernels += done.result().kernels
            modules += done.result().modules
            on_compiled(done.result())
    seconds = time.perf_counter() - began
    return WarmUp(kernels, seconds, at_a_time, len(todo), str(cache_folder()), modules)


def combinations(losses: Sequence[str], layouts: Sequence[str]) -> Iterator[Combination]:
    """Yield the combinations, longest first; BadInput for unknown names."""
    for name, given, all_of in (("loss", losses, tuple(LOSSES)), ("layout", layouts, LAYOUTS)):
        unknown = [word for word in given if word not in all_of]
        if unknown or not given:
            raise BadInput(
                f"There is no {name} {', '.join(unknown) or '(none named)'}. Choose among "
                f"{', '.join(all_of)}."
            )
    for kind, layout in FILES.items():
        if layout in layouts:
            yield Combination(None, kind, "float32")
    for loss in losses:
        for layout in layouts:
            for dtype in DTYPES:
                yield Combination(loss, layout, dtype)


def compile_for(combination: Combination) -> WarmedCombination:
    """Run the small trainings of a combination in this process."""
    from fewpass.solvers.kernels.compiling import Compiling  # noqa: PLC0415 - loads LLVM
    from fewpass.solvers.kernels.loading import loaded  # noqa: PLC0415 - with it

    logging.getLogger("fewpass").setLevel(logging.ERROR)  # the caller reports progress
    with Compiling() as compiling, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small trainings need not reach their tolerance
        if combination.loss is None:
            train_files(combination.layout)
        elif find_spec("sklearn") is None:
            train_stored(combination.loss, combination.layout, combination.dtype)
        else:
            train_rows(combination.loss, combination.layout, combination.dtype)
    return WarmedCombination(
        combination, compiling.kernels, compiling.seconds, keep_bytecode(), tuple(map(str, loaded))
    )


def train_rows(loss: str, layout: str, dtype: str) -> None:
    """Fit, and continue with partial_fit, with every method that `auto` may choose."""
    from scipy import sparse  # noqa: PLC0415

    from fewpass.pipeline.models.estimators.classifier import LinearClassifier  # noqa: PLC0415
    from fewpass.pipeline.models.estimators.regressor import LinearRegressor  # noqa: PLC0415

    X, score = small_rows()
    rows: Any = X.astype(dtype)
    if layout == "sparse":
        rows = sparse.csr_matrix(rows)
    numbers = loss_class(loss).takes_numbers
    kind: Any = LinearRegressor if numbers else LinearClassifier
    y = np.exp(score) if numbers else (score > 0).astype(int)  # above 0, for all losses
    for method in methods(loss):
        kind(loss=loss, solver=method, tol=1e-2, passes=6).fit(rows, y).predict(rows)
    if loss_class(loss).is_steep:
        return
    batch: Any = kind(loss=loss, lam=1e-2)
    batch.partial_fit(rows, y) if numbers else batch.partial_fit(rows, y, classes=[0, 1])


def methods(loss: str) -> tuple[str, ...]:
    """Return the methods to compile for."""
    if loss_class(loss).is_steep:
        return (SECOND_ORDER, DUAL)
    return METHODS if loss_class(loss).is_smooth else (SEVERAL_LEARNERS, "auto")


def train_stored(loss: str, layout: str, dtype: str) -> None:
    """Train on a data set, without scikit-learn, with every method that `auto` may choose."""
    from fewpass.pipeline.api.making_data_sets import ingest  # noqa: PLC0415
    from fewpass.pipeline.api.training_models import train  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / {"dense": "rows.csv", "sparse": "rows.svm"}[layout]
        write_rows(rows, rows.suffix[1:])
        settings: dict[str, Any] = {"dtype": dtype}
        settings |= {"label": "y"} if layout == "dense" else {}
        ingest(rows, Path(folder) / "data", **settings)
        for method in methods(loss):
            run = Path(folder) / method
            train(Path(folder) / "data", run, loss=loss, solver=method, tol=1e-2, passes=6)


def train_files(kind: str) -> None:
    """Ingest a small file, train, evaluate and predict; and train of the file, read once."""
    from fewpass.pipeline.api.making_data_sets import ingest  # noqa: PLC0415
    from fewpass.pipeline.api.training_models import train  # noqa: PLC0415
    from fewpass.pipeline.api.using_models import evaluate, predict  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        rows, data = at / ("rows.svm" if kind == "svm" else "rows.csv"), at / "data"
        write_rows(rows, kind)
        label: dict[str, Any] = {} if kind == "svm" else {"label": "y"}
        probability: dict[str, Any] = {} if kind == "numbers" else {"probability": True}
        made = ingest(rows, data, test_fraction=0.2, chunk_bytes=CHUNK_BYTES, **label)
        assert made.test_dataset is not None, "rows were held out"
        train(data, at / "one-pass", certify=True)
        train(data, at / "run", tol=1e-3)
        train(data, at / "many-passes", solver=DUAL, tol=1e-2)
        evaluate(at / "run", made.test_dataset)
        predict(at / "run", rows, at / "predictions.csv", **probability, **label)
        train(rows, at / "read-once", test_fraction=0.2, **label)


def write_rows(path: Path, kind: str) -> None:
    """Write a small file of a kind: csv, numbers and words as CSV, svm as LIBSVM text."""
    if kind == "svm":
        from fewpass.pipeline.clicks import write_clicks  # noqa: PLC0415 - loads LLVM

        write_clicks(path, 100_000, columns=CLICK_COLUMNS)  # as the demo does
        return
    X, score = small_rows()
    if kind == "words":  # curves and pairs are chosen
        X, _ = small_rows(ROWS_OF_PAIRS)
        score = X[:, 1] * X[:, 2] + X[:, 3] ** 2 - 1.0
    lines = [",".join([*(f"x{j}" for j in range(COLUMNS)), "y"])]
    for number, (row, target) in enumerate(zip(X.round(3).tolist(), score.tolist(), strict=True)):
        cells = [*map(repr, row), repr(target) if kind == "numbers" else str(1 + int(target > 0))]
        if kind == "words":
            cells[0] = f'"of {number % 7}, quoted"' if number % 5 else ""
            cells[-1] = '"yes"' if target > 0 else '"no"'
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")


def small_rows(n: int = ROWS) -> tuple[Any, Any]:
    """Return some rows (n, d) and their scores (n,)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, COLUMNS))
    return X, X[:, 0] + 0.5 * rng.standard_normal(n)


# -- bytecode of imported modules ------------------------------------------------------------------
#
# An image is often built, and run, with PYTHONDONTWRITEBYTECODE: then every command compiles some
# thousand modules anew, for one to two seconds of CPU time.


def keep_bytecode() -> int:
    """Write the bytecode of this process's modules that has not been written; return how many.

    Folders that cannot be written are left as they are.
    """
    written = 0
    for source, target in {_places(module) for module in [*sys.modules.values()]} - {("", "")}:
        if not Path(target).exists():
            with suppress(OSError, py_compile.PyCompileError):
                py_compile.compile(source, target, doraise=True)
                written += 1
    return written


def _places(module: ModuleType) -> tuple[str, str]:
    """Return a module's source and where its bytecode belongs; none of built-in ones."""
    spec = getattr(module, "__spec__", None)
    source, target = getattr(spec, "origin", None), getattr(spec, "cached", None)
    return (source, target) if source and target and source.endswith(".py") else ("", "")
