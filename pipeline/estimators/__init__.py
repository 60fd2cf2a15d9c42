"""Estimators with scikit-learn's contract.

`LinearClassifier` and `LinearRegressor` train on rows in memory (NumPy, SciPy, pandas, polars,
Arrow) without touching a disk, and on files, data sets and Dask collections within a budget.
`TableEncoder` makes numbers of words, dates and gaps, `ScoreCalibrator` probabilities of scores.
"""

from pipeline.estimators.calibrator import ScoreCalibrator
from pipeline.estimators.classifier import LinearClassifier
from pipeline.estimators.dask_ml_searches import mend_dask_ml
from pipeline.estimators.from_run import from_run
from pipeline.estimators.regressor import LinearRegressor
from pipeline.estimators.table_encoder import TableEncoder

__all__ = [
    "LinearClassifier",
    "LinearRegressor",
    "ScoreCalibrator",
    "TableEncoder",
    "from_run",
    "mend_dask_ml",
]
