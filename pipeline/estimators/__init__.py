"""Estimators with scikit-learn's contract.

`LinearClassifier` and `LinearRegressor` train on rows in memory (NumPy, SciPy, pandas, polars,
Arrow) without touching a disk, and on files, data sets and Dask collections within a budget.
`ScoreCalibrator` makes probabilities of scores.
"""

from pipeline.estimators.calibrator import ScoreCalibrator
from pipeline.estimators.classifier import LinearClassifier
from pipeline.estimators.dask_ml_searches import mend_dask_ml
from pipeline.estimators.from_run import from_run
from pipeline.estimators.regressor import LinearRegressor

__all__ = ["LinearClassifier", "LinearRegressor", "ScoreCalibrator", "from_run", "mend_dask_ml"]
