"""Estimators with scikit-learn's contract.

`LinearClassifier` and `LinearRegressor` train on rows in memory: NumPy arrays, SciPy matrices,
pandas, polars and Arrow tables.  Nothing touches a disk.
"""

from pipeline.estimators.classifier import LinearClassifier
from pipeline.estimators.regressor import LinearRegressor

__all__ = ["LinearClassifier", "LinearRegressor"]
