"""Text as ONNX: onnxruntime's own operators cut and hash it, ONNX's count and weigh.

The graph of `fewpass.pipeline.tables.encoding.text`: tokens and pairs of neighbours, or runs of
three to five characters.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from fewpass.pipeline.models.export.graph_parts import INT64, ONNXRUNTIME, GraphParts
from fewpass.pipeline.tables.encoding.terms import TextTerm
from fewpass.pipeline.tables.encoding.text import LONGEST, SHORTEST
from fewpass.pipeline.tables.encoding.text_recipe import weights_in

_TOKEN = "[0-9A-Za-z\\x{80}-\\x{10FFFF}]+"  # noqa: S105 - of text
_OTHER = "[^0-9A-Za-z\\x{80}-\\x{10FFFF}]"
#: What no cut makes: a character twice that is in no token.
_PADDING = "\x02\x02"
#: More characters between two words count as so many.
MOST_BETWEEN = 1024
#: A row behind all others, so that nothing is ever empty.
_LAST = "some text"


def hashed(graph: GraphParts, words: str) -> str:
    """Return MurmurHash3 of words (m,), as signed numbers of 32 bits, in int64."""
    codes = graph.op("MurmurHash3", words, domain=ONNXRUNTIME, positive=0, seed=0)
    return graph.op("Cast", codes, to=INT64)


def signs_of(graph: GraphParts, codes: str) -> str:
    """Return -1 where a hash is below 0, else 1."""
    below = graph.op("Less", codes, graph.constant(np.int64(0)))
    return graph.op("Where", below, graph.number(-1.0), graph.number(1.0))


def text_scores(graph: GraphParts, x: str, term: TextTerm, coef: Any) -> str:
    """Return what a text (n,) adds to the scores (n, K), by coef (K, 2^bits)."""
    last = graph.constant(np.array([_LAST], object))
    cells = graph.op("Concat", x, last, axis=0)
    n_rows = graph.op("Shape", cells)
    rows, words = (_words if term.grams == "words" else _runs)(graph, cells)
    codes = hashed(graph, words)
    size = graph.constant(np.int64(1 << term.bits))
    slots = graph.op("Mod", codes, size)
    keys = graph.op("Add", graph.op("Mul", rows, size), slots)
    keys, _, inverse = graph.ops("Unique", keys, outputs=[None, None, None], sorted=1)
    rows = graph.op("Div", keys, size)
    slots = graph.op("Mod", keys, size)
    counts = _summed(graph, graph.op("Shape", keys), inverse, signs_of(graph, codes))
    values = _weighted(graph, counts, slots, term)
    squares = _summed(graph, n_rows, rows, graph.op("Mul", values, values))
    empty = graph.op("Equal", squares, graph.number(0.0))
    lengths = graph.op("Sqrt", graph.op("Where", empty, graph.number(1.0), squares))
    values = graph.op("Div", values, graph.op("Gather", lengths, rows))
    return _added(graph, n_rows, rows, values, slots, coef)


def _weighted(graph: GraphParts, counts: str, slots: str, term: TextTerm) -> str:
    """Return +-(1 + log count) idf; 0 where signs cancel out."""
    idf = graph.op("Gather", graph.constant(weights_in(term.idf, term.bits)), slots)
    often = graph.op("Max", graph.op("Abs", counts), graph.number(1.0))
    sizes = graph.op("Add", graph.op("Log", often), graph.number(1.0))
    return graph.op("Mul", graph.op("Mul", graph.op("Sign", counts), sizes), idf)


def _summed(graph: GraphParts, size: str, places: str, values: str) -> str:
    """Return values added up by their places, (size,)."""
    zeros = _zeros(graph, size)
    return graph.op("ScatterElements", zeros, places, values, axis=0, reduction="add")


def _added(graph: GraphParts, n_rows: str, rows: str, values: str, slots: str, coef: Any) -> str:
    table = graph.constant(np.ascontiguousarray(coef.T))
    column = graph.op("Unsqueeze", values, graph.whole(1))
    each = graph.op("Mul", graph.op("Gather", table, slots), column)
    shape = graph.op("Concat", n_rows, graph.whole(len(coef)), axis=0)
    places = graph.op("Unsqueeze", rows, graph.whole(1))
    sums = graph.op("ScatterND", _zeros(graph, shape), places, each, reduction="add")
    n = graph.op("Sub", n_rows, graph.whole(1))
    return graph.op("Slice", sums, graph.whole(0), n)


def _zeros(graph: GraphParts, shape: str) -> str:
    from onnx import numpy_helper  # noqa: PLC0415 - an extra

    return graph.op("ConstantOfShape", shape, value=numpy_helper.from_array(np.zeros(1)))


def _lowered(graph: GraphParts, words: str) -> str:
    """Return words (m,) in lower case, those of ASCII alone."""
    return graph.op("StringNormalizer", words, case_change_action="LOWER", locale="C")


def _cut(graph: GraphParts, cells: str, **how: Any) -> str:
    return graph.op(
        "Tokenizer", cells, domain=ONNXRUNTIME, mark=0, mincharnum=1, pad_value=_PADDING, **how
    )


def _matching(graph: GraphParts, tokens: str, wanted: str) -> tuple[str, str, str]:
    """Return row, place and text of the tokens that match a pattern."""
    places = graph.op("NonZero", graph.op("RegexFullMatch", tokens, pattern=wanted))
    by_token = graph.op("Transpose", places, perm=[1, 0])
    zero = graph.constant(np.int64(0))
    rows = graph.op("Gather", places, zero)
    at = graph.op("Gather", places, graph.constant(np.int64(1)))
    return rows, at, _lowered(graph, graph.op("GatherND", tokens, by_token))


def _words(graph: GraphParts, cells: str) -> tuple[str, str]:
    """Return the tokens of cells and every two neighbours, and the rows they are of."""
    cut = _cut(graph, cells, tokenexp=f"{_TOKEN}|{_OTHER}")
    rows, at, words = _matching(graph, cut, _TOKEN)
    first, second = _neighbours(graph, rows, 1)
    gaps = graph.op("Sub", graph.op("Gather", at, second), graph.op("Gather", at, first))
    gaps = graph.op("Sub", gaps, graph.constant(np.int64(1)))
    gaps = graph.op("Min", gaps, graph.constant(np.int64(MOST_BETWEEN)))
    spaces = np.array([" " * k for k in range(MOST_BETWEEN + 1)], object)
    between = graph.op("Gather", graph.constant(spaces), gaps)
    pairs = graph.op("StringConcat", graph.op("Gather", words, first), between)
    pairs = graph.op("StringConcat", pairs, graph.op("Gather", words, second))
    of_pairs = graph.op("Gather", rows, first)
    return (
        graph.op("Concat", rows, of_pairs, axis=0),
        graph.op("Concat", words, pairs, axis=0),
    )


def _runs(graph: GraphParts, cells: str) -> tuple[str, str]:
    """Return every three, four and five neighbouring characters, and the rows they are of."""
    cut = _cut(graph, cells, separators=[""])
    rows, _, characters = _matching(graph, cut, "(?s:.)")
    of_runs, runs = [], []
    for size in range(SHORTEST, LONGEST + 1):
        first, _ = _neighbours(graph, rows, size - 1)
        run = graph.op("Gather", characters, first)
        for k, _more in enumerate(pairwise(range(size)), 1):
            place = graph.op("Add", first, graph.constant(np.int64(k)))
            run = graph.op("StringConcat", run, graph.op("Gather", characters, place))
        runs.append(run)
        of_runs.append(graph.op("Gather", rows, first))
    return graph.op("Concat", *of_runs, axis=0), graph.op("Concat", *runs, axis=0)


def _neighbours(graph: GraphParts, rows: str, distance: int) -> tuple[str, str]:
    """Return the tokens that have one so far behind them in the same row, and these."""
    begin = graph.op("Slice", rows, graph.whole(0), graph.whole(-distance))
    end = graph.op("Slice", rows, graph.whole(distance), graph.whole(1 << 62))
    same = graph.op("NonZero", graph.op("Equal", begin, end))
    first = graph.op("Squeeze", same, graph.whole(0))
    return first, graph.op("Add", first, graph.constant(np.int64(distance)))
