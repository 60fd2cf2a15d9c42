"""The columns of a table, encoded and scored, as ONNX: an input (n, 1) for each, by its name.

Numbers are float64, NaN where they are missing; dates are seconds since 1970, or numbers in the
unit in which the table counts them; words and texts are strings, empty where they are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.models.export.folded_terms import table_of
from fewpass.pipeline.models.export.graph_parts import (
    DOUBLE,
    INT64,
    TREES_AND_LABELS,
    GraphParts,
)
from fewpass.pipeline.models.export.onnx_curves import (
    ShareInGraph,
    of_hats,
    of_pair,
    shares_of_number,
)
from fewpass.pipeline.models.export.onnx_steps import ALIKE, finite, stepped
from fewpass.pipeline.models.export.onnx_text import hashed, signs_of, text_scores
from fewpass.pipeline.tables.encoding.cells import UNITS_OF_TIME, numbers_among, places_among
from fewpass.pipeline.tables.encoding.moments import FIRST_MOMENT, LAST_MOMENT
from fewpass.pipeline.tables.encoding.terms import (
    CodeTerm,
    ColumnTerms,
    HashTerm,
    HatsTerm,
    MissingTerm,
    MomentCell,
    NumberCell,
    PairCell,
    SingleCell,
    Step,
    TableTerm,
    TextTerm,
    TwoCells,
    ValueTerm,
    VectorTerm,
    WordAxis,
    WordTerm,
)

_STRING = 8  # as ONNX counts types
_POINT = "-?[0-9]+[.]0"
#: Outputs, whose names no column may have.
OUTPUTS = ("label", "probabilities", "scores", "variable")


def table_scores(
    graph: GraphParts, described: Sequence[ColumnTerms], coef: Any, intercept: Any
) -> str:
    """Return the scores (n, K) of a table's rows, by coef (K, d) and intercept (K,).

    Raises
    ------
    BadInput
        A column is read in a way that tensors have no type or ONNX no operator for.
    """
    _require_names(described)
    numbers = [one for one in described if isinstance(one.read, NumberCell | MomentCell)]
    others = [one for one in described if one not in numbers]
    _require_words(numbers, others)
    parts = list(_of_numbers(graph, numbers, coef))
    parts += [_of_column(graph, one, coef) for one in others]
    total = graph.constant(np.asarray(intercept, np.float64))
    for part in parts:
        total = graph.op("Add", part, total)
    return total


def _require_names(described: Sequence[ColumnTerms]) -> None:
    for name in (name for one in described for name in one.columns):
        if name in OUTPUTS:
            raise BadInput(
                f"Column {name!r} has the name of an output of ONNX models. Choose .json or .sql, "
                "or rename it and train again."
            )


def _require_words(numbers: Sequence[ColumnTerms], others: Sequence[ColumnTerms]) -> None:
    """Refuse pairs with a column that is an input of numbers, which nobody knows the text of."""
    read = {name for one in numbers for name in one.columns}
    for one in others:
        both = [name for name in one.columns if name in read]
        if both and isinstance(one.read, PairCell):
            raise _refused(" x ".join(one.columns), f"{shown_name(both[0])} is a number, not text")


def _refused(name: str, why: str) -> BadInput:
    return BadInput(
        f"Column {shown_name(name)} is not for ONNX: {why}. Choose .json, or leave the column out "
        f"(ingest with `column={name}=drop`) and train again."
    )


Placed = tuple[str, str, int, Sequence[Step]]  # x (n, 1), where it is missing, a column, its steps


def _of_numbers(graph: GraphParts, described: Sequence[ColumnTerms], coef: Any) -> Iterator[str]:
    """Yield what numbers add to the scores; those that take the same steps are one matrix."""
    groups: dict[Any, list[Placed]] = {}
    for one in described:
        x, gone = _numbers_in(graph, one)
        for term in one.terms:
            if isinstance(term, ValueTerm):
                kinds = tuple(type(step) for step in term.steps)
                alone = set(kinds) - set(ALIKE)
                key = (kinds, len(groups)) if alone else kinds
                groups.setdefault(key, []).append((x, gone, term.at, term.steps))
            elif isinstance(term, MissingTerm):
                groups.setdefault(MissingTerm, []).append((x, gone, term.at, ()))
            elif isinstance(term, CodeTerm):
                yield _of_code(graph, x, gone, term, coef)
            elif isinstance(term, HatsTerm):
                yield of_hats(graph, x, gone, term, coef)
    for key, placed in groups.items():
        yield _of_group(graph, placed, coef, are_missing=key is MissingTerm)


def _of_group(graph: GraphParts, placed: Sequence[Placed], coef: Any, *, are_missing: bool) -> str:
    gone = _side_by_side(graph, [one[1] for one in placed])
    if are_missing:
        values = graph.op("Cast", gone, to=DOUBLE)
    else:
        x = _side_by_side(graph, [one[0] for one in placed])
        values = stepped(graph, x, [one[3] for one in placed])
        values = graph.op("Where", gone, graph.number(0.0), values)
    table = np.ascontiguousarray(coef[:, [one[2] for one in placed]].T)
    return graph.op("MatMul", values, graph.constant(table))


def _side_by_side(graph: GraphParts, columns: list[str]) -> str:
    return columns[0] if len(columns) == 1 else graph.op("Concat", *columns, axis=1)


def _numbers_in(graph: GraphParts, one: ColumnTerms) -> tuple[str, str]:
    """Return a column's numbers (n, 1), 0 where they are missing, and where that is."""
    x, read = graph.input(one.columns[0], DOUBLE), one.read
    if isinstance(read, NumberCell):
        x = _unless_among(graph, x, numbers_among(read.missing, read.written))
    if isinstance(read, MomentCell):
        x = _moments(graph, x, read)
    return finite(graph, x)


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


