"""The columns of a table, encoded and scored, as ONNX: an input (n, 1) for each, by its name.

Numbers are float64, NaN where they are missing; dates are seconds since 1970, or numbers in the
unit in which the table counts them; words and texts are strings, empty where they are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.graph_parts import (
    DOUBLE,
    INT64,
    TREES_AND_LABELS,
    GraphParts,
)
from fewpass.pipeline.models.export.onnx_cells import CellsInGraph, NumberInGraph, is_among
from fewpass.pipeline.models.export.onnx_steps import clipped, counted, finite, stepped
from fewpass.pipeline.models.export.onnx_text import hashed, signs_of, text_scores
from fewpass.pipeline.tables.encoding.cells import places_among
from fewpass.pipeline.tables.encoding.folding import (
    Argument,
    Codes,
    ColumnFunctions,
    Effect,
    Features,
    Function,
    InteractionEffect,
    Points,
    Words,
)
from fewpass.pipeline.tables.encoding.terms import (
    HashTerm,
    PairCell,
    TextTerm,
    ValueTerm,
    VectorTerm,
)

_POINT = "-?[0-9]+[.]0"
#: Outputs, whose names no column may have.
OUTPUTS = ("label", "probabilities", "scores", "variable")


class ShareInGraph(NamedTuple):
    """A level of every row, and the rows' shares of it."""

    level: str  # (n,) int64
    share: str | None  # (n, 1); None: 1


def table_scores(graph: GraphParts, columns: Sequence[ColumnFunctions], intercept: Any) -> str:
    """Return the scores (n, K) of a table's rows: the sum of all functions and intercept (K,).

    Raises
    ------
    BadInput
        A column is read in a way that tensors have no type or ONNX no operator for.
    """
    _require_names(columns)
    cells = CellsInGraph(graph)
    slopes: list[_Slope] = []
    parts: list[str] = []
    for one in columns:
        read = cells.of(one)
        for function in one.functions:
            points = _ends_of(function)
            if points is not None:
                slopes.append(_Slope(read[0].x, read[0].gone, points, function.weights))
            else:
                parts.append(_PARTS[type(function)](graph, one, function, read))
    if slopes:
        parts.insert(0, _of_slopes(graph, slopes))
    total = graph.constant(np.asarray(intercept, np.float64))
    for part in parts:
        total = graph.op("Add", part, total)
    return total


def _require_names(columns: Sequence[ColumnFunctions]) -> None:
    for name in (name for one in columns for name in one.columns):
        if name in OUTPUTS:
            raise BadInput(
                f"Column {name!r} has the name of an output of ONNX models. Choose .json or .sql, "
                "or rename it and train again."
            )


class _Slope(NamedTuple):
    """One line of a number itself."""

    x: str
    gone: str
    ends: tuple[float, ...]  # (2,)
    weights: Any  # (3, K) at the ends, and of missing numbers


def _ends_of(function: Function) -> tuple[float, ...] | None:
    """Return the ends of a function that is one line of a number itself; None of others."""
    of = function.of if isinstance(function, Effect) else None
    return of.x if isinstance(of, Points) and len(of.x) == 2 and not of.steps else None


def _of_slopes(graph: GraphParts, slopes: Sequence[_Slope]) -> str:
    """Return the sum of lines (n, K), each of its own column: all columns are one matrix."""
    ends = np.array([one.ends for one in slopes])
    first, last, missing = np.stack([one.weights for one in slopes], axis=1)
    x, gone = (graph.side_by_side([*each]) for each in list(zip(*slopes, strict=True))[:2])
    low, high = (graph.constant(np.ascontiguousarray(end)) for end in ends.T)
    beyond = graph.op("Sub", clipped(graph, x, low, high), low)
    beyond = graph.op("Where", gone, graph.number(0.0), beyond)
    slope = (last - first) / np.diff(ends)
    there = graph.op("MatMul", beyond, graph.constant(slope))
    of_gone = graph.op("MatMul", graph.op("Cast", gone, to=DOUBLE), graph.constant(missing - first))
    return graph.op("Add", graph.op("Add", there, of_gone), graph.constant(first.sum(axis=0)))


