"""What the commands do, as functions: see `fewpass` for the list."""

from fewpass.pipeline.api.making_data_sets import append, forget, ingest
from fewpass.pipeline.api.publishing_models import abandon, models, publish, refresh, take
from fewpass.pipeline.api.training_models import cross_validate, train
from fewpass.pipeline.api.using_models import evaluate, explain, load_model, predict

__all__ = [
    "abandon",
    "append",
    "cross_validate",
    "evaluate",
    "explain",
    "forget",
    "ingest",
    "load_model",
    "models",
    "predict",
    "publish",
    "refresh",
    "take",
    "train",
]
