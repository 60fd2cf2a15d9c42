"""The numbers that a trained run hands on: a linear function, and how to feed it raw rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.calibration import Calibration
from fewpass.pipeline.errors import BadInput, PlanMismatch
from fewpass.pipeline.matching import Matched, listed, match_features
from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.planning.problem import loss_word
from fewpass.pipeline.rows.scaling import Scaler, unscaled
from fewpass.pipeline.rows.targets import Bounds, TargetRule, clip_range, target_rule, union_of
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.saved import Saved, is_of_model, require_array, unfit
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.pipeline.sizes import counted
from fewpass.solvers.protocol import Solver, State, Weights
from fewpass.solvers.registry import loss_class
from fewpass.storage.addresses import command
from fewpass.storage.column_schema import Schema
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged
from fewpass.storage.snapshot import Snapshot

SAME_COLUMNS = Matched()
WEIGHTS = ("coef", "best_coef")  # arrays of a snapshot that are weights
COLUMNS_AT_ONCE = 1 << 16  # of weights that are read out of a state


class Model(NamedTuple):
    """A run's newest weights with the record of what they were trained on."""

    run: RunFolder
    record: RunRecord
    snapshot: str
    weights: Weights
    lam: float
    scale: NDArray[np.float64] | None  # (d,) stored value = (raw - shift) * scale
    shift: NDArray[np.float64] | None  # (d,)
    calibration: Calibration | None = None  # from scores to probabilities, where one was learnt
    seen: Bounds | None = None  # the range of targets learnt from, where predictions are clipped

    @property
    def predicts_numbers(self) -> bool:
        """Return whether numbers are predicted, and no labels."""
        plan = self.record.plan
        takes_numbers = loss_class(loss_word(plan, self.record.targets)).takes_numbers
        return bool(takes_numbers and plan.positive is None)

    @property
    def bounds(self) -> Bounds | None:
        """Return the range that predicted numbers are clipped to; None: they are not."""
        if self.seen is None:
            return None
        columns, loss = self.record.columns, self.record.problem().loss
        encoding = columns.encoding if columns else None
        return clip_range(self.seen, encoding.reach if encoding and not loss.response else 1.0)

    @property
    def scaler(self) -> Scaler:
        """Return the scaling of rows as their source has them."""
        return Scaler(self.record.scaling.kind, self.scale, self.shift)

    @property
    def unscaled(self) -> Weights:
        """The weights for rows as their source has them."""
        return unscaled(self.weights, self.scaler)


def load_model(run: RunFolder) -> Model:
    """Read the newest whole snapshot.

    BadInput when the run has none yet, or its model is not one of the run's features and classes.
    """
    record = run.record()
    snapshot, _ = run.snapshots.latest(is_of_model)
    if snapshot is None:
        raise BadInput(
            f"The run {run.url} has no snapshot yet. Finish it: {command('resume', run.url)}."
        )
    return model_in(run, record, snapshot)


def within(model: Model, memory: int | None) -> Model:
    """Give a model's plan another memory limit, in bytes; None leaves it as it is."""
    if memory is None:
        return model
    plan = model.record.plan.model_copy(update={"memory": memory})
    return model._replace(record=model.record.model_copy(update={"plan": plan}))


def model_in(run: RunFolder, record: RunRecord, snapshot: Snapshot) -> Model:
    """Read the model of one snapshot; BadInput or Damaged when it is not one of the run's."""
    run.require_own(snapshot)
    plan, saved = record.plan, Saved.of(snapshot)
    loss = record.problem().loss
    rule = target_rule(record, loss, plan.positive, plan.class_weight)
    require_array(snapshot, "coef", coef_shape(rule, record.n_features))
    scale, shift = _scaling_in(snapshot, record)
    if saved.calibration is not None and not saved.calibration.fits(rule.n_classes):
        raise unfit(snapshot, f"its calibration is none for {rule.n_classes or 2} classes")
    return Model(
        run, record, snapshot.name, saved.weights, trained_lam(record, saved), scale, shift,
        saved.calibration, _seen(record, saved),
    )  # fmt: skip


