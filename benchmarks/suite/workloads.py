"""The rows that contestants compete on: four made sets and three real ones, as plain arrays.

    D1   500,000 x 54          dense, N(0, 1) / sqrt(d)
    D2   100,000 x 2,000       dense, the same
    S1   700,000 x 47,236      sparse, about 88 values a row
    S2    50,000 x 1,300,000   sparse, about 470 values a row

All float32.  Sparse rows have unit length; a value's column is drawn with probability
1 / (10 + rank), columns ranked in random order, values uniform on (0.1, 1.1), a column drawn twice
counts as one.  Labels: the sign of a random linear score with noise (0.3 of its spread) about its
median.  mnist, kddcup99 (one-hot) and imdb are the public sets; labels of two classes: 9 or not,
attack or not, liked or not.  imdb-raw has imdb's rows as they lie, and counts are made texts whose
words are counted (testing/synthetic.py), one of 20 classes or not.

Each is made once, below a folder, as .npy files; contestants load them.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from benchmarks.data_sets import idx, public_data
from fewpass.pipeline.rows.windows import shuffled_blocks
from fewpass.solvers.drive import Orders
from testing.synthetic import word_counts

MADE = {"D1": (500_000, 54, 0), "D2": (100_000, 2_000, 0),
        "S1": (700_000, 47_236, 95), "S2": (50_000, 1_300_000, 490)}  # fmt: skip
DENSE = ("D1", "D2", "mnist")
SPARSE = ("S1", "S2", "kddcup99", "imdb", "imdb-raw", "counts")
BLOCK = 50_000  # rows made at a time
SHRUNK = 50  # toy sizes have so many times fewer rows


class Shape(NamedTuple):
    """What a set weighs."""

    n: int
    d: int
    values: int

    @property
    def n_bytes(self) -> int:
        """Bytes of the values, and of their columns where these are stored."""
        return self.values * (4 if self.values == self.n * self.d else 8)


def prepare(name: str, folder: Path, *, quick: bool) -> Path:
    """Make the set's files unless they are there; returns their folder."""
    place = folder / f"{name}{'-quick' if quick else ''}"
    if not (place / "y.npy").exists():
        place.mkdir(parents=True, exist_ok=True)
        X, y = made(name, quick=quick) if name in MADE else REAL[name](quick)
        save(place, X, y)
    return place


def save(place: Path, X: Any, y: np.ndarray) -> None:
    """Write arrays; the targets last, as they say that all is there."""
    if isinstance(X, np.ndarray):
        np.save(place / "X.npy", X)
    else:
        np.save(place / "data.npy", X.data.astype(np.float32))
        np.save(place / "indices.npy", X.indices.astype(np.int32))
        np.save(place / "indptr.npy", X.indptr.astype(np.int64))
        np.save(place / "d.npy", np.array(X.shape[1]))
    np.save(place / "y.npy", y)


def load(place: Path) -> tuple[Any, np.ndarray]:
    """Read a set into memory: a NumPy array or a CSR matrix, and targets -1 and +1."""
    y = np.load(place / "y.npy")
    if (place / "X.npy").exists():
        return np.load(place / "X.npy"), y
    parts = (np.load(place / f"{name}.npy") for name in ("data", "indices", "indptr"))
    X = csr_matrix(tuple(parts), shape=(len(y), int(np.load(place / "d.npy"))))
    X.has_sorted_indices = X.has_canonical_format = True
    return X, y


def shape(place: Path) -> Shape:
    """Return what a set weighs, without reading it."""
    n = len(np.load(place / "y.npy", mmap_mode="r"))
    if (place / "X.npy").exists():
        d = np.load(place / "X.npy", mmap_mode="r").shape[1]
        return Shape(n, d, n * d)
    values = len(np.load(place / "data.npy", mmap_mode="r"))
    return Shape(n, int(np.load(place / "d.npy")), values)


def made(name: str, *, quick: bool) -> tuple[Any, np.ndarray]:
    """Draw a set."""
    n, d, drawn = MADE[name]
    n //= SHRUNK if quick else 1
    rng = np.random.default_rng(0)
    w = rng.standard_normal(d).astype(np.float32)
    if not drawn:
        X: Any = rng.standard_normal((n, d), dtype=np.float32)
        X /= np.float32(np.sqrt(d))
    else:
        X = sparse_rows(rng, n, d, drawn)
    return X, labels(X @ w, rng)


