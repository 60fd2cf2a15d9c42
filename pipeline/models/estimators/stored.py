"""Rows that are not in memory: files, data sets, Dask collections, arrays larger than the budget.

They become a data set on disk first, and are trained from there within the memory budget.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.estimators.encoded_rows import refuse_collection
from fewpass.pipeline.models.estimators.kinds_of_rows import is_collection, is_paths
from fewpass.pipeline.models.estimators.offsets import refuse_both
from fewpass.pipeline.models.estimators.work_folder import WorkFolder
from fewpass.pipeline.models.export.plain_model import as_labels
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.outcome import Trained
from fewpass.pipeline.settings.encoding import ADDITIVE, Encode
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan, ScalingKind
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.encoding.schema import feature_names, recipe_in
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.protocol import Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY, Labels

Task = Literal["classification", "regression"]
NO_KINDS: Mapping[str, str] = MappingProxyType({})


class Wanted(NamedTuple):
    """Settings of stored rows."""

    task: Task
    scale: ScalingKind
    memory: int
    seed: int
    test_fraction: float  # of the rows, held out; 0: none
    encode: Encode = "none"  # of files
    columns: Mapping[str, str] = NO_KINDS  # what columns of files hold, where that was said


class Stored(NamedTuple):
    """Rows as a data set."""

    dataset: Dataset
    target_dtype: np.dtype[Any] | None  # what labels were given as; None: files do not say
    held_out: str | None = None  # the data set of the rows that were held out

    @property
    def feature_names(self) -> NDArray[Any] | None:
        """Return the features' names (d,), where there are some."""
        names = feature_names(self.dataset.schema)
        return None if names is None else np.asarray(names, object)

    @property
    def labels(self) -> Labels:
        """Return the labels as they are stored, with the rows of each."""
        targets = self.dataset.manifest.targets
        assert isinstance(targets, Labels), "a classifier's data set has labels"
        return targets

    @property
    def classes(self) -> NDArray[Any]:
        """Return the labels (K,), ascending, in the type that they were given as."""
        labels = np.asarray(self.labels.labels)
        if labels.dtype.kind != "f":
            as_objects = self.target_dtype is not None and self.target_dtype.kind == "O"
            return labels.astype(object) if as_objects else labels
        if self.target_dtype is not None:
            return labels.astype(self.target_dtype)
        return as_labels(self.labels.labels)

    def total_weight(self, class_weight: Any) -> float:
        """Return the n of lam = A/n: the sum of the row weights, times what classes count."""
        weights = self.dataset.manifest.weights
        if not isinstance(class_weight, Mapping):
            return float(weights.total if weights else self.dataset.n_rows)
        counts = zip(self.classes.tolist(), self.labels.heft, strict=True)
        return math.fsum(class_weight.get(label, 1.0) * count for label, count in counts)

    def weights_by_label(self, class_weight: Any) -> Any:
        """Return class_weight by the labels' names, as plans have it; BadInput on unknown ones."""
        if not isinstance(class_weight, Mapping):
            return class_weight
        names = dict(zip(self.classes.tolist(), self.labels.labels, strict=True))
        unknown = [label for label in class_weight if label not in names]
        if unknown:
            raise BadInput(
                f"class_weight names the labels {unknown}, but the classes are {list(names)}. "
                "Leave them out."
            )
        return {label_text(names[label]): weight for label, weight in class_weight.items()}


def stored(
    X: Any, y: Any, sample_weight: Any, wanted: Wanted, folder: WorkFolder,
    offsets: Mapping[str, Any] | None = None,
) -> Stored:  # fmt: skip
    """Make a data set of rows, or take the one that X is.

    Raises
    ------
    BadInput
        When the rows cannot be stored so.
    """
    others = {name: given for name, given in (offsets or {}).items() if given is not None}
    if is_paths(X) and (dataset := _dataset_at(X)):
        named = {"y": y, "sample_weight": sample_weight, **others}
        _require_as_it_lies(dataset, named, wanted)
        return Stored(dataset, None)
    if is_paths(X):
        _require_encoded(others, wanted)
        options = SourceOptions(
            label=_column(y, "y"),
            weight=_column(sample_weight, "sample_weight"),
            offset=_column(others.get("offset"), "offset"),
            exposure=_column(others.get("exposure"), "exposure"),
            dtype="float64" if wanted.encode == "none" else "float32",
            encode=wanted.encode,
            column=dict(wanted.columns),
        )
        paths = X if isinstance(X, list | tuple) else [X]
        made = ingest(_plan([os.fspath(path) for path in paths], options, wanted, folder))
        return Stored(Dataset.open(folder.data), None, made.test_dataset)
    refuse_collection(wanted.encode)
    source = _dask_source(X, y, sample_weight, others)
    options = SourceOptions(dtype=source.dtype)
    made = ingest(_plan([source.name], options, wanted, folder), source=source)
    return Stored(Dataset.open(folder.data), source.target_dtype, made.test_dataset)


