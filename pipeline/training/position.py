"""Check of the position of a run in its plan, which was read from a file."""

from __future__ import annotations

from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.rows.windows import windows_per_turn
from fewpass.pipeline.runs.saved import Cursor, Saved, unfit
from fewpass.solvers.protocol import Solver, Walk
from fewpass.storage.snapshot import Snapshot


def require_method(snapshot: Snapshot, saved: Saved, methods: int) -> None:
    """Refuse a snapshot of a method after the last one; BadInput."""
    if saved.cursor.method >= methods:
        raise unfit(snapshot, f"cursor.method is {saved.cursor.method}, of {methods} methods")


def require_position(snapshot: Snapshot, saved: Saved, solver: Solver, job: Job) -> None:
    """Refuse a cursor that is at no place in the method's program and the windows; BadInput."""
    cursor, program, plan = saved.cursor, solver.program(saved.cursor.epoch), job.windows
    if cursor.sweep > len(program):
        raise unfit(snapshot, f"cursor.sweep is {cursor.sweep}, of {len(program)} in an epoch")
    streams = plan.streams if cursor.windows else 1
    if saved.streams != streams or len(cursor.windows) not in (0, streams):
        raise unfit(
            snapshot,
            f"it has {saved.streams} states at the windows {cursor.windows}, where {streams} of "
            "each were expected",
        )
    if cursor.windows:
        sweep = program[cursor.sweep] if cursor.sweep < len(program) else None
        if not isinstance(sweep, Walk) or _is_beyond(cursor, sweep, job):
            raise unfit(
                snapshot, f"cursor.windows is {cursor.windows} in sweep {cursor.sweep}, which has "
                "not so many",
            )  # fmt: skip


def _is_beyond(cursor: Cursor, walk: Walk, job: Job) -> bool:
    """Whether more windows were visited than a walk has, where it has a last one."""
    if walk.rows is not None or job.once is not None:
        return False
    plan = job.windows
    lengths = [windows_per_turn(plan, stream) for stream in range(plan.streams)]
    each = zip(cursor.windows, lengths, strict=True)
    return any(done > length for done, length in each)
