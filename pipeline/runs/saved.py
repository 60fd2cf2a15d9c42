"""What a run's snapshot tells beside its arrays: where in the plan it is, and of which model.

A snapshot whose bytes are as they were written may still be anybody's.  Here is checked that its
numbers are what training and predicting count on; state_shapes.py does it for a method's state.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from fewpass.pipeline.calibration import Calibration
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.source_position import Natural, SourcePosition
from fewpass.pipeline.runs.grid import Choice
from fewpass.pipeline.runs.validation import Validation
from fewpass.pipeline.training.planning.rate import Marks
from fewpass.solvers.protocol import Certificate, State, Weights
from fewpass.storage.row_state_store import RowRecords
from fewpass.storage.snapshot import Snapshot

Amount = Annotated[float, Field(ge=0.0)]
GONE = ("marked_passes", "marked_digits")  # fields of a cursor in earlier versions


class Cursor(NamedTuple):
    """Where in the plan a run stands, and what it took so far."""

    epoch: Natural = 0
    sweep: Natural = 0  # of the epoch's program
    sweeps: Natural = 0  # done in all: what a sweep's order is drawn from, and what it is called by
    windows: tuple[Natural, ...] = ()  # visited in this sweep, per stream
    rows_in_sweep: Natural = 0  # visited in it, of all streams
    passes: Amount = 0.0  # rows read over the rows of the data set
    restarts: Natural = 0
    rows_seen: Natural = 0
    bytes_read: Natural = 0
    seconds: Amount = 0.0
    rows_before: Natural = 0  # seen by the model that the run started from
    method: Natural = 0  # of those that `auto` chose: 1 after falling back
    marks: Marks = ()  # what was certified in the last three passes


class GroupDone(NamedTuple):
    """What became of some classes that were trained before the others."""

    certificate: Certificate | None
    passes: Amount


class Attributes(BaseModel):
    """A run's snapshot, its arrays left out."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    cursor: Cursor
    state: str
    streams: Annotated[tuple[dict[str, JsonValue], ...], Field(min_length=1)]
    intercept: float | tuple[float, ...]
    certificate: Certificate | None
    finished: bool
    choice: Choice | None = None
    record: str | None = None
    """Fingerprint of the run.json that the run had; None in snapshots of earlier versions."""
    calibration: Calibration | None = None
    """From scores to probabilities; None where none was asked for, and before the end."""
    validation: Validation | None = None
    """What held-out rows said after every epoch; None without early stopping."""
    source: SourcePosition | None = None
    """Where a training straight from a source stands; None for one on a data set."""
    best_intercept: float | tuple[float, ...] | None = None
    """Of the best model so far, beside the array best_coef."""
    groups: tuple[GroupDone, ...] = ()
    """Groups of classes that are trained; those after the one at work have no weights yet."""


@dataclass(frozen=True)
class Saved:
    """What training needs to know of the newest snapshot."""

    name: str
    cursor: Cursor
    weights: Weights
    streams: int  # states kept: one per stream inside a walk, one after it
    certified: Certificate | None
    finished: bool
    choice: Choice | None = None  # where there are several lam, or rows to judge by
    calibration: Calibration | None = None  # where one was asked for, at the end
    validation: Validation | None = None  # where the training may stop early
    best: Weights | None = None  # the best model so far, before the end
    source: SourcePosition | None = None  # where rows are read straight from one
    groups: tuple[GroupDone, ...] = ()  # of classes, where they are trained one after the other

    @cached_property
    def weights_sha256(self) -> str:
        """SHA-256 of the weights' bytes."""
        return weights_digest(self.weights)

    def without_weights(self) -> Saved:
        """Return it without the model, which storage has."""
        return replace(self, weights=Weights(np.empty(0), 0.0), best=None)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Saved:
        """Read a snapshot's numbers; BadInput names the one that is missing or cannot be."""
        told = read_attributes(snapshot)
        return cls(
            name=snapshot.name,
            cursor=told.cursor,
            weights=_weights_in(snapshot, "coef", told.intercept),
            streams=len(told.streams),
            certified=told.certificate,
            finished=told.finished,
            choice=told.choice,
            calibration=told.calibration,
            validation=told.validation,
            best=_best_in(snapshot, told),
            source=told.source,
            groups=told.groups,
        )


