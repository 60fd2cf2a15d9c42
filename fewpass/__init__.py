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
    from fewpass.pipeline.api.making_data_sets import append as append
    from fewpass.pipeline.api.making_data_sets import forget as forget
    from fewpass.pipeline.api.making_data_sets import ingest as ingest
    from fewpass.pipeline.api.publishing_models import abandon as abandon
    from fewpass.pipeline.api.publishing_models import models as models
    from fewpass.pipeline.api.publishing_models import publish as publish
    from fewpass.pipeline.api.publishing_models import refresh as refresh
    from fewpass.pipeline.api.publishing_models import take as take
    from fewpass.pipeline.api.training_models import cross_validate as cross_validate
    from fewpass.pipeline.api.training_models import train as train
    from fewpass.pipeline.api.using_models import evaluate as evaluate
    from fewpass.pipeline.api.using_models import explain as explain
    from fewpass.pipeline.api.using_models import load_model as load_model
    from fewpass.pipeline.api.using_models import predict as predict
    from fewpass.pipeline.compiling_ahead import warm_up as warm_up
    from fewpass.pipeline.models.estimators.calibrator import ScoreCalibrator as ScoreCalibrator
    from fewpass.pipeline.models.estimators.classifier import LinearClassifier as LinearClassifier
    from fewpass.pipeline.models.estimators.dask_ml_searches import mend_dask_ml as mend_dask_ml
    from fewpass.pipeline.models.estimators.of_run import from_run as from_run
    from fewpass.pipeline.models.estimators.regressor import LinearRegressor as LinearRegressor
    from fewpass.pipeline.models.estimators.table_encoder import TableEncoder as TableEncoder
    from fewpass.pipeline.models.serving.loaded_model import LoadedModel as LoadedModel
    from fewpass.pipeline.models.serving.loaded_model import load as load
    from fewpass.pipeline.settings.execution import Execution as Execution
    from fewpass.pipeline.settings.ingest_plan import IngestPlan as IngestPlan
    from fewpass.pipeline.settings.prediction_plan import EvaluationPlan as EvaluationPlan
    from fewpass.pipeline.settings.prediction_plan import PredictionPlan as PredictionPlan
    from fewpass.pipeline.settings.refresh_plan import RefreshPlan as RefreshPlan
    from fewpass.pipeline.settings.source_options import SourceOptions as SourceOptions
    from fewpass.pipeline.settings.training_plan import TrainingPlan as TrainingPlan
    from fewpass.pipeline.tables.showing.dataset_table import Dataset as Dataset
    from fewpass.storage.column_schema import Schema
    from fewpass.storage.row_expansion import RowExpansion

#: The names that are offered, by their module; type checkers read them above.
_OFFERED = {
    "api.making_data_sets": ("append", "forget", "ingest"),
    "api.publishing_models": ("abandon", "models", "publish", "refresh", "take"),
    "api.training_models": ("cross_validate", "train"),
    "api.using_models": ("evaluate", "explain", "load_model", "predict"),
    "compiling_ahead": ("warm_up",),
    "models.estimators.calibrator": ("ScoreCalibrator",),
    "models.estimators.classifier": ("LinearClassifier",),
    "models.estimators.dask_ml_searches": ("mend_dask_ml",),
    "models.estimators.of_run": ("from_run",),
    "models.estimators.regressor": ("LinearRegressor",),
    "models.estimators.table_encoder": ("TableEncoder",),
    "models.serving.loaded_model": ("LoadedModel", "load"),
    "settings.execution": ("Execution",),
    "settings.ingest_plan": ("IngestPlan",),
    "settings.prediction_plan": ("EvaluationPlan", "PredictionPlan"),
    "settings.refresh_plan": ("RefreshPlan",),
    "settings.source_options": ("SourceOptions",),
    "settings.training_plan": ("TrainingPlan",),
    "tables.showing.dataset_table": ("Dataset",),
}
HOMES = {name: home for home, names in _OFFERED.items() for name in names}
__all__ = sorted(HOMES)  # noqa: PLE0605 - of text, and type checkers need it not
LACKING = (
    "{} needs scikit-learn, which is not installed. Install it with "
    "pip install 'fewpass[scikit-learn]'."
)


def _expansion_in(schema: "Schema") -> "RowExpansion":
    """Return what the recipe of a schema makes of codes: the storage knows no recipes."""
    home = import_module("fewpass.pipeline.tables.encoding.expansion")
    expansion: RowExpansion = home.expansion_in(schema)
    return expansion


expand_by(_expansion_in)


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'fewpass' has no attribute {name!r}")
    try:
        return getattr(import_module(f"fewpass.pipeline.{HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in {"scipy", "sklearn"}:
            raise
        raise ModuleNotFoundError(LACKING.format(name), name=error.name) from error


def __dir__() -> list[str]:
    return __all__
