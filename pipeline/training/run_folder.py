"""A run's folder: what was planned, what happened, and from where it can go on.

`run.json` is written once, `log.jsonl` grows, `snapshots/` holds the newest few.  The folder is the
truth; whatever watches it is a view.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.errors import BadInput, PlanMismatch
from pipeline.training.choice import MethodChoice
from pipeline.training.forecast import Forecast
from pipeline.training.grid import Choice
from pipeline.training.packing import pack_states, state_name, unpack_state, versions_in
from pipeline.training.plan import TrainingPlan
from solvers.protocol import Certificate, State, Weights
from storage.dataset import Dataset
from storage.folder import Folder
from storage.manifest import Labels, Manifest, Scaling, Values
from storage.row_state import RowStateStore
from storage.snapshot import Snapshot, SnapshotStore

FORMAT_VERSION = 1
SNAPSHOTS_KEPT = 3


class RunRecord(BaseModel):
    """What a run is: written once, before the first row is read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = "fewpass-run"
    version: int = FORMAT_VERSION
    plan: TrainingPlan
    fingerprint: str
    """Of the data set that the run reads."""
    layout: str
    n_rows: int
    n_features: int
    targets: Labels | Values
    scaling: Scaling
    versions: dict[str, str]
    forecast: Forecast | None = None
    """What the training was going to take; None where nothing was foreseen."""
    methods: MethodChoice | None = None
    """The methods in place of `auto`; None where the plan names one."""

    def method(self, number: int = 0) -> str:
        """Tell the method; of those that `auto` chose the first, or that and the one after it."""
        if self.methods is None:
            return self.plan.solver.kind
        return ", then ".join(m.kind for m in self.methods.methods[: number + 1])

    @classmethod
    def of(
        cls,
        plan: TrainingPlan,
        manifest: Manifest,
        foreseen: Forecast | None,
        methods: MethodChoice | None = None,
    ) -> RunRecord:
        """Return the record of a run that is about to begin on a data set."""
        return cls(
            plan=plan,
            fingerprint=manifest.fingerprint,
            layout=manifest.layout,
            n_rows=manifest.n_rows,
            n_features=manifest.n_features,
            targets=manifest.targets,
            scaling=manifest.scaling,
            versions={name: version(name) for name in ("fewpass", "numpy", "numba")},
            forecast=foreseen,
            methods=methods,
        )


class Cursor(NamedTuple):
    """Where in the plan a run stands, and what it took so far."""

    epoch: int = 0
    sweep: int = 0  # of the epoch's program
    sweeps: int = 0  # done in all: what a sweep's order is drawn from, and what it is called by
    windows: tuple[int, ...] = ()  # visited in this sweep, per stream
    rows_in_sweep: int = 0  # visited in it, of all streams
    passes: float = 0.0  # rows read over the rows of the data set
    restarts: int = 0
    rows_seen: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    rows_before: int = 0  # seen by the model that the run started from
    method: int = 0  # of those that `auto` chose: 1 after falling back
    marked_passes: float = 0.0  # when progress was last looked at ...
    marked_digits: float = 0.0  # ... and what was certified then


