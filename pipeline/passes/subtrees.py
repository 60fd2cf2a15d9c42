"""The tasks of a reduction on a cluster: subtrees of its tree, each over several leaves, and adds.

They run on workers, and are pure functions.  What they report travels inside the sums; on the way
they tell of it, so that the driver has something to show.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fewpass.pipeline.passes.packed import Packed, unpickled_once
from fewpass.pipeline.passes.reduce_span import reduce_span
from fewpass.pipeline.passes.span import Job, LossSoFar, SpanReport
from fewpass.pipeline.passes.sum_tree import added_up
from fewpass.pipeline.passes.together import send_to_client
from fewpass.solvers.protocol import Part, Sum, array_bytes
from fewpass.storage.row_state_store import Records

TELL_SECONDS = 1.0  # between two messages of a task


@unpickled_once
class Addends(NamedTuple):
    """Data that all tasks of a reduction share."""

    job: Job
    what: Sum
    sweep: int
    versions: tuple[int, ...]
    ahead: int
    topic: str = ""  # where tasks of a cluster tell
    name: str = ""  # of the reduction, in what they tell


class Shared(NamedTuple):
    """The same, pickled, and the point at which the sum is evaluated: on every worker."""

    addends: Packed
    at: Any


class Subtotal(NamedTuple):
    """The sum over some leaves, and their reports."""

    part: Part
    reports: tuple[SpanReport, ...]


class TaskNews(NamedTuple):
    """Reports of a task of a reduction on leaves that are done."""

    name: str  # of the reduction
    task: int
    first: int  # of its leaves: the one that the first report is of
    reports: Sequence[Sequence[Any]]  # without numbers per row


def size_of_part(shared: Shared) -> int:
    """Return the bytes of a part."""
    addends: Addends = shared.addends.value
    return array_bytes(addends.what.zero(shared.at))


def subtree_sum(
    shared: Shared, task: int, leaves: Sequence[tuple[int, int]], records: Records
) -> Subtotal:
    """Add up chunks first <= k < stop of every leaf, and the leaves in the order of the tree."""
    addends: Addends = shared.addends.value
    reports: list[SpanReport] = []
    news = LeafNews(addends, task)

    def parts() -> Iterator[Part]:
        job, what, sweep, versions, ahead, *_ = addends
        for first, stop in leaves:
            part, report = reduce_span(
                job, what, shared.at, sweep, versions, ahead, first, stop, records
            )
            reports.append(report)
            news.add(report)
            yield part

    part = added_up(parts(), own=True)
    news.tell()
    return Subtotal(part, tuple(reports))


def added_subtotals(*subtotals: Subtotal) -> Subtotal:
    """Add up neighbouring subtrees, in the order of the tree."""
    part = added_up((each.part for each in subtotals), own=False)
    return Subtotal(part, tuple(report for each in subtotals for report in each.reports))


class LeafNews:
    """Tells of the leaves of a task, not too often."""

    def __init__(self, addends: Addends, task: int) -> None:
        self._topic, self._name, self._task = addends.topic, addends.name, task
        self._reports, self._sent, self._last = list[SpanReport](), 0, time.monotonic()

    def add(self, report: SpanReport) -> None:
        """Tell of a leaf, now or later."""
        self._reports.append(report)
        if time.monotonic() - self._last >= TELL_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Tell of those that are done since the last time."""
        reports = [list(report._replace(row_state=())) for report in self._reports]
        message = TaskNews(self._name, self._task, self._sent, reports)
        send_to_client(self._topic, list(message))
        self._sent += len(reports)
        self._reports, self._last = [], time.monotonic()


def report_from(message: Sequence[Any]) -> SpanReport:
    """Return a report as it was before it was sent."""
    report = SpanReport(*message)
    return report._replace(row_state=(), losses=tuple(LossSoFar(*each) for each in report.losses))
