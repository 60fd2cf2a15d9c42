"""Models as MLflow's: `save_model`, `log_model`, and what loads them again."""

from fewpass.pipeline.models.mlflow_flavour import _load_pyfunc, log_model, save_model

__all__ = ["_load_pyfunc", "log_model", "save_model"]
