"""Checks that the objects of a run's folder are intact, and fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fewpass.pipeline.errors import BadInput, PlanMismatch
from fewpass.pipeline.lease import lease_faults
from fewpass.pipeline.runs.model import model_in
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.run_snapshots import read_records
from fewpass.storage.folder import Damaged
from fewpass.storage.row_state_store import ARRAY, RowStatePart
from fewpass.storage.snapshot import Snapshot

Seen = set[tuple[int, int, RowStatePart]]


def run_faults(
    run: RunFolder, on_snapshot: Callable[[int, int], None] = lambda _done, _of: None
) -> Iterator[str]:
    """Read what a resume or a prediction would use; yield a sentence per fault.

    That is `run.json`, `log.jsonl`, the lease, every snapshot, and the numbers per row that one
    goes with.  `on_snapshot` gets the number of snapshots read, and that of all.
    """
    record = None
    try:
        record = run.record()
    except (Damaged, PlanMismatch) as error:
        yield str(error)
    yield from run.log_faults()
    yield from lease_faults(run.folder)
    seen: Seen = set()
    names = run.snapshots.names()
    for number, name in enumerate(names, start=1):
        yield from _snapshot_faults(run, record, name, seen)
        on_snapshot(number, len(names))


def not_covered(run: RunFolder) -> list[str]:
    """Say what `run_faults` does not read."""
    try:
        dataset = run.record().plan.dataset
    except (Damaged, PlanMismatch):
        dataset = "that it was trained on"
    return [
        f"the data set {dataset} (fewpass check reads it)",
        "report/, which is drawn anew",
        "numbers per row that no snapshot goes with",
    ]


def _snapshot_faults(
    run: RunFolder, record: RunRecord | None, name: str, seen: Seen
) -> Iterator[str]:
    try:
        snapshot = run.snapshots.load(name)
        if record is not None:
            model_in(run, record, snapshot)
        records = read_records(snapshot, _chunks_on_record(snapshot))
    except (Damaged, BadInput) as error:
        yield str(error)
        return
    for stored in records.every():
        if stored not in seen and (fault := run.row_state.fault(*stored)):
            yield fault
        seen.add(stored)


def _chunks_on_record(snapshot: Snapshot) -> int:
    """Return of how many chunks a snapshot has records: only the data set knows how many it has."""
    tables = (table for name, table in snapshot.arrays.items() if name.startswith(ARRAY))
    return max((table.shape[0] for table in tables if table.ndim), default=0)