class Content(NamedTuple):
    """What a snapshot is to hold, beside where in the plan it is."""

    states: list[State]
    weights: Weights  # features in the order of the source, as are those of the best model
    certified: Certificate | None  # what is proven of these weights
    choice: Choice | None = None  # where there are several lam, or rows to judge by
    records: RowRecords | None = None  # of the numbers per row that the states go with
    calibration: Calibration | None = None  # of these weights' scores, at the end
    validation: Validation | None = None  # where the training may stop early
    best: Weights | None = None  # before the end of such a one
    source: SourcePosition | None = None  # where rows are read straight from one, ...
    moments: NDArray[np.float64] | None = None  # ... and what is known of its columns, (d, 2)
    groups: tuple[GroupDone, ...] = ()  # of classes, where they are trained one after the other

    def saved(self, name: str, cursor: Cursor, *, finished: bool) -> Saved:
        """Return what training needs to know of the snapshot of that name."""
        return Saved(
            name, cursor, self.weights, len(self.states), self.certified, finished, self.choice,
            self.calibration, self.validation, self.best, self.source, self.groups,
        )  # fmt: skip


def read_attributes(snapshot: Snapshot) -> Attributes:
    """Read a snapshot's attributes; BadInput names the first that is missing or cannot be."""
    told = snapshot.attributes
    if isinstance(cursor := told.get("cursor"), dict):
        known = {name: value for name, value in cursor.items() if name not in GONE}
        told = {**told, "cursor": known}
    try:
        return Attributes.model_validate_json(json.dumps(told))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its attributes"
        raise unfit(snapshot, f"{where}: {first['msg']}") from error
    except RecursionError as error:
        raise unfit(snapshot, "its attributes are nested too deeply") from error


def _best_in(snapshot: Snapshot, told: Attributes) -> Weights | None:
    """Return the best model so far, which is like the newest; None where none is kept."""
    if told.best_intercept is None:
        return None
    best = _weights_in(snapshot, "best_coef", told.best_intercept)
    if told.validation is None or best.coef.shape != snapshot.arrays["coef"].shape:
        raise unfit(snapshot, "best_coef is not like coef, or without the curve that it is of")
    return best


def _weights_in(snapshot: Snapshot, name: str, intercept: float | tuple[float, ...]) -> Weights:
    """Return a snapshot's model; its shape is for those who know the data to check."""
    coef = snapshot.arrays.get(name)
    if coef is None:
        raise unfit(snapshot, f"it has no array {name}")
    classes = (len(intercept),) if isinstance(intercept, tuple) else ()
    if coef.dtype != np.float64 or coef.ndim != 1 + len(classes) or coef.shape[:-1] != classes:
        raise unfit(
            snapshot,
            f"{name} is {coef.dtype} {coef.shape}, where a float64 number per "
            f"{'class and ' if classes else ''}feature was expected, {len(classes) or 'no'} "
            "classes as in the intercept",
        )
    if not np.isfinite(coef).all():
        raise unfit(snapshot, f"{name} has numbers that are not finite")
    return Weights(coef, np.array(intercept) if classes else intercept)


def require_array(
    snapshot: Snapshot, name: str, shape: tuple[int, ...], dtype: str = "float64"
) -> NDArray[Any]:
    """Return a snapshot's array; BadInput unless it has that shape and type."""
    array = snapshot.arrays.get(name)
    if array is None:
        raise unfit(snapshot, f"it has no array {name}, {dtype} {shape}")
    if (array.dtype.name, array.shape) != (dtype, shape):
        raise unfit(
            snapshot, f"{name} is {array.dtype} {array.shape}, where {dtype} {shape} was expected"
        )
    return array


def unfit(snapshot: Snapshot, found: str) -> BadInput:
    """Return the error for a snapshot that was not written by a training of this run."""
    return BadInput(
        f"{snapshot.address} is not what a training of this run writes: {found}. "
        "Delete it to go on from the one before, or train again."
    )


def weights_digest(weights: Weights) -> str:
    """SHA-256 over the bytes of the coefficients and the intercept."""
    digest = hashlib.sha256(np.ascontiguousarray(weights.coef).data)
    digest.update(np.asarray(weights.intercept, np.float64).tobytes())
    return digest.hexdigest()
