"""A Dask dataframe within a budget of memory: python examples/dask_frame.py [ROWS]"""

import sys

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd

from fewpass import LinearClassifier

n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
PARTITIONS, COLUMNS = 8, 12


def partition(number):
    """Some rows, made where they are needed."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((n_rows // PARTITIONS, COLUMNS))
    score = X @ np.linspace(-1.0, 1.0, COLUMNS) + rng.logistic(size=len(X))
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(COLUMNS)])
    return frame.assign(clicked=np.where(score > 0.0, "yes", "no"))


make = dask.delayed(partition)
frame = dd.from_delayed([make(k) for k in range(PARTITIONS)], meta=partition(0).iloc[:0])

model = LinearClassifier(memory="256MB").fit(frame, "clicked")
print(f"{model.solver_}, {model.passes_:.3g} passes, certified to {model.certificate_:.1e}")
print(f"{model.score(frame, 'clicked'):.4f} of the rows are right")

probabilities = model.predict_proba(frame.drop(columns="clicked"))  # a dask.array, not computed
print("Mean probability of a click:", float(probabilities[:, 1].mean().compute()))
assert model.certificate_ <= 1e-6