class RunFolder:
    """One run on disk, at any address that fsspec knows."""

    def __init__(self, url: str, storage_options: dict[str, Any] | None = None) -> None:
        self.folder = Folder(url, storage_options)
        self.snapshots = SnapshotStore(self.folder.child("snapshots"))
        self.row_state = RowStateStore(self.folder.child("rows"))

    @property
    def url(self) -> str:
        """Where the run lies."""
        return self.folder.url

    def exists(self) -> bool:
        """Whether a training has begun here."""
        return self.folder.exists("run.json")

    def begin(self, record: RunRecord) -> None:
        """Write down what is going to be done; refuses a folder with another plan in it."""
        if self.exists():
            self._require_same(record)
        else:
            self.folder.require_writable()
            self.folder.write("run.json", record.model_dump_json(indent=2).encode())

    def record(self) -> RunRecord:
        """Read back what was planned."""
        if not self.exists():
            raise BadInput(f"There is no run at {self.url}. Start one with fewpass train.")
        try:
            return RunRecord.model_validate_json(self.folder.read("run.json"))
        except ValidationError as error:
            raise PlanMismatch(
                f"{self.url}/run.json is not a run of format {FORMAT_VERSION}: {error}. "
                "Use the version that wrote it, or start a new run."
            ) from error

    def _require_same(self, new: RunRecord) -> None:
        old = self.record()
        changed = {
            name: (getattr(old.plan, name), getattr(new.plan, name))
            for name in TrainingPlan.model_fields
            if getattr(old.plan, name) != getattr(new.plan, name) and name != "snapshot_every"
        }
        if changed:
            told = "; ".join(f"{k} was {a}, now {b}" for k, (a, b) in changed.items())
            raise PlanMismatch(
                f"{self.url} holds a run of another plan ({told}). "
                "Continue it with fewpass resume, or train into a new folder."
            )
        self.require_data(old, new.fingerprint)

    def require_data(self, record: RunRecord, fingerprint: str) -> None:
        """Refuse to go on with other data than the run began with."""
        if record.fingerprint != fingerprint:
            raise PlanMismatch(
                f"{self.url} was trained on data set {record.fingerprint[:12]}, but "
                f"{record.plan.dataset} is now {fingerprint[:12]}. "
                "Start a new run, or put the old data set back."
            )

    def log(self, event: str, **facts: Any) -> None:
        """Add one line to log.jsonl."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.folder.append_line("log.jsonl", json.dumps({"time": now, "event": event} | facts))

    def events(self) -> Iterator[dict[str, Any]]:
        """Read the log back; a line that a crash cut short is passed over."""
        if not self.folder.exists("log.jsonl"):
            return
        for line in self.folder.read("log.jsonl").decode().splitlines():
            if line.endswith("}"):
                yield json.loads(line)


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

    @cached_property
    def weights_sha256(self) -> str:
        """SHA-256 of the weights' bytes."""
        return weights_digest(self.weights)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Saved:
        """Read a snapshot's numbers."""
        told = snapshot.attributes
        cursor = told["cursor"] | {"windows": tuple(told["cursor"]["windows"])}
        certified = told["certificate"]
        return cls(
            name=snapshot.name,
            cursor=Cursor(**cursor),
            weights=Weights(snapshot.arrays["coef"], intercept_of(told["intercept"])),
            streams=len(told["streams"]),
            certified=Certificate(**certified) if certified else None,
            finished=told["finished"],
            choice=Choice.read(told.get("choice")),
        )


def weights_digest(weights: Weights) -> str:
    """SHA-256 over the bytes of the coefficients and the intercept."""
    digest = hashlib.sha256(np.ascontiguousarray(weights.coef).data)
    digest.update(np.asarray(weights.intercept, np.float64).tobytes())
    return digest.hexdigest()


def intercept_of(told: float | list[float]) -> Any:
    """Read a snapshot's intercept: a number, or one per class (n_classes,)."""
    return np.array(told) if isinstance(told, list) else told


def save(
    run: RunFolder,
    dataset: Dataset,
    cursor: Cursor,
    states: list[State],
    weights: Weights,
    certified: Certificate | None,
    finished: bool,
    choice: Choice | None = None,
) -> Saved:
    """Write a snapshot, from which a run goes on and a model predicts; old ones are let go.

    Weights come in the order of the source; states are as the data set's stored rows made them.
    """
    numbers, arrays = pack_states(states)
    attributes = {
        "cursor": cursor._asdict(),
        "state": state_name(states[0]),
        "streams": numbers,
        "intercept": np.asarray(weights.intercept).tolist(),
        "certificate": certified._asdict() if certified else None,
        "finished": finished,
        "choice": choice.told() if choice else None,
    }
    kept = [name for name in ("scale", "shift") if name in dataset.manifest.columns]
    scaling = {name: dataset.column(name) for name in kept}
    for sweep in versions_of(attributes):
        run.row_state.sync(sweep)
    name = run.snapshots.save(attributes, arrays | scaling | {"coef": weights.coef})
    run.snapshots.prune(SNAPSHOTS_KEPT)
    drop_versions(run)
    return Saved(name, cursor, weights, len(states), certified, finished, choice)


def versions_of(attributes: dict[str, Any]) -> set[int]:
    """Return the versions of the numbers per row that a snapshot goes with.

    Inside a walk that updates them, the windows visited have the version of that sweep.
    """
    versions = set[int]().union(*map(versions_in, attributes["streams"]))
    return versions | {attributes["cursor"]["sweeps"]} if versions else versions


def drop_versions(run: RunFolder) -> None:
    """Let go of the numbers per row that no snapshot goes with."""
    if run.row_state.versions():
        kept = [versions_of(run.snapshots.attributes(name)) for name in run.snapshots.names()]
        run.row_state.keep_only(set().union(*kept))


def read_state(run: RunFolder, name: str, kinds: tuple[type, ...], stream: int) -> State:
    """Read one stream's state out of storage: the head of every chain of spans."""
    return unpack_state(kinds, run.snapshots.load(name), stream)