def _of_effect(graph: GraphParts, _one: Any, effect: Effect, cells: Sequence[Any]) -> str:
    """Return the weights of rows' levels, or what lies between those of two points."""
    if isinstance(effect.of, Points) and len(effect.of.x) > 1:
        return _between_points(graph, effect.of, cells[0], effect.weights)
    return _weighed(graph, _shares(graph, effect.of, cells[0]), effect.weights)


def _between_points(graph: GraphParts, of: Points, cell: NumberInGraph, weights: Any) -> str:
    """Return lines between points (m,): behind the m - 1 of them is the level of missing ones."""
    points, last = np.array(of.x), np.zeros_like(weights[:1])
    x = stepped(graph, cell.x, of.steps)
    x = clipped(graph, x, graph.number(points[0]), graph.number(points[-1]))
    line = _or_missing(graph, cell.gone, counted(graph, x, points[1:-1]), len(points) - 1)
    slopes = np.diff(weights[:-1], axis=0) / np.diff(points)[:, None]
    tables = (
        np.append(points[:-1], 0.0)[:, None],
        np.vstack([slopes, last]),
        np.delete(weights, -2, axis=0),
    )
    base, slope, low = (graph.op("Gather", graph.constant(part), line) for part in tables)
    beyond = graph.op("Mul", graph.op("Sub", x, base), slope)
    return graph.op("Add", beyond, low)


def _of_interaction(
    graph: GraphParts, _one: Any, both: InteractionEffect, cells: Sequence[Any]
) -> str:
    of_a, of_b = (
        _shares(graph, of, cell) for of, cell in zip((both.a, both.b), cells, strict=True)
    )
    width, products = graph.constant(np.int64(both.weights.shape[1])), []
    for one in of_a:
        first = graph.op("Mul", one.level, width)
        for other in of_b:
            share = one.share or other.share
            if one.share and other.share:
                share = graph.op("Mul", one.share, other.share)
            products.append(ShareInGraph(graph.op("Add", first, other.level), share))
    return _weighed(graph, products, both.weights.reshape(-1, both.weights.shape[2]))


def _weighed(graph: GraphParts, shares: Sequence[ShareInGraph], weights: Any) -> str:
    table, parts = graph.constant(np.ascontiguousarray(weights)), []
    for one in shares:
        part = graph.op("Gather", table, one.level)
        parts.append(graph.op("Mul", part, one.share) if one.share else part)
    return parts[0] if len(parts) == 1 else graph.op("Sum", *parts)


def _shares(graph: GraphParts, of: Argument, cell: Any) -> list[ShareInGraph]:
    """Return the levels of a column's cells, and the shares of each."""
    if isinstance(of, Words):
        places = places_among(of.values) | {"": len(of.values) + 1}
        level = graph.op(
            "LabelEncoder", cell, domain=TREES_AND_LABELS, keys_strings=[*places],
            values_int64s=[*places.values()], default_int64=len(of.values),
        )  # fmt: skip
        return [ShareInGraph(level, None)]
    x = stepped(graph, cell.x, of.steps)
    if isinstance(of, Codes):
        return [ShareInGraph(_or_missing(graph, cell.gone, x, of.size), None)]
    return _shares_between(graph, x, cell.gone, np.array(of.x))


def _shares_between(graph: GraphParts, x: str, gone: str, points: Any) -> list[ShareInGraph]:
    """Return the points next to numbers (n, 1); behind all of them is the level of missing ones."""
    x = clipped(graph, x, graph.number(points[0]), graph.number(points[-1]))
    place = counted(graph, x, points[1:-1])
    left = ShareInGraph(_or_missing(graph, gone, place, len(points)), None)
    if len(points) == 1:
        return [left]
    base, width = (
        graph.op("Gather", graph.constant(part), place) for part in (points[:-1], np.diff(points))
    )
    right = graph.op("Div", graph.op("Sub", x, base), width)
    right = graph.op("Where", gone, graph.number(0.0), right)
    rest = graph.op("Sub", graph.number(1.0), right)
    next_one = graph.op("Add", place, graph.constant(np.int64(1)))
    return [
        left._replace(share=rest),
        ShareInGraph(graph.op("Squeeze", next_one, graph.whole(1)), right),
    ]


