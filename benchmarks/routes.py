"""The same rows by every route that `fit` takes, and how far coefficients are from NumPy's.

python -m benchmarks.routes
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from fewpass import LinearClassifier, ingest

N, D, BLOCK = 20_000, 8, 6_000
MEMORY, TOL = "200MB", 1e-14
NAMES = [f"x{k}" for k in range(D)]


def routes(X: Any, y: Any, folder: Path) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield what each route is called, and the arguments of `fit`."""
    import dask.array as da
    import dask.dataframe as dd
    import polars as pl
    import pyarrow as pa
    import zarr
    from dask.delayed import delayed

    frame = pd.DataFrame(X, columns=NAMES).assign(y=y)
    cut = range(0, N, BLOCK)
    np.save(folder / "rows.npy", X)
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet")
    yield "NumPy", (X, y)
    yield "NumPy, columns one after the other", (np.asfortranarray(X), y)
    yield "memory map", (np.load(folder / "rows.npy", mmap_mode="r"), y)
    yield "SciPy CSR", (sparse.csr_matrix(X), y)
    yield "SciPy CSC, COO", (sparse.csc_matrix(X), y)
    yield "pandas", (frame, "y")
    yield "polars", (pl.from_pandas(frame), "y")
    yield "Arrow", (pa.Table.from_pandas(frame), "y")
    yield "zarr", (zarr.array(X), y)
    yield "dask.array", (da.from_array(X, chunks=(BLOCK, D)), da.from_array(y, chunks=BLOCK))
    yield "dask.array, cut by columns", (da.from_array(X, chunks=(BLOCK, 3)), y)
    yield "dask.dataframe", (dd.from_pandas(frame, npartitions=5), "y")
    yield (
        "delayed blocks, CSR",
        (
            [delayed(sparse.csr_matrix(X[k : k + BLOCK])) for k in cut],
            [delayed(y[k : k + BLOCK]) for k in cut],
        ),
    )
    yield "CSV", (folder / "rows.csv", "y")
    yield "Parquet", (str(folder / "*.parquet"), "y")
    ingest(folder / "rows.parquet", folder / "data", label="y")
    yield "data set", (folder / "data",)


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) * np.linspace(0.5, 3.0, D)
    y = (X @ rng.standard_normal(D) + rng.standard_normal(N) > 0.0).astype(int)
    print("| X | stored as | largest difference of a coefficient |")
    print("| --- | --- | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        of_numpy = None
        for name, given in routes(X, y, Path(folder)):
            model = LinearClassifier(tol=TOL, memory=MEMORY).fit(*given)
            of_numpy = model.coef_ if of_numpy is None else of_numpy
            kind = "memory" if not hasattr(model, "dataset_") else "disk"
            print(f"| {name} | {kind} | {np.abs(model.coef_ - of_numpy).max():.0e} |", flush=True)


if __name__ == "__main__":
    main()
