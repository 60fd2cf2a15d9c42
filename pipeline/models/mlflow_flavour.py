"""A run's model in MLflow's own form: a pyfunc with its signature, and the run inside.

`fewpass.mlflow` has these functions; MLflow finds `_load_pyfunc` there.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.named_run import run_at
from fewpass.pipeline.models.serving.loaded_model import LoadedModel, load
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.runs.model import Model, load_model
from fewpass.pipeline.runs.run_folder import KEY
from fewpass.storage.folder import Folder

#: The module that MLflow asks for the model, and what the run is called inside.
LOADER, _RUN = "fewpass.mlflow", "run"
#: What MLflow writes into each of its models.
_MARK = "MLmodel"
_NO_EXAMPLE = r"(?s).*input example was not provided"


def save_model(
    run: str, path: str | os.PathLike[str], *, input_example: Any = None, overwrite: bool = False
) -> int:
    """Write a run's model as a folder that `mlflow.pyfunc.load_model` reads.

    Its `predict(frame)` returns a frame with the columns of ``fewpass predict --probability``:
    `predicted` and, of labels, `score` and, where there are, probabilities.

    Parameters
    ----------
    run
        Folder or address of a run, or of a store that has published one.
    path
        Folder to write; it appears only if complete.
    input_example
        A few rows, as a frame of pandas, which are stored [default: none].
    overwrite
        Replace a folder that holds a model of MLflow.

    Returns
    -------
    int
        Bytes written.

    Raises
    ------
    BadInput
        The library is missing, the folder may not be replaced, or the model is none that
        `fewpass.load` takes: see there.
    """
    place = Path(path)
    if place.exists() and not (overwrite and (place / _MARK).is_file()):
        advice = "Choose another place." if overwrite else "Say overwrite=true, or choose another."
        raise BadInput(f"{place} exists already. {advice}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as work:
        made = Path(work) / "model"
        with _inside(run, input_example) as inside:
            _pyfunc().save_model(made, **inside)
        if place.exists():
            place.rename(Path(work) / "before")
        made.rename(place)
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


def log_model(run: str, name: str = "model", *, input_example: Any = None, **more: Any) -> Any:
    """Log a run's model to the tracking server of MLflow's active run.

    Parameters
    ----------
    run, input_example
        As for `save_model`.
    name
        Name of the model there.
    more
        Handed to `mlflow.pyfunc.log_model`, such as `registered_model_name`.

    Returns
    -------
    mlflow.models.model.ModelInfo

    Raises
    ------
    BadInput
        As for `save_model`.
    """
    with _inside(run, input_example) as inside:
        return _pyfunc().log_model(name=name, **inside, **more)


def _pyfunc() -> Any:
    try:
        import mlflow.pyfunc  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise BadInput(
            "The library mlflow is not installed. Install fewpass[mlflow], or mlflow itself."
        ) from error
    return mlflow.pyfunc


@contextmanager
def _inside(run: str, input_example: Any) -> Iterator[dict[str, Any]]:
    """Yield what MLflow's model is made of: a copy of the run's newest snapshot among it."""
    _pyfunc()  # refuses, where it is missing, before anything is read
    model = load_model(run_at(run))
    loaded = load(model.run.url)  # of a store, which may have published another one since
    with tempfile.TemporaryDirectory() as work, warnings.catch_warnings():
        warnings.filterwarnings("ignore", _NO_EXAMPLE)
        folder = Folder(f"{work}/{_RUN}")
        for key in (KEY, *_of_snapshot(model)):
            folder.write(key, model.run.folder.read(key))
        requirement = f"fewpass=={version('fewpass')}"
        yield {
            "loader_module": LOADER,
            "data_path": folder.url,
            "signature": _signature(loaded),
            "input_example": input_example,
            "pip_requirements": [requirement, "pandas"],
        }


def _of_snapshot(model: Model) -> list[str]:
    return [f"snapshots/{key}" for key in model.run.snapshots.files(model.snapshot)]


def _signature(loaded: LoadedModel) -> Any:
    """Return the columns that a model takes, of any type that `load` does, and gives."""
    models, types = (import_module(f"mlflow.{name}") for name in ("models", "types.schema"))
    ColSpec, DataType = types.ColSpec, types.DataType
    # A type of MLflow's refuses whole numbers for fractions, categories for words, and gaps.
    inputs = [ColSpec(types.AnyType(), name, required=False) for name in loaded.columns]
    labels = DataType.string
    if loaded.classes is None or not isinstance(loaded.classes[0], str):
        labels = DataType.double if loaded.classes is None else _whole(loaded.classes, DataType)
    outputs = [ColSpec(labels, "predicted")]
    outputs += [ColSpec(DataType.double, name) for name in _score_names(loaded)]
    return models.ModelSignature(types.Schema(inputs), types.Schema(outputs))


def _whole(classes: tuple[Any, ...], types: Any) -> Any:
    return types.long if isinstance(classes[0], int) else types.double


def _score_names(loaded: LoadedModel) -> list[str]:
    if loaded.classes is None:
        return []
    shares = [f"probability_{label_text(label)}" for label in loaded.classes]
    return ["score", *shares, "probability"] if loaded.has_probabilities else ["score"]


class _Predicted:
    """Model as MLflow calls it: rows in, a frame out."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded

    def predict(self, frame: Any, params: Any = None) -> Any:
        """Return the columns of ``fewpass predict --probability`` as a frame of pandas."""
        import pandas as pd  # noqa: PLC0415 - an extra

        del params
        return pd.DataFrame(_columns(self.loaded, frame), index=getattr(frame, "index", None))


def _columns(loaded: LoadedModel, rows: Any) -> dict[str, Any]:
    columns = {"predicted": loaded.predict(rows)}
    if loaded.classes is None:
        return columns
    every = loaded.decision_function(rows)
    best = every.argmax(axis=1) if every.ndim == 2 else (every > 0).astype(int)
    at = np.arange(len(every)), best
    columns["score"] = every[at] if every.ndim == 2 else every
    if loaded.has_probabilities:
        shares = loaded.predict_proba(rows)
        columns |= dict(zip(_score_names(loaded)[1:], shares.T, strict=False))
        columns["probability"] = shares[at] if every.ndim == 2 else shares[:, 1]
    return columns


def _load_pyfunc(path: str) -> _Predicted:
    """Return the model of a folder that MLflow has unpacked; MLflow calls this."""
    return _Predicted(load(path))
