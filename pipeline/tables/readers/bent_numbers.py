"""Whether plain numbers, which need no encoding, may be encoded for the sake of curves."""

from __future__ import annotations

from collections.abc import Sequence

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.encoding import ADDITIVE
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.additive.rules import LEAST_UNASKED, MANY_COLUMNS, MOST_UNASKED
from fewpass.pipeline.tables.readers.column_roles import SAMPLE_BYTES, chosen_columns
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.lines import sample
from fewpass.pipeline.tables.readers.source import Expected, NumberRows
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT


def may_bend(
    rows: NumberRows, addresses: Sequence[Address], options: SourceOptions, expected: Expected
) -> bool:
    """Say whether curves are tried on a table of plain numbers: asked for, or as `auto` means it.

    Unasked they are where columns have names, as those of tables do and those of matrices do not,
    and where columns and rows are neither few nor many (additive/rules.py).
    """
    if options.encode in ADDITIVE:
        return True
    unasked = options.encode == "auto" and expected.may_curve and expected.schema is None
    if not unasked or rows.names is None or addresses[0].name == STANDARD_INPUT:
        return False
    try:
        columns = chosen_columns(rows, options, expected)
    except BadInput:  # which is said where they are read
        return False
    if columns.label is None or not 0 < len(columns.features) <= MANY_COLUMNS:
        return False
    return LEAST_UNASKED <= _rows_about(rows, addresses, expected) <= MOST_UNASKED


def _rows_about(rows: NumberRows, addresses: Sequence[Address], expected: Expected) -> float:
    """Return the rows of files; of text about how many by the first lines of the first file."""
    if rows.n_rows is not None:
        return rows.n_rows
    first, whole = sample(addresses[0], expected.longest_line)
    n_bytes = whole + sum(address.size or 0 for address in addresses[1:])
    if n_bytes > SAMPLE_BYTES:
        return float("inf")
    return n_bytes / max(1, first.bytes.size) * first.lines
