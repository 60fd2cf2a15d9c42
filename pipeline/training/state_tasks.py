"""What a training has done to states on the workers: tasks, so none alters what it is given."""

from __future__ import annotations

from fewpass.pipeline.training.span import Job
from fewpass.solvers.protocol import Part, Reduce, State, Walk, copy_state, with_row_version
from fewpass.storage.row_state_store import NOTHING_YET


def absorb_sum(job: Job, sweep: Reduce, state: State, total: Part, number: int) -> State:
    """Give a sum to a copy of the state."""
    return sweep.absorb(job.problem, job.stats, copy_state(state), total, number)


def join_streams(job: Job, walk: Walk, version: int, *states: State) -> State:
    """Make one state of copies of the streams'."""
    return join_own_streams(job, walk, version, *map(copy_state, states))


def join_own_streams(job: Job, walk: Walk, version: int, *states: State) -> State:
    """Make one state of the streams', which nobody else needs.

    Note which numbers per row it goes with, if any.
    """
    joined = walk.join(job.problem, job.stats, list(states))
    return joined if version == NOTHING_YET else with_row_version(joined, version)
