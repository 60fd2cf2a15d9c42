"""A run's snapshots: what is written of a training, and read where it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.runs.packing import (
    examples_of,
    misfit,
    pack_state,
    pack_states,
    state_name,
    unpack_state,
    versions_in,
)
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import Saved, StoredState, as_json, unfit
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats, Solver, State
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged
from fewpass.storage.row_state_store import NOTHING_YET, RowRecords
from fewpass.storage.snapshot import Snapshot, SnapshotStore

SNAPSHOTS_RETAINED = 3
#: Features whose means are stored with a finished model, which explains scores by them: 2 MB, which
#: no training is short of.  Of more they are read from the data set.
MOST_MEANS = 1 << 18


class TrainedFolder(RunFolder):
    """A run's folder as the store of a training (engine.py: `RunStore`)."""

    def __init__(self, url: str, storage_options: dict[str, Any] | None = None) -> None:
        super().__init__(url, storage_options)
        self._versions: dict[str, set[int]] = {}  # of numbers per row, by snapshot

    def save(self, dataset: Dataset, new: Saved) -> Saved:
        """Write a snapshot, from which a run goes on and a model predicts; old ones are deleted.

        States are as the data set's stored rows made them.
        """
        numbers, arrays = pack_states(new.states)
        weights, best, trained = new.weights, new.best, new.trained
        attributes = as_json(new.snapshot_fields()) | {
            "state": new.stored[0].kind if new.stored else state_name(new.states[0]),
            "streams": numbers + [state.numbers for state in new.stored],
            "intercept": np.asarray(weights.intercept).tolist(),
            "best_intercept": None if best is None else np.asarray(best.intercept).tolist(),
            "trained_intercept": None if trained is None else trained.intercept.tolist(),
            "record": self.fingerprint,
        }
        versions = versions_of(attributes)
        if versions:
            self.row_state.sync(versions)
        arrays |= _arrays_of(new, dataset) | (new.records.arrays(versions) if new.records else {})
        parts = [state.stored for state in new.stored]
        name = self.snapshots.save(attributes, arrays, new.name, parts)
        self._versions[name] = versions
        self.snapshots.prune(SNAPSHOTS_RETAINED)
        self._drop_versions()
        self.lines.compact()
        return new.written(name)

    def read_state(
        self, source: str | Snapshot, solver: Solver, problem: Problem, stats: ProblemStats,
        stream: int,
    ) -> State:  # fmt: skip
        """Read one stream's state, the head of every chain of spans, out of storage or a snapshot.

        BadInput when it is not what the method would have written on this problem.
        """
        snapshot = source
        if not isinstance(snapshot, Snapshot):
            snapshot = self.snapshots.load(snapshot, lambda array: array.startswith(f"{stream}."))
        state = unpack_state(solver.states, snapshot, stream)
        examples = examples_of(solver, problem, stats, snapshot.attributes["state"])
        if difference := misfit(state, examples):
            raise unfit(snapshot, f"of the state of stream {stream}, {difference}")
        return state

    def _drop_versions(self) -> None:
        """Delete the numbers per row that no whole snapshot goes with."""
        if self.row_state.versions():
            named = map(self._versions_with, self.snapshots.names())
            self.row_state.keep_only(set[int]().union(*named))

    def _versions_with(self, name: str) -> set[int]:
        if name not in self._versions:
            try:
                self._versions[name] = versions_of(self.snapshots.attributes(name))
            except Damaged:  # nobody goes on from it: the one before is whole
                return set()
        return self._versions[name]


def write_state(snapshots: SnapshotStore, name: str, stream: int, state: State) -> StoredState:
    """Write a stream's state for a snapshot that is about to be written, here or on a worker."""
    numbers, arrays = pack_state(stream, state)
    return StoredState(state_name(state), numbers, snapshots.write(name, stream, arrays))


def _arrays_of(new: Saved, dataset: Dataset) -> dict[str, NDArray[Any]]:
    """Return the arrays of a snapshot that are in no state: models, and the columns' scaling."""
    scaling = [name for name in ("scale", "shift") if name in dataset.manifest.columns]
    arrays = {name: dataset.column(name) for name in scaling} | {"coef": new.weights.coef}
    arrays |= {"best_coef": new.best.coef} if new.best else {}
    arrays |= {"trained_coef": new.trained.coef} if new.trained else {}
    if new.finished and dataset.n_features <= MOST_MEANS and "mean" in dataset.manifest.columns:
        arrays["mean"] = dataset.column("mean")
    return arrays if new.moments is None else arrays | {"moments": new.moments}


def versions_of(attributes: Mapping[str, Any]) -> set[int]:
    """Return the versions of the numbers per row that a snapshot goes with.

    Inside a walk that updates them, the windows visited have the version of that sweep.
    """
    versions = set[int]().union(*map(versions_in, attributes["streams"]))
    return versions | {attributes["cursor"]["sweeps"]} if versions else versions


def read_records(snapshot: Snapshot, n_chunks: int) -> RowRecords:
    """Read what a snapshot has on record of the numbers per row that it goes with.

    BadInput when these are not the records of N chunks, or lack a version.
    """
    try:
        records = RowRecords.read(n_chunks, snapshot.arrays)
    except ValueError as error:
        raise unfit(snapshot, str(error)) from error
    for sweep in set[int]().union(*map(versions_in, snapshot.attributes["streams"])):
        if sweep != NOTHING_YET and records.missing(sweep):
            raise unfit(
                snapshot,
                f"the numbers per row of sweep {sweep} are not on record for "
                f"{records.missing(sweep)} of {n_chunks} chunks",
            )
    return records
