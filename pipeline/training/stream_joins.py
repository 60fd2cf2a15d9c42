"""The end of a walk: the states of its streams become one.

Few of them come together on a worker.  Of many each makes a part where it is, and parts are added
in the tree of a reduction, pair by pair: no process holds all states.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.reduce_on_cluster import tree_of
from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.passes.sum_tree import SumTree
from fewpass.pipeline.passes.together import Task, Together
from fewpass.pipeline.passes.walk_spans import (
    added_stream_parts,
    join_own_streams,
    join_parts,
    join_streams,
    stream_part,
)
from fewpass.solvers.protocol import Walk, add_parts

MOST_JOINED = 16  # streams whose states come together
PARTS_ADDED = 4  # by one task of a cluster


def joined(
    executor: Executor, job: Job, walk: Walk, version: int, heads: list[Any], *,
    are_over: bool = True,
) -> Any:  # fmt: skip
    """Return a handle on the state that several streams' states make.

    Parameters
    ----------
    version
        Of the numbers per row that it goes with, if any.
    heads
        Handles on the streams' states.
    are_over
        Whether nobody needs these states any more; else they stay as they are.
    """
    if walk.pairs is None or len(heads) <= MOST_JOINED:
        # in this process a task runs once, and no other task has these states
        join = join_own_streams if executor.near and are_over else join_streams
        return executor.submit_small("join", join, job, walk, version, *heads)
    add = _added_here if executor.together is None else _added_on_cluster
    total = add(executor, job, walk, heads)
    streams = len(heads)
    return executor.submit_small("join", join_parts, job, walk, version, heads[0], total, streams)


def _added_here(executor: Executor, job: Job, walk: Walk, heads: list[Any]) -> Any:
    """Return a handle on the sum of the streams' parts."""
    tree = SumTree(partial(executor.submit_small, "add", add_parts))
    for head in heads:
        tree.push(executor.submit_small("part", stream_part, job, walk, head))
    return tree.total()


def _added_on_cluster(executor: Executor, job: Job, walk: Walk, heads: list[Any]) -> Any:
    """Return a handle on the same sum, of one graph."""
    together = executor.together
    assert isinstance(together, Together), "a cluster takes graphs"
    parts: list[Task] = [(stream_part, job, walk, head) for head in heads]
    tree = tree_of(together.named("join"), parts, PARTS_ADDED, added_stream_parts)
    (total,) = together.submit(tree.tasks, [tree.root])
    return total
