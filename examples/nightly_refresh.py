"""Every night new rows, and a model of them: python examples/nightly_refresh.py [ROWS]

`prefect run refresh` does the same on a schedule, and shows it on Prefect's pages.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from fewpass import models, predict, refresh

n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
NIGHTS, COLUMNS = 3, 8


def write_night(path, night):
    """The rows of one day."""
    rng = np.random.default_rng(night)
    X = rng.standard_normal((n_rows, COLUMNS)).round(4)
    y = X @ np.linspace(-1.0, 1.0, COLUMNS) + rng.logistic(size=n_rows) > 0.0
    head = ",".join([*(f"x{k}" for k in range(COLUMNS)), "bought"])
    np.savetxt(path, np.column_stack([X, y]), fmt="%.6g", delimiter=",", header=head, comments="")


with tempfile.TemporaryDirectory() as folder:
    inbox, store = Path(folder) / "inbox", Path(folder) / "store"
    inbox.mkdir()
    nightly = partial(refresh, inbox / "*.csv", store, settle=0, label="bought", lam="1/n")
    for night in range(NIGHTS):
        write_night(inbox / f"{night}.csv", night)
        print(nightly().message)
    print("once more:", nightly().message)

    learnt = [len(one.nights) for one in models(store).generations]
    print(f"nights that each model has learnt from: {learnt}")
    scored = predict(store, inbox / "0.csv", Path(folder) / "scores.parquet", label="bought")
    print(f"{scored.rows:,} rows scored by the published model")
    assert scored.rows == n_rows
