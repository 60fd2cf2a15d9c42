"""sector: 105 classes of text, a model per class."""

from __future__ import annotations

import bz2
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data_sets import public_data
from benchmarks.suite.one_pass import Work
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.phases import ingest

WIDTH = 55_197
TRAIN = "sector/sector.scale.bz2"


def sector_set(folder: Path) -> Path:
    """Ingest the training rows; a set of an earlier run, of other sources maybe, makes way."""
    place, width = str(folder / "sector"), {"n_features": WIDTH}
    ingest(
        IngestPlan(sources=(str(public_data(TRAIN)),), dataset=place, options=width, overwrite=True)
    )
    return Path(place)


def linear_svc() -> Work:
    """LIBLINEAR's dual solver through scikit-learn, default tolerance, rows already in memory."""
    from sklearn.datasets import load_svmlight_file
    from sklearn.svm import LinearSVC

    with bz2.open(public_data(TRAIN)) as file:
        X, y = load_svmlight_file(file, n_features=WIDTH)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    model = LinearSVC(C=1.0, loss="squared_hinge", dual=True, fit_intercept=False)

    def work() -> dict[str, Any]:
        model.fit(X, y)
        return {"passes": int(np.max(model.n_iter_))}

    return work