def _of_code(graph: GraphParts, x: str, gone: str, term: CodeTerm, coef: Any) -> str:
    """Return the weights of codes; those of missing numbers are a row of zeros behind them."""
    code = stepped(graph, x, [term.steps])
    code = graph.op("Where", gone, graph.constant(np.int64(term.width)), code)
    table = np.vstack([coef[:, term.at : term.at + term.width].T, np.zeros((1, len(coef)))])
    flat = graph.op("Squeeze", code, graph.whole(1))
    return graph.op("Gather", graph.constant(np.ascontiguousarray(table)), flat)


def _of_column(graph: GraphParts, one: ColumnTerms, coef: Any) -> str:
    """Return what a column of words, or of lists, adds to the scores."""
    (term,) = one.terms
    if isinstance(term, TableTerm):
        return _of_table(graph, one, term, coef)
    if isinstance(term, VectorTerm):
        return _of_vector(graph, one.columns[0], term, coef)
    if not isinstance(term, WordTerm | HashTerm | TextTerm):
        raise _refused(one.columns[0], "tensors hold no lists or maps of words")
    words = [_words_in(graph, name, one.read) for name in one.columns]
    if isinstance(term, TextTerm):
        slots = coef[:, term.at : term.at + (1 << term.bits)]
        return text_scores(graph, words[0], term, slots)
    if isinstance(term, WordTerm):
        return _of_word(graph, words[0], term, coef)
    return _of_hash(graph, one, words, term, coef)


def _of_table(graph: GraphParts, one: ColumnTerms, term: TableTerm, coef: Any) -> str:
    assert isinstance(one.read, TwoCells), "two columns are read"
    pairs = zip(one.columns, (one.read.a, one.read.b), (term.a, term.b), strict=True)
    a, b = (_shares(graph, name, read, axis) for name, read, axis in pairs)
    return of_pair(graph, a, b, table_of(term, coef))


def _shares(graph: GraphParts, name: str, read: SingleCell, axis: Any) -> list[ShareInGraph]:
    """Return the levels of a column's cells, and the shares of each."""
    if isinstance(axis, WordAxis):
        places = places_among(axis.values) | {"": len(axis.values) + 1}
        level = graph.op(
            "LabelEncoder", _words_in(graph, name, read), domain=TREES_AND_LABELS,
            keys_strings=[*places], values_int64s=[*places.values()],
            default_int64=len(axis.values),
        )  # fmt: skip
        return [ShareInGraph(level, None)]
    x, gone = _numbers_in(graph, ColumnTerms(columns=(name,), read=read, terms=()))
    return shares_of_number(graph, x, gone, axis)


