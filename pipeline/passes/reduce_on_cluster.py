"""A reduction on a cluster, as one graph: subtrees over several leaves, then adds sixteen-fold.

How many leaves a task has depends on the number of workers, and changes no bit (sum_tree.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.span import SpanReport
from fewpass.pipeline.passes.subtrees import (
    Addends,
    Shared,
    TaskNews,
    added_subtotals,
    report_from,
    size_of_part,
    subtree_sum,
)
from fewpass.pipeline.passes.sum_tree import subtree_leaves
from fewpass.pipeline.passes.together import Key, ResultOf, Task
from fewpass.solvers.protocol import same
from fewpass.storage.row_state_store import Records, StoredRowState

TASKS_PER_THREAD = 4  # so that a slow one costs little, and the scheduler has little to do
MOST_ADDED = 16  # parts by one task
LOOK_SECONDS = 0.25  # between two looks at what is slow, and whether the training is to stop
ADD_SECONDS = 0.005  # between two looks at the sum, once all leaves are done

Leaf = tuple[int, int]  # chunks first <= k < stop


class Tree(NamedTuple):
    """The keys and tasks of a reduction."""

    tasks: dict[Key, Task]
    root: Key


def tree_of(
    group: str,
    subtrees: Sequence[Task],
    together: int,
    add: Callable[..., Any] = added_subtotals,
) -> Tree:
    """Return the tree over some tasks, in which `together` neighbours are added by one."""
    level: list[Key] = [(group, number) for number in range(len(subtrees))]
    tasks = dict(zip(level, subtrees, strict=True))
    while len(level) > 1:
        parts_of = [level[k : k + together] for k in range(0, len(level), together)]
        level = []
        for parts in parts_of:
            key = (f"add {group}", len(tasks))
            tasks[key] = (add, *map(ResultOf, parts))
            level.append(key)
    return Tree(tasks, level[0])


def cut_to_tasks(
    leaves: int, threads: Collection[int], part_bytes: int, budget: int
) -> tuple[int, int]:
    """Return how many leaves a task has, and how many parts are added by one.

    Parameters
    ----------
    threads
        Of every worker.
    part_bytes, budget
        Bytes of a part, and those that a worker has for parts.
    """
    size = subtree_leaves(leaves, TASKS_PER_THREAD * sum(threads))
    parts = budget // max(1, part_bytes)
    own = max(2, parts // max(threads))  # of a task: one in the making, one per level of its tree
    together = 1 << max(1, min(MOST_ADDED, parts).bit_length() - 1)
    return min(size, 1 << min(own - 2, 30)), together


class ClusterSum:
    """A reduction that a cluster does.

    Parameters
    ----------
    executor
        The cluster.
    addends
        What is added up.
    at
        The point, or a handle on it.
    label
        What the dashboard shows.

    Attributes
    ----------
    name : str
        Under which its tasks tell of themselves.
    """

    def __init__(self, executor: Executor, addends: Addends, at: Any, label: str) -> None:
        assert executor.together is not None, "a cluster takes graphs"
        self._executor, self._together = executor, executor.together
        self.name = self._together.named(label)
        own = addends._replace(topic=self._together.topic, name=self.name)
        if not self._together.is_handle(at):
            at = executor.submit("weights", same, at)
        shared = partial(Shared, self._together.packed(own))
        self._shared = executor.submit("point", shared, at)

    def submit(
        self, leaves: Sequence[Leaf], records_of: Callable[[range], Records], budget: int
    ) -> None:
        """Submit all tasks."""
        size = self._executor.result(self._executor.submit("part", size_of_part, self._shared))
        self._together.broadcast(self._shared, size)
        threads = self._together.threads()
        own, together = cut_to_tasks(len(leaves), threads, size, budget)
        cut = [leaves[k : k + own] for k in range(0, len(leaves), own)]
        subtrees = [
            (subtree_sum, self._shared, task, each, records_of(range(each[0][0], each[-1][1])))
            for task, each in enumerate(cut)
        ]
        self._own, self._reported = own, [False] * len(leaves)
        tree = tree_of(self.name, subtrees, together)
        (self._root,) = self._together.submit(tree.tasks, [tree.root], first=self.name)

    def wait(
        self,
        on_report: Callable[[SpanReport], None],
        on_rows: Callable[[Sequence[StoredRowState]], None],
        check: Callable[[], None],
    ) -> Any:
        """Return a handle on the sum, once it is there.

        Reports every leaf once, in the end at the latest; numbers per row that were written only
        then.
        """
        while self._root.status == "pending":
            check()
            message = self._together.hear(ADD_SECONDS if all(self._reported) else LOOK_SECONDS)
            if message is not None:
                self._take(TaskNews(*message), on_report)
        total = self._executor.item("part", self._root, 0)
        reports = self._executor.result(self._executor.item("report", self._root, 1))
        for leaf, report in enumerate(reports):
            if not self._reported[leaf]:
                on_report(report)
            on_rows(report.row_state)
        return total

    def _take(self, message: TaskNews, on_report: Callable[[SpanReport], None]) -> None:
        """Pass on what a task tells, unless another run did before."""
        for leaf, report in enumerate(message.reports, message.task * self._own + message.first):
            if not self._reported[leaf]:
                self._reported[leaf] = True
                on_report(report_from(report))


def reduce_on_cluster(
    executor: Executor,
    addends: Addends,
    at: Any,
    leaves: Sequence[Leaf],
    records_of: Callable[[range], Records],
    budget: int,
    on_report: Callable[[SpanReport], None],
    on_rows: Callable[[Sequence[StoredRowState]], None],
    check: Callable[[], None],
    label: str,
) -> Any:
    """Add up over all leaves; return a handle on the sum."""
    total = ClusterSum(executor, addends, at, label)
    assert executor.together is not None, "a cluster takes graphs"
    with executor.together.listening(total.name):
        total.submit(leaves, records_of, budget)
        return total.wait(on_report, on_rows, check)
