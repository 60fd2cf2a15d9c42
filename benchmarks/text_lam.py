"""lam of text whose rows have unit length: chosen by default, beside a tuned LogisticRegressionCV.

    python -m benchmarks.text_lam

reuters as it is published, and the reviews of fine_foods as tf-idf of words and pairs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file, load_svmlight_files
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss

import fewpass
from benchmarks.data_sets import public_data
from fewpass.pipeline.training.chosen_lam import MULTIPLES
from testing.results import Row, conclude, recorded, study_options, table

PART = "text-lam"


class Half(NamedTuple):
    """Rows of unit length, with labels 0 and 1."""

    X: csr_matrix
    y: Any


def main() -> None:
    """Measure the sets that are asked for."""
    asked = study_options(__doc__, SETS).parse_args()
    measured = (_measured(name, asked.folder) for name in asked.sets)
    rows = recorded(asked.results, PART, measured, in_short)
    conclude(asked.results, PART, findings(rows), ("numpy", "scikit-learn"))


def _measured(name: str, folder: Path) -> Row:
    """Return the test loss of both sides."""
    train, test = SETS[name]()
    place = folder / "text-lam" / name
    place.mkdir(parents=True, exist_ok=True)
    began = time.process_time()
    loss, error, lam = _own(train, test, place)
    seconds = time.process_time() - began
    tuned = LogisticRegressionCV(
        Cs=[1.0 / c for c in MULTIPLES], scoring="neg_log_loss", cv=5, max_iter=1000
    )
    began = time.process_time()
    tuned.fit(train.X, train.y)
    theirs = tuned.predict_proba(test.X)[:, 1]
    return {
        "set": name, "rows": len(train.y), "lam": lam, "loss": loss, "error": error, "cpu": seconds,
        "tuned_c": 1.0 / float(np.ravel(tuned.C_)[0]),
        "tuned_loss": float(log_loss(test.y, theirs)),
        "tuned_error": float(np.mean((theirs > 0.5) != test.y)),
        "tuned_cpu": time.process_time() - began,
    }  # fmt: skip


def _own(train: Half, test: Half, place: Path) -> tuple[float, float, str]:
    """Train ours as it comes; return test loss, test error and the lam."""
    text, data, run = (str(place / name) for name in ("train.svm", "data", "run"))
    dump_svmlight_file(train.X, train.y, text, zero_based=False)
    fewpass.ingest(text, data, n_features=train.X.shape[1])
    done = fewpass.train(data, run, tol=1e-3)
    weights = fewpass.load_model(run).weights
    scores = test.X @ weights.coef + weights.intercept
    loss = float(np.logaddexp(0.0, np.where(test.y > 0, -scores, scores)).mean())
    assert done.lam_origin is not None, "lam was left open"
    return loss, float(np.mean((scores > 0.0) != test.y)), str(done.lam_origin["written"])


def _reuters() -> Iterator[Half]:
    halves = [str(public_data(f"reuters/reuters.{half}.bz2")) for half in ("trn", "tst")]
    X, y, others, theirs = load_svmlight_files(halves)
    yield from (Half(X, (y > 0).astype(int)), Half(others, (theirs > 0).astype(int)))


def _reviews() -> Iterator[Half]:
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, dtype=np.float64)
    for half in ("train", "test"):
        rows = pd.read_csv(public_data(f"tables/fine_foods_{half}.csv.xz"))
        text = rows["review"].fillna("").astype(str)
        X = words.fit_transform(text) if half == "train" else words.transform(text)
        yield Half(X, (rows["score"] == max(rows["score"])).to_numpy().astype(int))


SETS = {"reuters": _reuters, "fine_foods": _reviews}


def in_short(row: Row) -> str:
    """Say in a line what came of a set."""
    return ", ".join(f"{name} {value}" for name, value in row.items())


def findings(rows: list[Row]) -> list[str]:
    """Say how far ours is from the tuned one."""
    far = [f"{row['set']} {row['loss'] / row['tuned_loss'] - 1.0:+.1%}" for row in rows]
    return [f"Test log loss over that of the tuned model: {', '.join(far)}."]


def tables(rows: list[Row]) -> str:
    """Tabulate both sides."""
    head = (
        "set",
        "rows",
        "lam",
        "log loss, error",
        "CPU s",
        "tuned: c",
        "log loss, error",
        "CPU s",
    )
    cells = [
        [row["set"], f"{row['rows']:,}", row["lam"], f"{row['loss']:.4f}, {row['error']:.2%}",
         f"{row['cpu']:.1f}", f"{row['tuned_c']:g}",
         f"{row['tuned_loss']:.4f}, {row['tuned_error']:.2%}", f"{row['tuned_cpu']:.1f}"]
        for row in rows
    ]  # fmt: skip
    return table(head, cells, head[:1])


if __name__ == "__main__":
    main()
