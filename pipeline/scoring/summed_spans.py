"""Sums over the rows of files, each span of which is read by a task of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.passes.ordered_tasks import ordered_results, result_or_refusal
from fewpass.pipeline.tables.readers.source import SourceSpan
from fewpass.pipeline.tables.readers.source_spans import in_chain

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor


class SpanSummer(Protocol):
    """Sums up the rows of spans; the same in any process."""

    @property
    def budget(self) -> Budget:
        """Of a process that reads a span."""

    def of_span(self, span: SourceSpan) -> Any:
        """Return the sums of a span, whose `read` says where its rows are."""


def sums_by_tasks(
    executor: Executor, name: str, summer: SpanSummer, spans: Sequence[SourceSpan]
) -> Iterator[Any]:
    """Yield the sums of all spans in turn; BadInput of the first row that cannot be taken."""
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
