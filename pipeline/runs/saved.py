"""The record of a snapshot: where in the plan it is, its model, and what is certified of that.

A snapshot whose bytes are intact may still be anybody's.  Its attributes are checked here when they
are read; packing.py does it for the states of methods.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from fewpass.pipeline.calibration import Calibration
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.planning.rate import Marks
from fewpass.pipeline.rows.source_position import Natural, SourcePosition
from fewpass.pipeline.runs.grid import Choice
from fewpass.pipeline.runs.validation import Validation
from fewpass.solvers.protocol import Certificate, State, Weights
from fewpass.storage.row_state_store import RowRecords
from fewpass.storage.snapshot import Snapshot
from fewpass.storage.snapshot_file import StoredPart

Amount = Annotated[float, Field(ge=0.0)]


def is_of_model(array: str) -> bool:
    """Return whether an array of a snapshot is of its model, and not of a state (packing.py)."""
    return not array.partition(".")[0].isdecimal()


class Cursor(NamedTuple):
    """The place of a run in its plan, and what it took so far."""

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
    """The result of some classes that were trained before the others."""

    certificate: Certificate | None
    passes: Amount


@dataclass(frozen=True, kw_only=True)
class SnapshotFields:
    """The state of a training: the same in memory and among a snapshot's attributes."""

    cursor: Cursor
    certificate: Certificate | None  # of the weights
    finished: bool
    choice: Choice | None = None  # of one lam, where there are several or rows were held out
    calibration: Calibration | None = None  # at the end, where it was asked for
    validation: Validation | None = None  # scores of held-out rows; None without early stopping
    source: SourcePosition | None = None  # None for a training on a data set
    groups: tuple[GroupDone, ...] = ()  # those after the current one have no weights yet

    def snapshot_fields(self) -> dict[str, Any]:
        """Return these fields alone, by name."""
        return {field.name: getattr(self, field.name) for field in fields(SnapshotFields)}


@dataclass(frozen=True, kw_only=True)
class Attributes(SnapshotFields):
    """A run's snapshot, its arrays left out: what its JSON document may hold."""

    __pydantic_config__ = ConfigDict(
        defer_build=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    state: str
    streams: Annotated[tuple[dict[str, JsonValue], ...], Field(min_length=1)]
    intercept: float | tuple[float, ...]
    record: str  # fingerprint of the run's run.json
    best_intercept: float | tuple[float, ...] | None = None  # of best_coef: the best model so far
    trained_intercept: tuple[float, ...] | None = None  # of trained_coef: all lam, in groups


class StoredState(NamedTuple):
    """A stream's state that is written for a snapshot: its type, its numbers, and its arrays."""

    kind: str
    numbers: dict[str, Any]
    stored: StoredPart


@dataclass(frozen=True, kw_only=True)
class Saved(SnapshotFields):
    """A snapshot of a training, about to be written or read back.

    States, records and moments are written, but not retained.
    """

    weights: Weights  # features in the order of the source, as are those of the best model
    best: Weights | None = None  # the best model so far, before the end of an early stopping
    trained: Weights | None = None  # of all lam, before the end of several trained in groups
    name: str = ""  # none before it is written
    streams: int = 1  # states: one per stream inside a walk, one after it
    states: Sequence[State] = ()
    stored: Sequence[StoredState] = ()  # in place of states, under this name
    records: RowRecords | None = None  # of the numbers per row that the states go with
    moments: NDArray[np.float64] | None = None  # (d, 2) of the columns of a source

    @cached_property
    def weights_sha256(self) -> str:
        """SHA-256 of the weights' bytes."""
        return weights_digest(self.weights)

    def without_weights(self) -> Saved:
        """Return it without the model, which storage has."""
        return replace(self, weights=NO_WEIGHTS, best=None, trained=None)

    def written(self, name: str) -> Saved:
        """Return the snapshot under its name, without its states."""
        streams = len(self.states or self.stored)
        return replace(
            self, name=name, streams=streams, states=(), stored=(), records=None, moments=None
        )

    @classmethod
    def of(cls, snapshot: Snapshot) -> Saved:
        """Read a snapshot's numbers; BadInput names the first that is missing or invalid."""
        read = read_attributes(snapshot)
        return cls(
            **read.snapshot_fields(),
            name=snapshot.name,
            streams=len(read.streams),
            weights=_weights_in(snapshot, "coef", read.intercept),
            best=_best_in(snapshot, read),
            trained=_trained_in(snapshot, read),
        )


NO_WEIGHTS = Weights(np.empty(0), 0.0)
_ATTRIBUTES = TypeAdapter(Attributes)


def as_json(value: Any) -> Any:
    """Return a value with its NamedTuples as dictionaries, for JSON."""
    value = value._asdict() if hasattr(value, "_asdict") else value
    if isinstance(value, dict):
        return {name: as_json(own) for name, own in value.items()}
    return [as_json(own) for own in value] if isinstance(value, tuple | list) else value


def read_attributes(snapshot: Snapshot) -> Attributes:
    """Read a snapshot's attributes; BadInput names the first that is missing or cannot be."""
    try:
        return _ATTRIBUTES.validate_json(json.dumps(snapshot.attributes))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its attributes"
        raise unfit(snapshot, f"{where}: {first['msg']}") from error
    except RecursionError as error:
        raise unfit(snapshot, "its attributes are nested too deeply") from error


def _best_in(snapshot: Snapshot, read: Attributes) -> Weights | None:
    """Return the best model so far, which has the shape of the newest; None where there is none."""
    if read.best_intercept is None:
        return None
    best = _weights_in(snapshot, "best_coef", read.best_intercept)
    if read.validation is None or best.coef.shape != snapshot.arrays["coef"].shape:
        raise unfit(snapshot, "best_coef is not like coef, or without the curve that it is of")
    return best


def _trained_in(snapshot: Snapshot, read: Attributes) -> Weights | None:
    """Return the models of all lam in groups; None where they are not trained so, or no more."""
    if read.trained_intercept is None or "trained_coef" not in snapshot.arrays:
        return None
    return _weights_in(snapshot, "trained_coef", read.trained_intercept)


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


def require_array(snapshot: Snapshot, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a snapshot's array of float64; BadInput unless it is one of that shape."""
    array = snapshot.arrays.get(name)
    if array is None:
        raise unfit(snapshot, f"it has no array {name}, float64 {shape}")
    if (array.dtype.name, array.shape) != ("float64", shape):
        raise unfit(
            snapshot, f"{name} is {array.dtype} {array.shape}, where float64 {shape} was expected"
        )
    return array


def unfit(snapshot: Snapshot, fault: str) -> BadInput:
    """Return the error for a snapshot that was not written by a training of this run."""
    return BadInput(
        f"{snapshot.address} was not written by this run: {fault}. "
        "Delete it to go on from the one before, or train again."
    )


#: Digits of their digest that weights are told apart by.
VERSION_DIGITS = 12


def weights_digest(weights: Weights) -> str:
    """SHA-256 over the bytes of the coefficients and the intercept."""
    digest = hashlib.sha256(np.ascontiguousarray(weights.coef).data)
    digest.update(np.asarray(weights.intercept, np.float64).tobytes())
    return digest.hexdigest()