def sparse_rows(rng: np.random.Generator, n: int, d: int, drawn: int) -> csr_matrix:
    """Draw unit rows, block by block."""
    frequency, ranked = np.cumsum(1.0 / (10.0 + np.arange(d))), rng.permutation(d)
    data, indices, lengths = [], [], []
    for first in range(0, n, BLOCK):
        rows = min(BLOCK, n - first)
        ranks = np.searchsorted(frequency, rng.random(rows * drawn) * frequency[-1])
        values = rng.random(rows * drawn, dtype=np.float32) + np.float32(0.1)
        columns = ranked[np.minimum(ranks, d - 1)].astype(np.int32)
        X = csr_matrix((values, columns, np.arange(rows + 1) * drawn), shape=(rows, d))
        X.sum_duplicates()
        counts = np.diff(X.indptr)
        X.data /= np.sqrt(np.repeat(np.add.reduceat(X.data**2, X.indptr[:-1]), counts))
        data.append(X.data)
        indices.append(X.indices)
        lengths.append(counts)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    return csr_matrix((np.concatenate(data), np.concatenate(indices), indptr), shape=(n, d))


def training_orders(n: int, seed: int = 0) -> Orders:
    """Every turn through the rows is an order as later passes of a training draw it."""
    rng = np.random.default_rng
    return lambda sweep, turn: shuffled_blocks(np.arange(n), rng([seed, sweep, turn]))


def labels(score: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Split at the median of a noisy score."""
    noisy = score + 0.3 * score.std() * rng.standard_normal(len(score))
    return np.where(noisy > np.median(noisy), 1.0, -1.0)


def mnist(quick: bool) -> tuple[Any, np.ndarray]:
    """60,000 images of 784 pixels in [0, 1]; 9 or not."""
    folder = public_data("mnist")
    X = idx(folder / "train-images-idx3-ubyte.xz").reshape(60_000, -1)
    y = np.where(idx(folder / "train-labels-idx1-ubyte.xz") == 9, 1.0, -1.0)
    rows = slice(None, None, SHRUNK if quick else None)
    return X[rows].astype(np.float32) / np.float32(255), y[rows]


def kddcup99(quick: bool) -> tuple[Any, np.ndarray]:
    """494,021 connections: categories one-hot, numbers by their largest, unit rows; attack or not.

    In random order: the file is sorted by kind of attack.
    """
    with gzip.open(public_data("kddcup99_10pct/kddcup.data_10_percent.gz"), "rt") as file:
        table = np.array([line.rstrip("\n").split(",") for line in file])
    order = np.random.default_rng(0).permutation(len(table))
    table = table[order[:: SHRUNK if quick else 1]]
    parts = []
    for j in range(41):
        if j in (1, 2, 3):
            kinds, code = np.unique(table[:, j], return_inverse=True)
            parts.append(np.eye(len(kinds), dtype=np.float32)[code])
        else:
            numbers = table[:, [j]].astype(np.float32)
            parts.append(numbers / max(float(np.abs(numbers).max()), 1.0))
    X = np.concatenate(parts, axis=1)
    X /= np.sqrt((X**2).sum(axis=1, keepdims=True))
    return csr_matrix(X), np.where(table[:, 41] == "normal.", -1.0, 1.0)


def imdb(quick: bool) -> tuple[Any, np.ndarray]:
    """25,000 reviews as words and pairs of words, unit rows; liked or not."""
    X, y = imdb_raw(quick)
    X.data /= np.repeat(np.sqrt(np.diff(X.indptr)), np.diff(X.indptr)).astype(np.float32)
    return X, y


def imdb_raw(quick: bool) -> tuple[Any, np.ndarray]:
    """The same with a 1 for every word and pair of words."""
    with lzma.open(public_data("imdb/imdb_bigram.train.svm.xz")) as file:
        X, y = libsvm_rows(file)
    rows = slice(None, None, SHRUNK if quick else None)
    return X[rows].tocsr(), y[rows]


def libsvm_rows(file: Any) -> tuple[Any, np.ndarray]:
    """Read rows with scikit-learn, whose import takes most contestants longer than all they do."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(file, dtype=np.float32)
    return X, y


def libsvm(name: str) -> Callable[[bool], tuple[Any, np.ndarray]]:
    """Return what reads a packed LIBSVM file of two classes."""

    def read(quick: bool) -> tuple[Any, np.ndarray]:
        path = public_data(FILES[name])
        with lzma.open(path) if path.suffix == ".xz" else bz2.open(path) as file:
            X, y = libsvm_rows(file)
        rows = slice(None, None, SHRUNK if quick else None)
        return X[rows].tocsr(), np.where(y[rows] > 0.0, 1.0, -1.0)

    return read


def counts(quick: bool) -> tuple[Any, np.ndarray]:
    """12,000 texts of lognormal length, their words counted; the first of 20 classes or not."""
    X, label = word_counts()
    rows = slice(None, None, SHRUNK if quick else None)
    return X[rows].tocsr(), np.where(label == 0.0, 1.0, -1.0)[rows]


FILES = {"reuters": "reuters/reuters.trn.bz2", "w8a": "w8a/w8a.xz", "a9a": "a9a/a9a.xz"}
REAL: dict[str, Callable[[bool], tuple[Any, np.ndarray]]] = {
    "mnist": mnist, "kddcup99": kddcup99, "imdb": imdb, "imdb-raw": imdb_raw, "counts": counts,
    **{name: libsvm(name) for name in FILES},
}  # fmt: skip