def _dask_source(X: Any, y: Any, sample_weight: Any, offsets: Mapping[str, Any]) -> Any:
    from fewpass.pipeline.tables.readers.collections import DaskSource  # noqa: PLC0415 - imports Dask

    if not is_collection(X):
        import dask.array as da  # noqa: PLC0415

        X = da.from_zarr(X)
    refuse_both(**offsets)
    return DaskSource(X, y, sample_weight, offsets)


def _plan(
    sources: list[str], options: SourceOptions, wanted: Wanted, folder: WorkFolder
) -> IngestPlan:
    where: dict[str, Any] = {"sources": sources, "dataset": folder.data, "options": options}
    settings = wanted._asdict()
    del settings["encode"], settings["columns"]  # which are options
    return IngestPlan(**where, **settings)


def _dataset_at(X: Any) -> Dataset | None:
    if isinstance(X, list | tuple):
        return None
    folder = Folder(os.fspath(X))
    return Dataset.open(folder) if folder.exists(KEY) else None


def _column(given: Any, name: str) -> str | int | None:
    if given is not None and not isinstance(given, str | int):
        raise BadInput(
            f"X names files, but {name} is {type(given).__name__}. Give the name of a column of "
            "theirs, or its position."
        )
    return given


def _require_encoded(others: Mapping[str, Any], wanted: Wanted) -> None:
    if others and wanted.encode == "none":
        raise BadInput(
            f"{next(iter(others))} of files is read where their columns are encoded. Give "
            "encode='auto', or the rows in memory."
        )


def _require_as_it_lies(dataset: Dataset, named: Mapping[str, Any], wanted: Wanted) -> None:
    manifest, place = dataset.manifest, dataset.folder.url
    for name, given in named.items():
        if given is not None:
            raise BadInput(f"{place} is a data set, which holds its own {name}. Leave it out.")
    if wanted.scale not in ("none", manifest.scaling.kind):
        raise BadInput(
            f"{place} was stored with scale={manifest.scaling.kind!r}, not {wanted.scale!r}. Leave "
            "scale out, or fit the files that it was made of."
        )
    if wanted.test_fraction:
        raise BadInput(
            f"{place} is a data set, of which no rows can be held out any more. Fit the files that "
            "it was made of, or train it with the command `fewpass train` and its `held_out`."
        )
    if manifest.scaling.kind == "unit-rows":
        raise BadInput(
            f"{place} has rows scaled to unit length, which no coef_ can undo. Train it with the "
            "command `fewpass train`."
        )
    if wanted.columns:
        raise BadInput(
            f"{place} is a data set, whose columns were encoded when it was made. Leave columns "
            "out, or fit the files that it was made of."
        )
    recipe = recipe_in(dataset.schema)
    if wanted.encode in ADDITIVE and (recipe is None or recipe.additive is None):
        raise BadInput(
            f"{place} is a data set without curves. Leave encode out, or fit the files that it was "
            "made of."
        )
    if wanted.encode == "always" and recipe is None:
        raise BadInput(
            f"{place} is a data set of numbers as they came. Leave encode out, or fit the files "
            "that it was made of."
        )
    labelled = isinstance(manifest.targets, Labels)
    if wanted.task == "classification" and not labelled:
        raise BadInput(f"The targets of {place} are numbers, not labels. Use LinearRegressor.")


def train_stored(
    plan: TrainingPlan,
    url: str,
    scheduler: Any,
    start_at: tuple[Weights, int] | None,
    is_stopping: Callable[[], bool],
    on_event: Callable[[Event], None] = lambda _: None,
) -> Trained:
    """Train a run at `url`, or go on with it; without a scheduler, in threads of this process.

    Raises
    ------
    InterruptedError
        When it is to stop: after a snapshot.
    """
    place = Execution(scheduler="none" if scheduler is None else scheduler)
    with open_executor(place, "an estimator's fit") as executor:
        run = TrainingRun.start(plan, url, executor, start_at=start_at)
        for event in run:
            on_event(event)
            if is_stopping():
                run.stop()
        if not run.finished:
            raise InterruptedError("The training was stopped before its end.")
        assert run.newest is not None, "a finished run has a last snapshot"
        return Trained.of(run.newest, run.plan, run.problem)
