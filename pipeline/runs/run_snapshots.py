"""A run's snapshots: what is written of a training, and read where it goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from fewpass.pipeline.runs.packing import pack_states, state_name, unpack_state, versions_in
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import Content, Cursor, Saved, unfit
from fewpass.pipeline.runs.state_shapes import examples_of, misfit
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats, Solver, State
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged
from fewpass.storage.row_state_store import NOTHING_YET, RowRecords
from fewpass.storage.snapshot import Snapshot

SNAPSHOTS_KEPT = 3


def save(
    run: RunFolder, dataset: Dataset, cursor: Cursor, content: Content, *, finished: bool
) -> Saved:
    """Write a snapshot, from which a run goes on and a model predicts; old ones are let go.

    States are as the data set's stored rows made them.
    """
    numbers, arrays = pack_states(content.states)
    weights, best = content.weights, content.best
    attributes = {
        "cursor": cursor._asdict(),
        "state": state_name(content.states[0]),
        "streams": numbers,
        "intercept": np.asarray(weights.intercept).tolist(),
        "certificate": content.certified._asdict() if content.certified else None,
        "finished": finished,
        "choice": content.choice.told() if content.choice else None,
        "record": run.fingerprint,
        "calibration": content.calibration._asdict() if content.calibration else None,
        "validation": content.validation.told() if content.validation else None,
        "source": content.source._asdict() if content.source else None,
        "groups": content.groups,
        "best_intercept": None if best is None else np.asarray(best.intercept).tolist(),
    }
    kept = [name for name in ("scale", "shift") if name in dataset.manifest.columns]
    arrays |= {name: dataset.column(name) for name in kept} | {"coef": weights.coef}
    if content.moments is not None:
        arrays["moments"] = content.moments
    if best is not None:
        arrays["best_coef"] = best.coef
    versions = versions_of(attributes)
    for sweep in versions:
        run.row_state.sync(sweep)
    arrays |= content.records.arrays(versions) if content.records else {}
    name = run.snapshots.save(attributes, arrays)
    run.snapshots.prune(SNAPSHOTS_KEPT)
    drop_versions(run)
    return content.saved(name, cursor, finished=finished)


def versions_of(attributes: dict[str, Any]) -> set[int]:
    """Return the versions of the numbers per row that a snapshot goes with.

    Inside a walk that updates them, the windows visited have the version of that sweep.
    """
    versions = set[int]().union(*map(versions_in, attributes["streams"]))
    return versions | {attributes["cursor"]["sweeps"]} if versions else versions


def drop_versions(run: RunFolder) -> None:
    """Let go of the numbers per row that no whole snapshot goes with."""
    if run.row_state.versions():
        run.row_state.keep_only(set[int]().union(*_versions_named(run)))


def _versions_named(run: RunFolder) -> Iterator[set[int]]:
    for name in run.snapshots.names():
        with contextlib.suppress(Damaged):  # nobody goes on from it: the one before is whole
            yield versions_of(run.snapshots.attributes(name))


def read_state(
    run: RunFolder, name: str, solver: Solver, problem: Problem, stats: ProblemStats, stream: int
) -> State:
    """Read one stream's state out of storage: the head of every chain of spans.

    BadInput when it is not what the method would have written on this problem.
    """
    snapshot = run.snapshots.load(name, lambda array: array.startswith(f"{stream}."))
    state = unpack_state(solver.states, snapshot, stream)
    examples = examples_of(solver, problem, stats, snapshot.attributes["state"])
    if found := misfit(state, examples):
        raise unfit(snapshot, f"of the state of stream {stream}, {found}")
    return state


def read_records(snapshot: Snapshot, n_chunks: int) -> RowRecords:
    """Read what a snapshot has on record of the numbers per row that it goes with.

    BadInput when that are not the records of so many chunks, or of too few versions.
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
