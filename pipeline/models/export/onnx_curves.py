"""Curves and functions of two columns as ONNX, their weights folded into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.models.export.folded_terms import lines_of
from fewpass.pipeline.models.export.graph_parts import DOUBLE, INT64, GraphParts
from fewpass.pipeline.models.export.onnx_steps import curves, interpolated, stepped
from fewpass.pipeline.tables.encoding.terms import CodeAxis, HatsTerm, KnotAxis


class ShareInGraph(NamedTuple):
    """A level of every row, and the rows' shares of it."""

    level: str  # (n,) int64
    share: str | None  # (n, 1); None: 1


def of_hats(graph: GraphParts, x: str, gone: str, term: HatsTerm, coef: Any) -> str:
    """Return what a curve of x (n, 1) adds to the scores; of missing ones what they count as."""
    lines = lines_of(term, coef)
    x = stepped(graph, x, [term.steps])
    if term.missing_as is not None:
        x = graph.op("Where", gone, graph.number(term.missing_as), x)
    values = curves(graph, x, lines.x, lines.heights)
    if term.missing_as is not None:
        return values
    return graph.op("Where", gone, graph.number(0.0), values)


def shares_of_number(
    graph: GraphParts, x: str, gone: str, axis: KnotAxis | CodeAxis
) -> list[ShareInGraph]:
    """Return the levels of numbers (n, 1), and the shares of each."""
    x = stepped(graph, x, [axis.steps])
    if isinstance(axis, CodeAxis):
        code = graph.op("Where", gone, graph.constant(np.int64(len(axis.levels) - 1)), x)
        level = graph.op("Gather", graph.whole(*axis.levels), code)
        return [ShareInGraph(graph.op("Squeeze", level, graph.whole(1)), None)]
    last = len(axis.knots) - 1
    if axis.missing_as is not None:
        x = graph.op("Where", gone, graph.number(axis.missing_as), x)
        gone = graph.constant(np.array([[False]]))
    place = interpolated(graph, x, axis.knots, range(last + 1))
    left = graph.op("Min", graph.op("Floor", place), graph.number(last - 1.0))
    there = graph.op("Sub", graph.number(1.0), graph.op("Cast", gone, to=DOUBLE))
    right = graph.op("Mul", graph.op("Sub", place, left), there)
    level = graph.op("Cast", graph.op("Squeeze", left, graph.whole(1)), to=INT64)
    return [
        ShareInGraph(level, graph.op("Sub", there, right)),
        ShareInGraph(graph.op("Add", level, graph.constant(np.int64(1))), right),
    ]


def of_pair(
    graph: GraphParts, a: Sequence[ShareInGraph], b: Sequence[ShareInGraph], table: Any
) -> str:
    """Return the sum of a table's rows (levels of a, levels of b, K), weighed by shares."""
    flat = graph.constant(np.ascontiguousarray(table.reshape(-1, table.shape[2])))
    width, total = graph.constant(np.int64(table.shape[1])), None
    for one in a:
        first = graph.op("Mul", one.level, width)
        for other in b:
            part = graph.op("Gather", flat, graph.op("Add", first, other.level))
            for share in filter(None, (one.share, other.share)):
                part = graph.op("Mul", part, share)
            total = part if total is None else graph.op("Add", total, part)
    assert total is not None, "rows have levels"
    return total
