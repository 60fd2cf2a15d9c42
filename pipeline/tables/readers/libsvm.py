"""LIBSVM (svmlight) text to sparse tables."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fewpass.pipeline.tables.readers import libsvm_kernel as grammar
from fewpass.pipeline.tables.readers.characters import COLON
from fewpass.pipeline.tables.readers.libsvm_kernel import (
    LibsvmCounts,
    LibsvmRules,
    LibsvmSpace,
    parse_rows,
)
from fewpass.pipeline.tables.readers.lines import WholeLines, count_byte
from fewpass.pipeline.tables.readers.source import LARGEST, LISTED, ParsedRows, Piece
from fewpass.pipeline.tables.readers.sparse_text import ParsedText, SparseText
from fewpass.solvers.kernels.dispatch import exactly
from fewpass.storage.table import SparseTable

_INT32_COLUMNS = 2**31 - 1
_TOKEN_ENDS = b" \t\r\n#"
#: Share of the space reserved for values that may stay unused before the table is copied.
_SLACK = 0.1

#: Fact and advice for every fault; {token} is the offending token, {last} the index before it.
_MESSAGES = {
    grammar.BAD_LABEL: (
        "{token} stands where the label should, which must be a number",
        "Check that the file is LIBSVM text; number the labels,",
    ),
    grammar.MISSING_LABEL: (
        "the line begins with {token}, a label was expected",
        "Write the label first,",
    ),
    grammar.SEVERAL_LABELS: (
        "the row has several labels, {token}, one was expected",
        "Write one file per label, each with one number in front,",
    ),
    grammar.LABEL_NOT_FINITE: ("the label is {token}, a finite number was expected", "Correct it,"),
    grammar.BAD_INDEX: (
        "found {token}, expected index:value",
        "Check that the file is LIBSVM text and whole,",
    ),
    grammar.INDEX_ZERO: (
        "found index 0 in {token}, but indices start at 1",
        "If this file counts from 0, say so (`zero_based=true`),",
    ),
    grammar.NOT_ASCENDING: (
        "{token} has a smaller index than the entry before it, they must ascend",
        "Sort the entries of each row,",
    ),
    grammar.TOO_WIDE: (
        "{token} lies beyond the {width} features that there are",
        "Leave such values out (`unknown_features=ignore`), or give more (`n_features`),",
    ),
    grammar.BAD_VALUE: (
        "the value in {token} is not a number",
        "Check that the file is LIBSVM text and whole,",
    ),
    grammar.VALUE_MISSING: (
        "the value in {token} is missing",
        "Count missing values as zeros (`missing=zero`),",
    ),
    grammar.VALUE_NOT_FINITE: (
        "the value in {token} is not finite in {dtype}, or too large to square",
        "Correct it,",
    ),
}


class LibsvmSource(SparseText):
    """LIBSVM files as sparse rows; see `Source` for the methods.

    A value is the double that Python's `float()` gives, rounded once more for float32 tables.
    Zeros are not stored.  Equal indices side by side are added up.
    """

    extensions: ClassVar[tuple[str, ...]] = (".svm", ".libsvm", ".svmlight")
    refusal = (
        "LIBSVM text has no columns to name, but `{}` was given. Leave it out, or say what the "
        "text is (`format`)."
    )
    messages, is_ascii = _MESSAGES, True

    @property
    def _width(self) -> int | None:
        """The features that a value may be of; None: any, as others are left out later."""
        return None if self._options.unknown_features == "ignore" else self._options.n_features

    def read(self, text: WholeLines, *, stop: bool) -> ParsedText:
        options, width = self._options, self._width or grammar.WIDEST
        rules = LibsvmRules(
            0 if options.zero_based else 1,
            min(width, _INT32_COLUMNS),
            not options.label_required,
            options.missing == "zero",
            stop,
            LARGEST[options.dtype],
        )
        space, counts = _parse(text, rules, options.dtype)
        if width > _INT32_COLUMNS and grammar.TOO_WIDE in space.bad[: counts.bad, 0]:
            space, counts = _parse(text, rules._replace(width=width), options.dtype)
        table = _table(space, counts)
        return ParsedText(table, counts.max_index, space.bad, counts.bad, counts.merged)

    def parse(self, piece: Piece) -> ParsedRows:
        parsed, most = super().parse(piece), self._options.n_features
        return within(parsed, most) if most and self._width is None else parsed

    @staticmethod
    def token_in(text: bytes) -> bytes:
        """Return what stands before the next blank, comment or line end."""
        ends = [k for k, c in enumerate(text) if c in _TOKEN_ENDS]
        return text[: ends[0]] if ends else text


def within(parsed: ParsedRows, n_features: int) -> ParsedRows:
    """Leave out the values beyond `n_features` features, and count them."""
    table = parsed.table
    assert isinstance(table, SparseTable), "LIBSVM text is sparse"
    if parsed.max_index < n_features:
        return parsed
    inside = table.indices < n_features
    ends = np.concatenate(([0], np.cumsum(inside)))[table.indptr]
    cut = table._replace(data=table.data[inside], indices=table.indices[inside], indptr=ends)
    last = int(cut.indices.max(initial=-1))
    return parsed._replace(table=cut, max_index=last, n_beyond=int((~inside).sum()))


def _parse(piece: WholeLines, rules: LibsvmRules, dtype: str) -> tuple[LibsvmSpace, LibsvmCounts]:
    values = count_byte(piece.bytes, COLON)
    index_dtype = np.int32 if rules.width <= _INT32_COLUMNS else np.int64
    space = LibsvmSpace(
        np.empty(values, dtype),
        np.empty(values, index_dtype),
        np.empty(piece.lines + 1, np.int64),
        np.empty(piece.lines + 1),
        np.empty((LISTED, 3), np.int64),
    )
    parse = exactly(parse_rows, piece.bytes.size)
    return space, parse(piece.bytes, rules, space)


def _table(space: LibsvmSpace, counts: LibsvmCounts) -> SparseTable:
    nnz = int(space.indptr[counts.rows])
    data, indices = space.data[:nnz], space.indices[:nnz]
    if nnz < (1 - _SLACK) * space.data.size:
        data, indices = data.copy(), indices.copy()
    indptr, target = space.indptr[: counts.rows + 1], space.target[: counts.rows]
    return SparseTable(data, indices, indptr, target, None)
