"""Text to rows in memory."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suite.one_pass import Work
from benchmarks.suite.workloads import load
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import open_source
from fewpass.pipeline.tables.readers.source import PIECE_BYTES
from fewpass.storage.ordered import ordered_map

LIBSVM_ROWS, CSV_ROWS = 100_000, 200_000


def libsvm_text(place: Path, *, quick: bool) -> Path:
    """Write the set's first rows as LIBSVM text unless that is there."""
    return written(place, place / "rows.svm", LIBSVM_ROWS, quick, libsvm_line)


def csv_text(place: Path, *, quick: bool) -> Path:
    """Write the set's first rows as CSV, target last, unless that is there."""
    return written(place, place / "rows.csv", CSV_ROWS, quick, csv_line)


def written(place: Path, path: Path, rows: int, quick: bool, line: Any) -> Path:
    """Write rows of text, line by line."""
    if not path.exists():
        X, y = load(place)
        rows = min(rows, len(y)) // (50 if quick else 1)
        made = path.with_suffix(".part")
        with made.open("w") as file:
            file.writelines(line(X[i], y[i]) for i in range(max(rows, 50)))
        made.rename(path)
    return path


def libsvm_line(x: Any, y: float) -> str:
    """+1 3:0.25 ..., columns from 1."""
    pairs = zip(x.indices.tolist(), x.data.tolist(), strict=True)
    return f"{y:+.0f} " + " ".join(f"{j + 1}:{v:.7g}" for j, v in pairs) + "\n"


def csv_line(x: Any, y: float) -> str:
    """0.25,...,1."""
    return ",".join(f"{v:.7g}" for v in x.tolist()) + f",{y:.0f}\n"


def ours(path: str, threads: int = 1, n_features: int | None = None) -> Work:
    """Every piece of the file parsed into a table, as phase 1 of ingest has it done."""
    label = {"label": -1, "header": False} if path.endswith(".csv") else {"n_features": n_features}

    def work() -> dict[str, Any]:
        source = open_source([path], SourceOptions(**label))
        rows = 0
        with ThreadPoolExecutor(threads) as pool:
            for parsed in ordered_map(pool, source.parse, source.pieces(PIECE_BYTES), 2 * threads):
                rows += parsed.table.n_rows
        return {"rows": rows}

    return work


def whole_ingest(path: str, threads: int = 2) -> Work:
    """Ours, the whole way: text to a shuffled, compressed, checksummed set with statistics."""
    from fewpass.pipeline.settings.ingest_plan import IngestPlan
    from fewpass.pipeline.tables.ingest.phases import ingest

    label = {"label": -1, "header": False} if path.endswith(".csv") else {}

    def work() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            plan = IngestPlan(sources=(path,), dataset=f"{folder}/set", options=label)
            return {"rows": ingest(plan, threads=threads).rows}

    return work


def scikit_learn(path: str) -> Work:
    """load_svmlight_file into float32."""
    from sklearn.datasets import load_svmlight_file

    return lambda: {"rows": load_svmlight_file(path, dtype=np.float32)[0].shape[0]}


def vowpal_wabbit(path: str) -> Work:
    """Vowpal Wabbit parses the text and writes its cache, learning nothing."""
    from vowpalwabbit import Workspace

    text = vw_text(Path(path))

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            Workspace(f"-d {text} --cache_file {folder}/cache -k --noop --quiet").finish()

    return work


def vw_text(path: Path) -> Path:
    """Write the same rows as Vowpal Wabbit wants them."""
    text = path.with_suffix(".vw")
    if not text.exists():
        with path.open() as rows, text.open("w") as file:
            file.writelines(line.replace(" ", " | ", 1) for line in rows)
    return text


def pandas_csv(path: str) -> Work:
    """pandas.read_csv, C engine, float32."""
    import pandas as pd

    return lambda: {"rows": len(pd.read_csv(path, header=None, dtype=np.float32))}


def pyarrow_csv(path: str) -> Work:
    """pyarrow.csv in one thread, to a float32 array."""
    from pyarrow import csv

    options = csv.ReadOptions(use_threads=False, autogenerate_column_names=True)

    def work() -> dict[str, Any]:
        table = csv.read_csv(path, read_options=options)
        X = np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float32)
        return {"rows": len(X)}

    return work


def polars_csv(path: str) -> Work:
    """polars.read_csv, to a float32 array."""
    import polars as pl

    def work() -> dict[str, Any]:
        table = pl.read_csv(path, has_header=False)
        return {"rows": len(table.to_numpy().astype(np.float32))}

    return work


def file_read(path: str) -> Work:
    """Limit: the file's bytes, read into one buffer of 16 MB."""
    room = np.empty(16 << 20, np.uint8)

    def work() -> dict[str, Any]:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            size = 0
            while read := file.readinto(room):
                size += read
            return {"bytes": size}

    return work
