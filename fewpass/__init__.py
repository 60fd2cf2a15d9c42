"""Linear and additive models on data larger than memory, in a few passes, each with a certificate.

    from fewpass import ingest, train, evaluate, predict, load_model
    from fewpass import LinearClassifier, LinearRegressor, ScoreCalibrator

The functions do what the commands of the same names do, the estimators keep scikit-learn's
contract, and each is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fewpass.storage.row_expansion import expand_by

if TYPE_CHECKING:
    from fewpass.pipeline.api import (
        abandon,
        append,
        cross_validate,
        evaluate,
        explain,
        forget,
        ingest,
        load_model,
        models,
        predict,
        publish,
        refresh,
        take,
        train,
    )
    from fewpass.pipeline.compiling_ahead import warm_up
    from fewpass.pipeline.models.estimators import (
        LinearClassifier,
        LinearRegressor,
        ScoreCalibrator,
        TableEncoder,
        from_run,
        mend_dask_ml,
    )
    from fewpass.pipeline.models.serving.loaded_model import LoadedModel, load
    from fewpass.pipeline.settings.execution import Execution
    from fewpass.pipeline.settings.ingest_plan import IngestPlan
    from fewpass.pipeline.settings.prediction_plan import EvaluationPlan, PredictionPlan
    from fewpass.pipeline.settings.refresh_plan import RefreshPlan
    from fewpass.pipeline.settings.source_options import SourceOptions
    from fewpass.pipeline.settings.training_plan import TrainingPlan
    from fewpass.pipeline.tables.showing.dataset_table import Dataset
    from fewpass.storage.column_schema import Schema
    from fewpass.storage.row_expansion import RowExpansion

__all__ = [
    "Dataset",
    "EvaluationPlan",
    "Execution",
    "IngestPlan",
    "LinearClassifier",
    "LinearRegressor",
    "LoadedModel",
    "PredictionPlan",
    "RefreshPlan",
    "ScoreCalibrator",
    "SourceOptions",
    "TableEncoder",
    "TrainingPlan",
    "abandon",
    "append",
    "cross_validate",
    "evaluate",
    "explain",
    "forget",
    "from_run",
    "ingest",
    "load",
    "load_model",
    "mend_dask_ml",
    "models",
    "predict",
    "publish",
    "refresh",
    "take",
    "train",
    "warm_up",
]

_HOMES = {
    "Dataset": "fewpass.pipeline.tables.showing.dataset_table",
    "EvaluationPlan": "fewpass.pipeline.settings.prediction_plan",
    "Execution": "fewpass.pipeline.settings.execution",
    "IngestPlan": "fewpass.pipeline.settings.ingest_plan",
    "PredictionPlan": "fewpass.pipeline.settings.prediction_plan",
    "RefreshPlan": "fewpass.pipeline.settings.refresh_plan",
    "SourceOptions": "fewpass.pipeline.settings.source_options",
    "TrainingPlan": "fewpass.pipeline.settings.training_plan",
    "LinearClassifier": "fewpass.pipeline.models.estimators",
    "LinearRegressor": "fewpass.pipeline.models.estimators",
    "ScoreCalibrator": "fewpass.pipeline.models.estimators",
    "TableEncoder": "fewpass.pipeline.models.estimators",
    "from_run": "fewpass.pipeline.models.estimators",
    "mend_dask_ml": "fewpass.pipeline.models.estimators",
    "LoadedModel": "fewpass.pipeline.models.serving.loaded_model",
    "load": "fewpass.pipeline.models.serving.loaded_model",
    "warm_up": "fewpass.pipeline.compiling_ahead",
}


def _expansion_in(schema: "Schema") -> "RowExpansion":
    """Return what the recipe of a schema makes of codes: the storage knows no recipes."""
    home = import_module("fewpass.pipeline.tables.encoding.expansion")
    expansion: RowExpansion = home.expansion_in(schema)
    return expansion


expand_by(_expansion_in)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fewpass' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "fewpass.pipeline.api")), name)


def __dir__() -> list[str]:
    return __all__
