"""Small data sets, written chunk by chunk without going through ingest."""

import json

import numpy as np
from numcodecs import blosc
from scipy.sparse import csr_matrix

from fewpass.pipeline.rows.column_statistics import ColumnStatistics
from fewpass.pipeline.rows.row_summary import RowSummary
from fewpass.storage.column_file import makers_of
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import Labels, Shuffle, Values, WeightStats
from fewpass.storage.table import DenseTable, SparseTable, concatenate, cut
from fewpass.storage.writer import DatasetWriter


def random_table(
    n, d, *, layout="dense", targets="labels", weighted=False, seed=0, nnz=8, classes=2
):
    """Rows of a noisy linear model; labels are stored as codes 0, 1, ..."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(d)
    weight = rng.integers(1, 4, n).astype(float) if weighted else None
    if layout == "dense":
        X = rng.standard_normal((n, d)).astype(np.float32)
        score = X @ truth
    else:
        indices = np.sort(np.argsort(rng.random((n, d)), axis=1)[:, :nnz], axis=1)
        X = rng.standard_normal((n, nnz)).astype(np.float32)
        score = (X * truth[indices]).sum(axis=1)
    noisy = score + rng.standard_normal(n) * score.std() * 0.5
    edges = np.quantile(noisy, np.arange(1, classes) / classes) if classes > 2 else [0.0]
    target = np.searchsorted(edges, noisy).astype(float) if targets == "labels" else noisy
    if layout == "dense":
        return DenseTable(X, target, weight)
    indptr = np.arange(n + 1, dtype=np.int64) * nnz
    return SparseTable(X.ravel(), indices.ravel().astype(np.int32), indptr, target, weight)


def wide_table(n, d, nnz, target, seed=5):
    """Sparse rows of many columns, each value in a stretch of its own; `target` of the values."""
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, d // nnz, (n, nnz)) * nnz + np.arange(nnz), axis=1)
    values = rng.standard_normal(n * nnz).astype(np.float32)
    starts = nnz * np.arange(n + 1, dtype=np.int64)
    return SparseTable(values, columns.ravel().astype(np.int32), starts, target(values), None)


def write(url, table, d, chunk_rows, *, targets="labels", shuffled=True, classes=2):
    """Store a table as a data set and open it."""
    layout = "dense" if isinstance(table, DenseTable) else "sparse"
    n = table.n_rows
    dtype = (table.X if layout == "dense" else table.data).dtype.name
    writer = DatasetWriter(
        Folder(str(url)), layout, d, n, chunk_rows, dtype, table.weight is not None
    )
    records = [
        writer.write_chunk(k, cut(table, k * chunk_rows, min(n, (k + 1) * chunk_rows)))
        for k in range(writer.n_chunks)
    ]
    columns = ColumnStatistics(layout, d)
    columns.add(table)
    writer.write_columns(makers_of(columns.columns(d)))
    y = table.target
    if targets == "labels":
        counts = tuple(np.bincount(y.astype(int), minlength=classes).tolist())
        labels = (-1.0, 1.0) if len(counts) == 2 else tuple(float(k) for k in range(len(counts)))
        described: Labels | Values = Labels(labels=labels, counts=counts)
        if table.weight is not None:
            described = RowSummary.of(table, described).targets(described)
    else:
        described = Values(mean=y.mean(), variance=y.var(), minimum=y.min(), maximum=y.max())
    weights = None
    if table.weight is not None:
        weights = WeightStats(total=table.weight.sum(), maximum=table.weight.max())
    writer.commit(
        records, targets=described, weights=weights, shuffle=Shuffle(seed=0 if shuffled else None)
    )
    return Dataset.open(str(url))


def make(url, n=4000, d=30, chunk_rows=60, *, shuffled=True, **kind):
    """Write a random data set and open it."""
    table = random_table(n, d, **kind)
    return write(
        url, table, d, chunk_rows, targets=kind.get("targets", "labels"), shuffled=shuffled
    )


def table_of(dataset):
    """Return all rows of a data set as one table."""
    return concatenate([dataset.read_chunk(k) for k in range(dataset.n_chunks)])


def dense(table, d):
    """Return the rows of a table as an array (n, d)."""
    if isinstance(table, DenseTable):
        return table.X
    return csr_matrix((table.data, table.indices, table.indptr), (table.n_rows, d)).toarray()


def every_row(dataset):
    """Return all rows of a data set as an array (n, d) of float64, their targets and weights."""
    table = table_of(dataset)
    weight = np.ones(table.n_rows) if table.weight is None else table.weight
    return dense(table, dataset.n_features).astype(float), table.target, weight


def column_by_page(folder, name):
    """Return an array by column as somebody reads it who has docs/format.md and blosc."""
    data, start = folder.read("columns.bin"), 0
    for other, (dtype, frames) in json.loads(folder.read("manifest.json"))["columns"].items():
        parts = []
        for length, _ in frames:
            parts.append(blosc.decompress(data[start : start + length - 4]))
            start += length
        if other == name:
            return np.frombuffer(b"".join(parts), dtype)
    raise KeyError(name)
