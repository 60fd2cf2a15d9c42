"""Text cells of delimited rows (CSV), by Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.cells import without
from fewpass.pipeline.tables.readers.charsets import is_utf8
from fewpass.pipeline.tables.readers.dialect import CellLayout
from fewpass.pipeline.tables.readers.lines import WholeLines
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.pipeline.tables.readers.source import Piece


def read(piece: Piece, layout: CellLayout, skip: Callable[[Any], str]) -> Any:
    """Return the columns of a piece as a table; None where every row was skipped or is empty.

    Parameters
    ----------
    skip
        Called with each row of another number of cells.

    Raises
    ------
    BadInput
        When lines cannot be read as text cells.
    """
    text: WholeLines = piece.content
    if not is_utf8(np.ascontiguousarray(text.bytes)):  # Arrow cannot even tell which rows
        raise _no_cells(piece, UnicodeError("it is no UTF-8"))
    names = [f"c{k}" for k in range(layout.n_cells)]
    wanted = [names[place] for place in layout.places]
    size = max(text.bytes.size + 1, 1 << 10)
    try:
        return pa.csv.read_csv(
            pa.BufferReader(pa.py_buffer(np.ascontiguousarray(text.bytes))),
            pa.csv.ReadOptions(use_threads=False, block_size=size, column_names=names),
            pa.csv.ParseOptions(
                delimiter=layout.dialect.delimiter,
                quote_char='"' if layout.dialect.quotes else False,
                newlines_in_values=layout.dialect.quotes,
                invalid_row_handler=skip,
            ),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.large_string()),
                include_columns=wanted,
                null_values=layout.nulls,
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):  # every row was skipped, or is an empty line
            return None
        raise _no_cells(piece, error) from error


def no_rows(n_columns: int) -> Any:
    """Return a table without rows."""
    none = pa.array([], pa.large_string())
    return pa.table({f"c{k}": none for k in range(n_columns)})


def trimmed(cells: Any, nulls: tuple[str, ...]) -> Any:
    """Return cells without the blanks around them; what is a null then is one."""
    return without(pc.utf8_trim_whitespace(cells), nulls)


def _no_cells(piece: Piece, error: Exception) -> BadInput:
    raw = piece.content.bytes.tobytes()
    try:
        raw.decode()
    except UnicodeDecodeError as fault:
        line = piece.first_line + raw.count(b"\n", 0, fault.start)
        return BadInput(
            f"{piece.file}, line {line}: the bytes {shown(raw[fault.start : fault.start + 8])} are "
            "no UTF-8. Say what the text is written in (`charset`)."
        )
    return BadInput(
        f"{piece.file}, from line {piece.first_line} on: some lines cannot be read as text cells "
        f"({error}). Check the file and its delimiter (`delimiter`)."
    )
