"""From a file to a model with other libraries, each a whole process.

    python -m benchmarks.suite.file_peers NAME FILE MODEL.npy

MODEL.npy is the weights, the intercept last.  One epoch of averaged SGD wherever that is what is
fitted, the alpha of ours, float32 where the library keeps it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np


def averaged_sgd(n: int) -> Any:
    """SGDClassifier as our one pass: one epoch, averaged, lam = 10/n."""
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(loss="log_loss", alpha=10.0 / n, average=True, max_iter=1, tol=None)


def svmlight(path: str) -> Any:
    """Rows and labels by scikit-learn's own reader."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(path, dtype=np.float32)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # fits need that
    return X, y


def scikit_learn_sgd(path: str) -> np.ndarray:
    """load_svmlight_file, SGDClassifier."""
    X, y = svmlight(path)
    return of(averaged_sgd(len(y)).fit(X, y))


def scikit_learn_logistic(path: str) -> np.ndarray:
    """load_svmlight_file, LogisticRegression (L-BFGS)."""
    from sklearn.linear_model import LogisticRegression

    X, y = svmlight(path)
    return of(LogisticRegression(C=0.1, max_iter=100).fit(X, y))


def liblinear(path: str) -> np.ndarray:
    """LIBLINEAR's reader, its dual logistic regression."""
    from liblinear.liblinearutil import svm_read_problem, train

    y, X = svm_read_problem(path, return_scipy=True)
    model = train(y, X, "-s 7 -c 0.1 -B 1 -q")
    sign = 1.0 if model.get_labels()[0] == 1 else -1.0
    return sign * np.array(model.w[: X.shape[1] + 1])


def snapml(path: str) -> np.ndarray:
    """Snap ML's own reader, its dual logistic regression on two threads."""
    from snapml import LogisticRegression
    from snapml.Loaders import load_from_svmlight_format

    rows = load_from_svmlight_format(path)
    return of(LogisticRegression(regularizer=10.0, n_jobs=2, fit_intercept=True).fit(rows))


def polars_sgd(path: str) -> np.ndarray:
    """polars' reader, SGDClassifier."""
    import polars as pl

    table = pl.read_csv(path) if path.endswith(".csv") else pl.read_parquet(path)
    y = table.get_column("y").to_numpy()
    return of(averaged_sgd(len(y)).fit(table.drop("y").to_numpy().astype(np.float32), y))


def pandas_sgd(path: str) -> np.ndarray:
    """pandas' reader, SGDClassifier."""
    import pandas as pd

    table = pd.read_csv(path, dtype=np.float32) if path.endswith(".csv") else pd.read_parquet(path)
    y = table.pop("y").to_numpy()
    return of(averaged_sgd(len(y)).fit(table.to_numpy(np.float32), y))


def dask_ml_sgd(path: str) -> np.ndarray:
    """dask.dataframe's reader, dask-ml's Incremental around SGDClassifier."""
    import dask.dataframe as dd
    from dask_ml.wrappers import Incremental

    table = dd.read_csv(path) if path.endswith(".csv") else dd.read_parquet(path)
    rows = table.to_dask_array(lengths=True).persist().astype(np.float32)
    model = Incremental(averaged_sgd(rows.shape[0]), shuffle_blocks=False)
    return of(model.fit(rows[:, :-1], rows[:, -1], classes=[0, 1]).estimator_)


def of(model: Any) -> np.ndarray:
    """Return a linear model's weights, the intercept last."""
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_))


if __name__ == "__main__":
    name, source, place = sys.argv[1:]
    np.save(Path(place), globals()[name](source))
