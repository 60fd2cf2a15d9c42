"""Sums over the rows of files, span by span: by threads, or each span by a task of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.passes.ordered_tasks import (
    ordered_results,
    result_or_refusal,
    tasks_of_a_process,
)
from fewpass.pipeline.tables.readers.source import SourceSpan
from fewpass.pipeline.tables.readers.source_spans import in_chain

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Cluster, Executor


class SpanSummer(Protocol):
    """Sums up the rows of spans; the same in any process."""

    @property
    def budget(self) -> Budget:
        """Shares of the memory of a process that reads a span."""

    @property
    def spans(self) -> list[SourceSpan]:
        """Spans of all rows; none: they are read as one."""

    def of_span(self, span: SourceSpan) -> Any:
        """Return the sums of a span, whose `read` says where its rows are."""

    def by_span(self, threads: int) -> Iterator[Any]:
        """Yield the sums of every span in turn, by threads of this process."""


def sums_of_spans(
    name: str, summer_of: Callable[[int], SpanSummer], threads: int, cluster: Cluster
) -> Generator[Any]:
    """Yield the sums of all spans in turn; BadInput of the first row that cannot be taken.

    Parameters
    ----------
    name
        Of the tasks.
    summer_of
        Makes what sums up, by the number of tasks that share the memory of a process.
    threads
        Of this process, where there is no cluster.
    cluster
        Opens a cluster, or None.
    """
    with cluster() as executor:
        summer = summer_of(1 if executor is None else tasks_of_a_process(executor))
        spans = [] if executor is None else summer.spans
        if executor is None or not spans:
            yield from summer.by_span(threads)
        else:
            yield from _by_tasks(executor, name, summer, spans)


def _by_tasks(
    executor: Executor, name: str, summer: SpanSummer, spans: Sequence[SourceSpan]
) -> Iterator[Any]:
    items, task = ((span,) for span in spans), partial(result_or_refusal, sums_of_span)
    results = ordered_results(executor, name, task, summer, items)

    def again(_number: int, span: SourceSpan) -> Any:
        return executor.result(executor.submit(name, sums_of_span, summer, span))

    for one in in_chain(spans, results, lambda sums, _span: sums.read, again):
        yield one.result


def sums_of_span(summer: SpanSummer, span: SourceSpan) -> Any:
    """Return the sums of a span, in any process."""
    return_freed_memory(summer.budget.rows)
    return summer.of_span(span)
