"""A reduction on a cluster, as one graph: subtrees over several leaves, then adds sixteen-fold.

How many leaves a task has depends on the number of workers, and changes no bit (sum_tree.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fewpass.pipeline.executors.executor import Executor
from fewpass.pipeline.executors.together import Key, ResultOf, Task
from fewpass.pipeline.training.spans.reduce_span import ReduceReport
from fewpass.pipeline.training.spans.stragglers import Stragglers
from fewpass.pipeline.training.spans.subtrees import (
    Addends,
    Shared,
    TaskNews,
    added_subtotals,
    report_from,
    size_of_part,
    subtree_sum,
)
from fewpass.pipeline.training.spans.sum_tree import subtree_leaves
from fewpass.solvers.protocol import same
from fewpass.storage.row_state_store import Records, StoredRowState

TASKS_PER_THREAD = 4  # so that a slow one costs little, and the scheduler has little to do
MOST_ADDED = 16  # parts by one task
LOOK_SECONDS = 0.25  # between two looks at what is slow, and whether the training is to stop
ADD_SECONDS = 0.005  # between two looks at the sum, once all leaves are done

Leaf = tuple[int, int]  # chunks first <= k < stop


class Tree(NamedTuple):
    """The keys and tasks of a reduction; of each key the numbers of the subtrees below it."""

    tasks: dict[Key, Task]
    below: dict[Key, range]
    root: Key

    def again(self, keys: Mapping[Key, Key], mark: str) -> tuple[dict[Key, Task], Key]:
        """Return all tasks that depend on some subtrees, which are under other keys now."""
        numbers = [self.below[key].start for key in keys]
        moved = dict(keys) | {
            key: (f"{key[0]}{mark}", key[1])
            for key, below in self.below.items()
            if key not in keys and any(number in below for number in numbers)
        }

        def with_moved(value: Any) -> Any:
            return ResultOf(moved.get(value.key, value.key)) if is_result(value) else value

        tasks = {new: tuple(map(with_moved, self.tasks[key])) for key, new in moved.items()}
        return tasks, moved[self.root]


def is_result(value: Any) -> bool:
    """Whether an argument is the result of another task."""
    return type(value) is ResultOf


def tree_of(
    group: str,
    subtrees: Sequence[Task],
    together: int,
    add: Callable[..., Any] = added_subtotals,
) -> Tree:
    """Return the tree over some tasks, in which `together` neighbours are added by one."""
    level: list[Key] = [(group, number) for number in range(len(subtrees))]
    tasks = dict(zip(level, subtrees, strict=True))
    below = {key: range(number, number + 1) for number, key in enumerate(level)}
    while len(level) > 1:
        parts_of = [level[k : k + together] for k in range(0, len(level), together)]
        level = []
        for parts in parts_of:
            key = (f"add {group}", len(tasks))
            tasks[key] = (add, *map(ResultOf, parts))
            below[key] = range(below[parts[0]].start, below[parts[-1]].stop)
            level.append(key)
    return Tree(tasks, below, level[0])


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
        self._roots: list[Any] = []  # handles on the sums under way; the first to end counts
        self._moved: dict[Key, Key] = {}  # subtrees that were started again, under other keys
        self._again: list[Any] = []  # handles on these

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
        self._tree, self._stragglers = (
            tree_of(self.name, subtrees, together),
            Stragglers(len(cut), sum(threads)),
        )
        self._roots = self._together.submit(self._tree.tasks, [self._tree.root], first=self.name)

    def wait(
        self,
        on_report: Callable[[ReduceReport], None],
        on_rows: Callable[[Sequence[StoredRowState]], None],
        check: Callable[[], None],
    ) -> Any:
        """Return a handle on the sum, once it is there.

        Reports every leaf once, in the end at the latest; numbers per row that were written only
        then.
        """
        while (done := self._finished()) is None:
            check()
            message = self._together.hear(ADD_SECONDS if all(self._reported) else LOOK_SECONDS)
            if message is not None:
                self._take(TaskNews(*message), on_report)
            self._start_again()
        total = self._executor.item("part", done, 0)
        reports = self._executor.result(self._executor.item("report", done, 1))
        for leaf, report in enumerate(reports):
            if not self._reported[leaf]:
                on_report(report)
            on_rows(report.row_state)
        return total

    def _finished(self) -> Any:
        """Return the first root that is finished; raise the error of the first one."""
        for root in self._roots:
            if root.status == "finished":
                return root
        if self._roots[0].status != "pending":
            self._executor.result(self._roots[0])
        return None

    def _take(self, message: TaskNews, on_report: Callable[[ReduceReport], None]) -> None:
        """Pass on what a task tells, unless another run did before."""
        self._stragglers.note(
            message.task, message.worker, time.monotonic(), is_done=message.is_done
        )
        for leaf, report in enumerate(message.reports, message.task * self._own + message.first):
            if not self._reported[leaf]:
                self._reported[leaf] = True
                on_report(report_from(report))

    def _start_again(self) -> None:
        """Start what takes far longer than the rest on other workers; the first result counts."""
        slow = self._stragglers.slow(time.monotonic())
        if not slow:
            return
        avoided = self._stragglers.start_again(slow)
        others = self._together.workers() - avoided
        if not others:
            return
        mark = f" again {len(self._roots)}"
        new = {(self.name, task): (f"{self.name}{mark}", task) for task in slow}
        tasks, root = self._tree.again(self._moved | new, mark)
        tasks = {key: task for key, task in tasks.items() if key not in self._moved.values()}
        self._moved |= new
        wanted = [root, *new.values()]
        made = self._together.submit(tasks, wanted, only=others)
        self._roots.append(made[0])
        self._again += made[1:]


def reduce_on_cluster(
    executor: Executor,
    addends: Addends,
    at: Any,
    leaves: Sequence[Leaf],
    records_of: Callable[[range], Records],
    budget: int,
    on_report: Callable[[ReduceReport], None],
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
