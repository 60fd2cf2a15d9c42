"""Whether delimited text (CSV) is nothing but usual numbers, which the fast reader takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.outliers import has_outliers
from fewpass.pipeline.tables.readers import delimited_kernel as grammar
from fewpass.pipeline.tables.readers.column_roles import (
    LOOK_BYTES,
    SAMPLE_BYTES,
    chosen_columns,
)
from fewpass.pipeline.tables.readers.delimited import DelimitedRows
from fewpass.pipeline.tables.readers.delimited_kernel import CellRules
from fewpass.pipeline.tables.readers.delimited_numbers import (
    DelimitedNumbers,
    Layout,
    parsed_into_space,
    table_of,
)
from fewpass.pipeline.tables.readers.lines import WholeLines
from fewpass.pipeline.tables.readers.source import LISTED, Expected, NumberRows
from fewpass.solvers.bad_input import MOST_WHOLE

#: Faults of cells that are no usual numbers.
_NO_NUMBERS = {
    grammar.MISSING, grammar.NOT_A_NUMBER, grammar.NOT_FINITE, grammar.OPEN_QUOTE,
    grammar.BEHIND_QUOTE,
}  # fmt: skip

_LARGEST = float(np.finfo(np.float64).max)
_QUOTED = (grammar.OPEN_QUOTE, grammar.BEHIND_QUOTE)

Look = Literal["numbers", "more", "codes, maybe"]


def first_look(
    as_numbers: Callable[[], NumberRows], options: SourceOptions, expected: Expected
) -> Look:
    """Say whether the first rows are nothing but usual numbers, and then for long none is missing.

    Usual: no words in place of them, no quotes that go on, none far from all others.  Whole
    numbers with zeros in front, or longer than doubles are exact, may be names.  `as_numbers` opens
    the table.
    """
    try:
        rows = cast("DelimitedRows", as_numbers())
        columns = chosen_columns(rows, options, expected)
        return _look(rows, rows.numbers(columns, options), options)
    except BadInput:  # what reads all kinds of cells knows more headers, and says it otherwise
        return "more"


def _look(rows: DelimitedRows, numbers: DelimitedNumbers, options: SourceOptions) -> Look:
    answer: Look = "numbers"
    read = 0
    for piece in rows.pieces(LOOK_BYTES, ()):
        if not read and not piece.content.lines:  # the names of many columns, or of no rows
            continue
        layout = numbers.layout_of(piece)
        faults, X = _faults_of_features(piece.content, layout, options)
        if faults & (_NO_NUMBERS if read == 0 else {grammar.MISSING}):
            return "more"
        if read == 0:
            if not _are_usual(piece.content, layout, options, X):
                return "more"
            answer = "codes, maybe" if _may_be_codes(piece.content, layout, X) else answer
        read += piece.n_bytes
        if read >= SAMPLE_BYTES:
            break
    return answer if read else "more"


def _are_usual(
    text: WholeLines, layout: Layout, options: SourceOptions, X: NDArray[np.floating]
) -> bool:
    """Say whether the numbers (n, d) of some text, and its targets, need no other reader.

    Where no row is left, that one can tell why.
    """
    if not len(X) or any(has_outliers(column.astype(np.float64)) for column in X.T):
        return False
    return not _has_other_numbers(text, layout, options)


def _may_be_codes(text: WholeLines, layout: Layout, X: NDArray[np.floating]) -> bool:
    """Say whether a cell begins with a zero before a digit, or is a very large number."""
    before, zero, behind = text.bytes[:-2], text.bytes[1:-1], text.bytes[2:]
    begins = np.isin(before, np.frombuffer(f'{layout.dialect.delimiter}\n" '.encode(), np.uint8))
    padded = (zero == ord("0")) & begins & (behind >= ord("0")) & (behind <= ord("9"))
    return bool(padded.any() or np.abs(X).max() >= MOST_WHOLE)


def _faults_of_features(
    text: WholeLines, layout: Layout, options: SourceOptions
) -> tuple[set[int], NDArray[np.floating]]:
    """Return what is wrong with cells of features in the first bad rows, and the good rows."""
    rules = CellRules(*layout.dialect.marks, False, not options.label_required, False, _LARGEST)
    space, counts = parsed_into_space(text, layout, rules, options.dtype)
    bad = space.bad[: min(counts.bad, LISTED)]
    of_features = layout.roles[bad[:, 3]] == grammar.FEATURE
    of_features |= np.isin(bad[:, 0], _QUOTED)  # what goes on behind a quote is more than a cell
    return set(bad[of_features, 0].tolist()), space.X[: counts.rows]


def _has_other_numbers(text: WholeLines, layout: Layout, options: SourceOptions) -> bool:
    """Say whether targets that are no usual numbers are numbers after all, such as 1,5."""
    if grammar.TEXT_TARGET not in layout.roles:
        return False
    rules = CellRules(*layout.dialect.marks, False, True, False, _LARGEST)
    _, labels = table_of(*parsed_into_space(text, layout, rules, options.dtype), layout)
    if not labels:
        return False
    from fewpass.pipeline.tables.encoding.inference import is_number_in_words  # noqa: PLC0415 - Arrow

    return is_number_in_words(labels)
