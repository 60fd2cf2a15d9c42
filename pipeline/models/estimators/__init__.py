"""Estimators with scikit-learn's contract.

`LinearClassifier` and `LinearRegressor` train on rows in memory (NumPy, SciPy, pandas, polars,
Arrow) without touching a disk, and on files, data sets and Dask collections within a budget.
`TableEncoder` makes numbers of words, dates and gaps, `ScoreCalibrator` probabilities of scores.
"""
