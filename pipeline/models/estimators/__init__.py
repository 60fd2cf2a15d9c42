"""Estimators with scikit-learn's contract.

`LinearClassifier` and `LinearRegressor` train on rows in memory (NumPy, SciPy, pandas, polars,
Arrow) without touching a disk, and on files, data sets and Dask collections within a budget.
`TableEncoder` makes numbers of words, dates and gaps, `ScoreCalibrator` probabilities of scores.
Each is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fewpass.pipeline.models.estimators.calibrator import ScoreCalibrator
    from fewpass.pipeline.models.estimators.classifier import LinearClassifier
    from fewpass.pipeline.models.estimators.dask_ml_searches import mend_dask_ml
    from fewpass.pipeline.models.estimators.of_run import from_run
    from fewpass.pipeline.models.estimators.regressor import LinearRegressor
    from fewpass.pipeline.models.estimators.table_encoder import TableEncoder

__all__ = [
    "LinearClassifier",
    "LinearRegressor",
    "ScoreCalibrator",
    "TableEncoder",
    "from_run",
    "mend_dask_ml",
]

LACKING = (
    "{} needs scikit-learn, which is not installed. Install it with "
    "pip install 'fewpass[scikit-learn]'."
)
_HOMES = {
    "LinearClassifier": "classifier",
    "LinearRegressor": "regressor",
    "ScoreCalibrator": "calibrator",
    "TableEncoder": "table_encoder",
    "from_run": "of_run",
    "mend_dask_ml": "dask_ml_searches",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(
            f"module 'fewpass.pipeline.models.estimators' has no attribute {name!r}"
        )
    try:
        globals()[name] = asked = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in {"scipy", "sklearn"}:
            raise
        raise ModuleNotFoundError(LACKING.format(name), name=error.name) from error
    return asked


def __dir__() -> list[str]:
    return __all__
