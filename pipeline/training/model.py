"""The numbers that a trained run hands on: a linear function, and how to feed it raw rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import BadInput
from pipeline.streaming.span import Job
from pipeline.training.plan import problem_of
from pipeline.training.run_folder import RunFolder, RunRecord, Saved
from solvers.protocol import Weights
from storage.dataset import Dataset


class Model(NamedTuple):
    """A run's newest weights with the record of what they were trained on."""

    run: RunFolder
    record: RunRecord
    snapshot: str
    weights: Weights
    lam: float
    scale: NDArray[np.float64] | None  # (d,) stored value = (raw - shift) * scale
    shift: NDArray[np.float64] | None  # (d,)


def load_model(run: RunFolder) -> Model:
    """Read the newest whole snapshot; BadInput when the run has none yet."""
    record = run.record()
    snapshot, _ = run.snapshots.latest()
    if snapshot is None:
        raise BadInput(f"The run {run.url} has no snapshot yet. Finish it with fewpass resume.")
    arrays = snapshot.arrays
    saved = Saved.of(snapshot)
    return Model(
        run, record, snapshot.name, saved.weights, trained_lam(record, saved),
        arrays.get("scale"), arrays.get("shift"),
    )  # fmt: skip


def trained_lam(record: RunRecord, saved: Saved) -> float:
    """Return the strength of regularisation that a snapshot's weights were trained with."""
    return saved.choice.lam if saved.choice else problem_of(record.plan, record).lam


def read_weights(run: RunFolder, snapshot: str, dataset: Dataset) -> Weights:
    """Read the weights of one snapshot for a data set's stored rows: how they get onto a worker."""
    return stored_weights(Saved.of(run.snapshots.load(snapshot)).weights, dataset)


def stored_weights(weights: Weights, dataset: Dataset) -> Weights:
    """Return weights, which are in the order of the source, as a data set's stored rows are."""
    return weights._replace(coef=dataset.column_order.stored(weights.coef))


def sourced_weights(weights: Weights, dataset: Dataset) -> Weights:
    """Return weights that were found on a data set's stored rows in the order of the source."""
    return weights._replace(coef=dataset.column_order.sourced(weights.coef))


def require_same_columns(record: RunRecord, dataset: Dataset) -> None:
    """Refuse a data set whose columns are not those that a model was trained on."""
    manifest = dataset.manifest
    if manifest.n_features != record.n_features:
        raise BadInput(
            f"{dataset.folder.url} has {manifest.n_features} features, but the model has "
            f"{record.n_features}. Ingest it with --like {record.plan.dataset}."
        )
    if manifest.scaling != record.scaling:
        raise BadInput(
            f"{dataset.folder.url} is scaled differently ({manifest.scaling.kind}) from the data "
            f"that the model was trained on ({record.scaling.kind}). "
            f"Ingest it with --like {record.plan.dataset}."
        )


def weights_to_start_at(run: str, job: Job) -> tuple[Weights, int]:
    """Return a run's newest weights for another training, and the rows that they learnt from.

    They are in the stored order of the job's columns.

    Raises BadInput when there are none yet, or they are of other columns or classes.
    """
    newest, _ = RunFolder(run).snapshots.latest()
    if newest is None:
        raise BadInput(f"The run {run} has no snapshot to start from. Finish it first.")
    saved = Saved.of(newest)
    shape, found = weights_shape(job), saved.weights.coef.shape
    if found != shape:
        raise BadInput(
            f"The model of {run} has {told_shape(found)}, but {job.dataset.folder.url} needs "
            f"{told_shape(shape)}. Ingest the data with --like."
        )
    weights = stored_weights(saved.weights, job.dataset)
    return weights, saved.cursor.rows_before + saved.cursor.rows_seen


def weights_shape(job: Job) -> tuple[int, ...]:
    """Return the shape of the coefficients that a job trains."""
    return (job.rule.n_classes, job.facts.d) if job.rule.n_classes else (job.facts.d,)


def told_shape(shape: tuple[int, ...]) -> str:
    """Say what a shape of coefficients means."""
    return f"{shape[-1]} features" + (f" and {shape[0]} classes" if len(shape) == 2 else "")