def _or_missing(graph: GraphParts, gone: str, level: str, missing: int) -> str:
    """Return levels (n,); where a number is missing, that of missing ones."""
    level = graph.op("Where", gone, graph.constant(np.int64(missing)), level)
    return graph.op("Squeeze", level, graph.whole(1))


def _of_features(
    graph: GraphParts, one: ColumnFunctions, function: Features, cells: Sequence[Any]
) -> str:
    table = np.ascontiguousarray(function.weights)
    return _FEATURES[type(function.term)](graph, one, function.term, cells, table)


def _of_value(graph: GraphParts, _one: Any, term: ValueTerm, cells: Any, table: Any) -> str:
    values = stepped(graph, cells[0].x, term.steps)
    values = graph.op("Where", cells[0].gone, graph.number(0.0), values)
    return graph.op("MatMul", values, graph.constant(table))


def _of_text(graph: GraphParts, _one: Any, term: TextTerm, cells: Any, table: Any) -> str:
    return text_scores(graph, cells[0], term, table.T)


def _of_hash(
    graph: GraphParts, one: ColumnFunctions, term: HashTerm, words: Sequence[str], table: Any
) -> str:
    """Return signed weights by hash; those of missing words are behind them."""
    missing = is_among(graph, words[0], ("",))
    text, *others = [_hashable(graph, word) for word in words]
    for word in others:
        assert isinstance(one.read, PairCell), "two columns are a pair"
        missing = graph.op("Or", missing, is_among(graph, word, ("",)))
        between = graph.constant(np.array([one.read.between], object))
        text = graph.op("StringConcat", graph.op("StringConcat", text, between), word)
    prefix = graph.constant(np.array([term.prefix], object))
    codes = hashed(graph, graph.op("StringConcat", prefix, text))
    slots = graph.op("Mod", graph.op("Abs", codes), graph.constant(np.int64(1 << term.bits)))
    slots = graph.op("Where", missing, graph.constant(np.int64(1 << term.bits)), slots)
    signs = graph.op("Where", missing, graph.number(1.0), signs_of(graph, codes))
    weights = graph.op("Gather", graph.constant(table), slots)
    return graph.op("Mul", weights, graph.op("Unsqueeze", signs, graph.whole(1)))


def _hashable(graph: GraphParts, words: str) -> str:
    """Return words, `3.0` as `3`."""
    longer = graph.op("StringConcat", words, graph.constant(np.array(".", object)))
    parts, _ = graph.ops("StringSplit", longer, outputs=[None, None], delimiter=".", maxsplit=1)
    whole = graph.op("Gather", parts, graph.constant(np.int64(0)), axis=1)
    return graph.op("Where", graph.op("RegexFullMatch", words, pattern=_POINT), whole, words)


def _of_vector(graph: GraphParts, _one: Any, term: VectorTerm, cells: Any, table: Any) -> str:
    """Return the weights of numbers (n, m); a row of NaN is a missing list."""
    size = len(term.mean)
    numbers, gone = finite(graph, cells[0])
    centred = graph.op("Sub", numbers, graph.constant(np.array(term.mean)))
    values = graph.op("Div", centred, graph.constant(np.array(term.deviation)))
    values = graph.op("Where", gone, graph.number(0.0), values)
    n_gone = graph.op("Cast", gone, to=INT64)
    n_gone = graph.op("ReduceSum", n_gone, graph.whole(1), keepdims=1)
    missing = graph.op("Equal", n_gone, graph.constant(np.int64(size)))
    row = graph.op("Concat", values, graph.op("Cast", missing, to=DOUBLE), axis=1)
    return graph.op("MatMul", row, graph.constant(table))


_PARTS: dict[type, Callable[[GraphParts, ColumnFunctions, Any, Sequence[Any]], str]] = {
    Effect: _of_effect, InteractionEffect: _of_interaction, Features: _of_features,
}  # fmt: skip
_FEATURES: dict[type, Callable[[GraphParts, ColumnFunctions, Any, Any, Any], str]] = {
    ValueTerm: _of_value, TextTerm: _of_text, HashTerm: _of_hash, VectorTerm: _of_vector,
}  # fmt: skip
