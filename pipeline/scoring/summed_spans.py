"""Sums over the rows of files, each span of which is read by a task of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.ordered_tasks import ordered_results
from fewpass.pipeline.tables.readers.source import SourceSpan
from fewpass.pipeline.tables.readers.source_spans import SpanChain


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
    chain, items = SpanChain(), ((span,) for span in spans)
    results = ordered_results(executor, name, sums_or_refusal, summer, items)
    for span, result in zip(spans, results, strict=True):
        sums, begun = result, chain.begun(span)
        if isinstance(sums, BadInput) or not chain.fits(sums.read):
            sums = executor.result(executor.submit(name, sums_of_span, summer, begun))
        chain.add(sums.read)
        yield sums


def sums_of_span(summer: SpanSummer, span: SourceSpan) -> Any:
    """Return the sums of a span, in any process."""
    return_freed_memory(summer.budget.rows)
    return summer.of_span(span)


def sums_or_refusal(summer: SpanSummer, span: SourceSpan) -> Any:
    """Return the sums of a span, or a refusal, which may be of rows that begin elsewhere."""
    try:
        return sums_of_span(summer, span)
    except BadInput as error:
        return error