def _seen(record: RunRecord, saved: Saved) -> Bounds | None:
    """Return the range of targets learnt from; of a source it was known only in the end."""
    later = saved.source.targets if saved.source else None
    return record.seen if record.seen is None or later is None else union_of(record.seen, later)


def require_offsets(record: RunRecord, dataset: Dataset) -> None:
    """Refuse a data set whose rows lack the offsets that a model was trained with, or have some."""
    has, wanted = dataset.manifest.has_offset, record.offsets is not None
    if has != wanted:
        which = ("have offsets", "had none") if has else ("have no offsets", "had some")
        raise BadInput(
            f"The rows of {dataset.folder.url} {which[0]}, and those that the model was trained on "
            f"{which[1]}. Ingest them alike (`offset`, `exposure`)."
        )


def _scaling_in(
    snapshot: Snapshot, record: RunRecord
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return scale and shift of the run's kind of scaling, as the record knows them."""
    scaling, shape = record.scaling, (record.n_features,)
    if not scaling.digest:
        return None, None
    scale = require_array(snapshot, "scale", shape)
    shift = require_array(snapshot, "shift", shape) if scaling.kind == "standard" else None
    if Scaler(scaling.kind, scale, shift).describe() != scaling:
        raise unfit(snapshot, f"scale and shift are not those of the run ({scaling.digest})")
    return scale, shift


def trained_lam(record: RunRecord, saved: Saved) -> float:
    """Return the strength of regularisation that a snapshot's weights were trained with."""
    return saved.choice.lam if saved.choice else record.problem().penalty.total


def read_weights(
    run: RunFolder, snapshot: str, dataset: Dataset, matched: Matched = SAME_COLUMNS
) -> Weights:
    """Read the weights of one snapshot for a data set's stored rows: how they get onto a worker."""
    loaded = run.snapshots.load(snapshot, WEIGHTS.__contains__)
    return stored_weights(Saved.of(loaded).weights, dataset, matched)


def stored_weights(weights: Weights, dataset: Dataset, matched: Matched = SAME_COLUMNS) -> Weights:
    """Return weights, which are in the order of the source, as a data set's stored rows are.

    `matched` says where the data set's columns are among the weights' own.
    """
    return weights._replace(coef=dataset.column_order.stored(matched.numbers(weights.coef)))


def sourced_weights(weights: Weights, dataset: Dataset) -> Weights:
    """Return weights of a data set's stored rows in the order of the source."""
    return weights._replace(coef=dataset.column_order.sourced(weights.coef))


def read_out(solver: Solver, state: State, dataset: Dataset) -> Weights:
    """Read the model out of a state, in the order of the source.

    Where the method can, some columns after the others: there is one copy of the weights then.
    """
    if not solver.by_column:
        return sourced_weights(solver.weights(state), dataset)
    intercepts = solver.weights(state._replace(W=state.W[:0]))
    coef = np.empty(len(state.W))
    for first in range(0, len(coef), COLUMNS_AT_ONCE):
        part = solver.weights(state._replace(W=state.W[first : first + COLUMNS_AT_ONCE]))
        dataset.column_order.put(part.coef, first, coef)
    return intercepts._replace(coef=coef)


def require_same_columns(record: RunRecord, dataset: Dataset, rules: Matching = BY_NAME) -> Matched:
    """Find the columns that a model was trained on in a data set; refuse one of other columns."""
    manifest, place = dataset.manifest, dataset.folder.url
    _require_same_encoding(record, dataset)
    require_offsets(record, dataset)
    matched = match_features(record.columns, dataset.schema, place, "the model", rules)
    if matched.left_out and record.scaling.kind == "unit-rows":
        raise BadInput(
            f"{place} has rows scaled to unit length with columns that the model does not know: "
            f"{listed(matched.left_out)}. {how_to_fit(record)}"
        )
    if matched.places is None and manifest.n_features != record.n_features:
        raise BadInput(
            f"{dataset.folder.url} has {counted(manifest.n_features, 'feature')}, but the model "
            f"has {record.n_features}. {how_to_fit(record)}"
        )
    if manifest.scaling != record.scaling:
        raise BadInput(
            f"{dataset.folder.url} is scaled differently ({manifest.scaling.kind}) from the data "
            f"that the model was trained on ({record.scaling.kind}). "
            f"{how_to_fit(record)}"
        )
    return matched


def how_to_fit(record: RunRecord) -> str:
    """Say how rows become a data set that a model can be evaluated on."""
    if record.plan.source is None:
        return f"Ingest it with `like={record.plan.dataset}`."
    if record.scaling.kind in ("none", "unit-rows") and record.columns is None:
        return f"Ingest it with `n_features={record.n_features}`."
    return (
        "A model that was trained straight from a source is evaluated on rows of that, held out by "
        "`test_fraction`; fewpass predict scores any others."
    )


def _require_same_encoding(record: RunRecord, dataset: Dataset) -> None:
    """Refuse a data set whose columns became other features; those can only be compared whole."""
    here = dataset.schema.encoding if dataset.schema else None
    trained = record.columns.encoding if record.columns else None
    if here != trained:
        raise BadInput(
            f"The columns of {dataset.folder.url} are encoded otherwise than those that the model "
            f"was trained on. {how_to_fit(record)}"
        )


def weights_to_start_at(run: str, job: Job) -> tuple[Weights, int]:
    """Return a run's newest weights for another training, and the rows that they learnt from.

    They are in the stored order of the job's columns.

    Raises BadInput when there are none yet, or they are of other columns or classes.
    """
    folder, dataset = RunFolder(run), job.dataset
    newest, _ = folder.snapshots.latest(is_of_model)
    if newest is None:
        folder.record()  # refuses what is no run
        raise BadInput(
            f"The run {folder.url} has no snapshot to start from. Finish it first: "
            f"{command('resume', folder.url)}."
        )
    saved = Saved.of(newest)
    trained, here = _columns_of(folder), dataset.schema
    matched = SAME_COLUMNS
    if here is not None and here.names and here.encoding is None:
        matched = match_features(trained, here, dataset.folder.url, "the model", BY_NAME)
    shape, actual = weights_shape(job), saved.weights.coef.shape
    if actual != shape:
        raise BadInput(
            f"The model of {run} has {shape_in_words(actual)}, but {job.dataset.folder.url} needs "
            f"{shape_in_words(shape)}. Ingest the data with `like`."
        )
    weights = stored_weights(saved.weights, dataset, matched)
    return weights, saved.cursor.rows_before + saved.cursor.rows_seen


def _columns_of(run: RunFolder) -> Schema | None:
    """Return a run's columns; None also of a record that cannot be read any more.

    Wherever a training starts, it ends at the same optimum: weights are worth having without.
    """
    try:
        return run.record().columns
    except (BadInput, PlanMismatch, Damaged):
        return None


def weights_shape(job: Job) -> tuple[int, ...]:
    """Return the shape of the coefficients that a job trains."""
    return coef_shape(job.rule, job.stats.d)


def coef_shape(rule: TargetRule, d: int) -> tuple[int, ...]:
    """Return the shape of the coefficients of a model of such targets on d features."""
    return (rule.n_classes, d) if rule.n_classes else (d,)


def shape_in_words(shape: tuple[int, ...]) -> str:
    """Say what a shape of coefficients means."""
    return counted(shape[-1], "feature") + (
        f" and {counted(shape[0], 'class', 'classes')}" if len(shape) == 2 else ""
    )
