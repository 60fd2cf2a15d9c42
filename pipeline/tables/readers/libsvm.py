"""LIBSVM (svmlight) text to sparse tables."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import libsvm_kernel as grammar
from fewpass.pipeline.tables.readers.characters import COLON
from fewpass.pipeline.tables.readers.libsvm_kernel import (
    LibsvmCounts,
    LibsvmRules,
    LibsvmSpace,
    parse_rows,
)
from fewpass.pipeline.tables.readers.lines import WholeLines, count_byte, sample
from fewpass.pipeline.tables.readers.rejection import SKIP_ADVICE, refuse_or_list, shown
from fewpass.pipeline.tables.readers.source import LARGEST, LISTED, Parsed, Piece
from fewpass.pipeline.tables.readers.sparse_text import SparseText
from fewpass.solvers.kernels.dispatch import exactly
from fewpass.solvers.kernels.shapes import Bytes
from fewpass.storage.table import SparseTable, n_bytes

_INT32_COLUMNS = 2**31 - 1
#: A message shows less of an offending token.
_TOKEN_BYTES = 200
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
    grammar.LABEL_NOT_FINITE: (
        "the label is {token}, a finite number was expected",
        "Correct it,",
    ),
    grammar.BAD_INDEX: (
        "found {token}, expected index:value",
        "Check that the file is LIBSVM text and whole,",
    ),
    grammar.MISSING_COLON: (
        "found {token} without a colon, expected index:value",
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

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory, from the first file's first lines."""
        text, whole = sample(self._addresses[0], self._longest_line)
        lenient = self._options.model_copy(update={"on_bad_row": "skip"})
        piece = Piece(self.files[0].name, 1, text, text.bytes.size)
        per_byte = n_bytes(parse_text(piece, lenient).table) / text.bytes.size
        return self._bytes_of_rows(per_byte, whole)

    def parse(self, piece: Piece) -> Parsed:
        return parse_text(piece, self._options)


def parse_text(piece: Piece, options: SourceOptions) -> Parsed:
    """Rows of a piece of whole lines; see `Source.parse`."""
    cuts = options.unknown_features == "ignore"
    width = (None if cuts else options.n_features) or grammar.WIDEST
    rules = LibsvmRules(
        0 if options.zero_based else 1,
        min(width, _INT32_COLUMNS),
        not options.label_required,
        options.missing == "zero",
        options.on_bad_row == "refuse",
        LARGEST[options.dtype],
    )
    space, counts = _parse(piece.content, rules, options.dtype)
    if width > _INT32_COLUMNS and grammar.TOO_WIDE in space.bad[: counts.bad, 0]:
        space, counts = _parse(piece.content, rules._replace(width=width), options.dtype)
    faults = (_explain(piece, fault, options) for fault in space.bad[: counts.bad].tolist())
    skipped = refuse_or_list(faults, piece.file, options.on_bad_row)
    table, last = _table(space, counts), counts.max_index
    parsed = Parsed(table, None, last, skipped, counts.bad, counts.merged)
    return within(parsed, options.n_features) if cuts and options.n_features else parsed


def within(parsed: Parsed, n_features: int) -> Parsed:
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


def _token(text: Bytes, at: int) -> bytes:
    """What stands between text[at] and the next blank, comment or line end, or its beginning."""
    token = text[at : at + _TOKEN_BYTES].tobytes()
    ends = [k for k, c in enumerate(token) if c in _TOKEN_ENDS]
    return token[: ends[0]] if ends else token


def _explain(piece: Piece, fault: list[int], options: SourceOptions) -> tuple[int, str, str]:
    """Line, fact and advice for a row of `LibsvmSpace.bad`."""
    code, at, line = fault
    fact, advice = _MESSAGES[code]
    token = _token(piece.content.bytes, at)
    if any(c < 32 or c > 126 for c in token):
        advice = "This does not look like text; check `format`, or fetch the file anew,"
    width = options.n_features or "10^18"
    fact = fact.format(token=shown(token), width=width, dtype=options.dtype)
    return piece.first_line + line, fact, f"{advice} {SKIP_ADVICE}"