def _words_in(graph: GraphParts, name: str, read: Any) -> str:
    """Return a column's words (n,), empty where they are missing."""
    words = graph.op("Squeeze", graph.input(name, _STRING), graph.whole(1))
    if not read.missing:
        return words
    empty = graph.constant(np.array("", object))
    return graph.op("Where", _is_among(graph, words, read.missing), empty, words)


def _hashable(graph: GraphParts, words: str) -> str:
    """Return words, `3.0` as `3`."""
    longer = graph.op("StringConcat", words, graph.constant(np.array(".", object)))
    parts, _ = graph.ops("StringSplit", longer, outputs=[None, None], delimiter=".", maxsplit=1)
    whole = graph.op("Gather", parts, graph.constant(np.int64(0)), axis=1)
    return graph.op("Where", graph.op("RegexFullMatch", words, pattern=_POINT), whole, words)


def _of_word(graph: GraphParts, x: str, term: WordTerm, coef: Any) -> str:
    places = places_among(term.values) | {"": len(term.values) + 1}
    code = graph.op(
        "LabelEncoder", x, domain=TREES_AND_LABELS, keys_strings=[*places],
        values_int64s=[*places.values()], default_int64=len(term.values),
    )  # fmt: skip
    table = np.ascontiguousarray(coef[:, term.at : term.missing + 1].T)
    return graph.op("Gather", graph.constant(table), code)


def _of_hash(
    graph: GraphParts, one: ColumnTerms, words: list[str], term: HashTerm, coef: Any
) -> str:
    """Return signed weights by hash; those of missing words are behind them."""
    missing = _is_among(graph, words[0], ("",))
    text, *others = [_hashable(graph, word) for word in words]
    for word in others:
        assert isinstance(one.read, PairCell), "two columns are a pair"
        missing = graph.op("Or", missing, _is_among(graph, word, ("",)))
        between = graph.constant(np.array([one.read.between], object))
        text = graph.op("StringConcat", graph.op("StringConcat", text, between), word)
    prefix = graph.constant(np.array([term.prefix], object))
    codes = hashed(graph, graph.op("StringConcat", prefix, text))
    slots = graph.op("Mod", graph.op("Abs", codes), graph.constant(np.int64(1 << term.bits)))
    slots = graph.op("Where", missing, graph.constant(np.int64(1 << term.bits)), slots)
    signs = graph.op("Where", missing, graph.number(1.0), signs_of(graph, codes))
    table = np.ascontiguousarray(coef[:, term.at : term.missing + 1].T)
    weights = graph.op("Gather", graph.constant(table), slots)
    return graph.op("Mul", weights, graph.op("Unsqueeze", signs, graph.whole(1)))


def _is_among(graph: GraphParts, x: str, words: Sequence[str]) -> str:
    code = graph.op(
        "LabelEncoder", x, domain=TREES_AND_LABELS, keys_strings=[*words],
        values_int64s=[1] * len(words), default_int64=0,
    )  # fmt: skip
    return graph.op("Equal", code, graph.constant(np.int64(1)))


def _of_vector(graph: GraphParts, name: str, term: VectorTerm, coef: Any) -> str:
    """Return the weights of numbers (n, m); a row of NaN is a missing list."""
    size = len(term.mean)
    numbers, gone = finite(graph, graph.input(name, DOUBLE, size))
    centred = graph.op("Sub", numbers, graph.constant(np.array(term.mean)))
    values = graph.op("Div", centred, graph.constant(np.array(term.deviation)))
    values = graph.op("Where", gone, graph.number(0.0), values)
    n_gone = graph.op("Cast", gone, to=INT64)
    n_gone = graph.op("ReduceSum", n_gone, graph.whole(1), keepdims=1)
    missing = graph.op("Equal", n_gone, graph.constant(np.int64(size)))
    row = graph.op("Concat", values, graph.op("Cast", missing, to=DOUBLE), axis=1)
    table = np.ascontiguousarray(coef[:, term.at : term.at + size + 1].T)
    return graph.op("MatMul", row, graph.constant(table))
