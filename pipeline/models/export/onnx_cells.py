"""Columns of a table as inputs of an ONNX graph: numbers, words and lists of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.models.export.graph_parts import (
    DOUBLE,
    TREES_AND_LABELS,
    GraphParts,
)
from fewpass.pipeline.models.export.onnx_steps import finite
from fewpass.pipeline.tables.encoding.apply_terms import single_reads
from fewpass.pipeline.tables.encoding.cells import UNITS_OF_TIME, numbers_among
from fewpass.pipeline.tables.encoding.folding import (
    ColumnFunctions,
)
from fewpass.pipeline.tables.encoding.moments import FIRST_MOMENT, LAST_MOMENT
from fewpass.pipeline.tables.encoding.terms import (
    MomentCell,
    NumberCell,
    PairCell,
    VectorTerm,
    WordCell,
)

_STRING = 8  # as ONNX counts types


class NumberInGraph(NamedTuple):
    """A column of numbers."""

    x: str  # (n, 1), 0 where they are missing
    gone: str  # (n, 1) where that is


class CellsInGraph:
    """Columns as they are read, each once; a name is an input of one type."""

    def __init__(self, graph: GraphParts) -> None:
        self._graph = graph
        self._known: dict[Any, Any] = {}
        self._numbers: set[str] = set()

    def of(self, one: ColumnFunctions) -> list[Any]:
        """Return the numbers, the words (n,) or the input of a column, or of two."""
        for name in one.columns if isinstance(one.read, PairCell) else ():
            if name in self._numbers:
                raise _refused(" x ".join(one.columns), f"{shown_name(name)} is a number, not text")
        return [
            self._read(name, read, one)
            for name, read in zip(one.columns, single_reads(one.read), strict=True)
        ]

    def _read(self, name: str, read: Any, one: ColumnFunctions) -> Any:
        key = name, read
        if key in self._known:
            return self._known[key]
        if isinstance(read, NumberCell | MomentCell):
            self._numbers.add(name)
            self._known[key] = _numbers_in(self._graph, name, read)
        elif isinstance(read, WordCell):
            self._known[key] = _words_in(self._graph, name, read)
        elif isinstance(term := one.functions[0].term, VectorTerm):  # type: ignore[union-attr]
            self._known[key] = self._graph.input(name, DOUBLE, len(term.mean))
        else:
            raise _refused(name, "tensors hold no lists or maps of words")
        return self._known[key]


def _numbers_in(graph: GraphParts, name: str, read: NumberCell | MomentCell) -> NumberInGraph:
    x = graph.input(name, DOUBLE)
    if isinstance(read, NumberCell):
        x = _unless_among(graph, x, numbers_among(read.missing, read.written))
    else:
        x = _moments(graph, x, read)
    return NumberInGraph(*finite(graph, x))


def _moments(graph: GraphParts, x: str, read: MomentCell) -> str:
    unit = UNITS_OF_TIME.get(read.form or "s", 1.0)
    if unit != 1.0:
        x = graph.op("Mul", x, graph.number(unit))
    gone = graph.op("Less", x, graph.number(FIRST_MOMENT))
    gone = graph.op("Or", gone, graph.op("GreaterOrEqual", x, graph.number(LAST_MOMENT)))
    x = graph.op("Where", gone, graph.number(np.nan), x)
    return _unless_among(graph, x, read.standins)


def _unless_among(graph: GraphParts, x: str, numbers: Sequence[float]) -> str:
    """Return numbers, those given as NaN."""
    for number in numbers:
        gone = graph.op("Equal", x, graph.number(number))
        x = graph.op("Where", gone, graph.number(np.nan), x)
    return x


def _words_in(graph: GraphParts, name: str, read: WordCell) -> str:
    """Return a column's words (n,), empty where they are missing."""
    words = graph.op("Squeeze", graph.input(name, _STRING), graph.whole(1))
    if not read.missing:
        return words
    empty = graph.constant(np.array("", object))
    return graph.op("Where", is_among(graph, words, read.missing), empty, words)


def is_among(graph: GraphParts, x: str, words: Sequence[str]) -> str:
    """Return whether words (n,) are among some."""
    code = graph.op(
        "LabelEncoder", x, domain=TREES_AND_LABELS, keys_strings=[*words],
        values_int64s=[1] * len(words), default_int64=0,
    )  # fmt: skip
    return graph.op("Equal", code, graph.constant(np.int64(1)))


def _refused(name: str, why: str) -> BadInput:
    return BadInput(
        f"Column {shown_name(name)} is not for ONNX: {why}. Choose .json, or leave the column out "
        f"(ingest with `column={name}=drop`) and train again."
    )
