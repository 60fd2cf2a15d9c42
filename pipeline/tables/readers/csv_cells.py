"""Rows of delimited text (CSV) as columns of text cells, by Arrow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.cells import without
from fewpass.pipeline.tables.readers.charsets import is_utf8
from fewpass.pipeline.tables.readers.csv_head import CsvLayout
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.solvers.kernels.shapes import Bytes


class CsvCells(NamedTuple):
    """Rows that follow each other."""

    columns: Any  # (n,) record batch of the columns `c0`, `c1`, ...
    rows: NDArray[np.int64]  # (n,) number of each
    bad: tuple[tuple[int, int, str], ...]  # number, cells and text of rows of another width


def cells_of(text: Bytes, layout: CsvLayout, first: int, name: str) -> CsvCells:
    """Read whole rows, of which the first one has the number `first`.

    Raises
    ------
    BadInput
        For text that is no UTF-8.
    """
    _require_utf8(text, first, name)
    # In memory of Arrow's own: its threads, which read ahead, free nothing of Python's.
    own = pa.allocate_buffer(text.size)
    np.frombuffer(own, np.uint8)[:] = text
    bad: list[tuple[int, int, str]] = []

    def skip(row: Any) -> str:
        bad.append((first - 1 + row.number, row.actual_columns, row.text))
        return "skip"

    wanted = [f"c{k}" for k in layout.columns]
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(own),
            pa.csv.ReadOptions(
                use_threads=False, block_size=text.size + 1,
                column_names=[f"c{k}" for k in range(layout.n_cells)],
            ),
            pa.csv.ParseOptions(
                delimiter=layout.delimiter, quote_char='"' if layout.quotes else False,
                newlines_in_values=layout.quotes, invalid_row_handler=skip,
            ),
            pa.csv.ConvertOptions(
                check_utf8=False, column_types=dict.fromkeys(wanted, pa.large_string()),
                include_columns=wanted, null_values=layout.nulls, strings_can_be_null=True,
                true_values=[], false_values=[],  # 2 kB a column, of text, too
            ),
        )  # fmt: skip
    except pa.ArrowInvalid as error:
        raise BadInput(
            f"{name}, from row {first} on: the text cannot be read ({str(error)[:200]}). Check the "
            "file and its delimiter (`delimiter`)."
        ) from error
    rows = np.arange(first, first + table.num_rows + len(bad))
    batch = next(iter(table.combine_chunks().to_batches()), None) or _no_rows(wanted)
    return CsvCells(batch, np.delete(rows, [one[0] - first for one in bad]), tuple(bad))


def _no_rows(names: list[str]) -> Any:
    return pa.record_batch([pa.array([], pa.large_string()) for _ in names], names)


def _require_utf8(text: Bytes, first: int, name: str) -> None:
    if is_utf8(text):
        return
    try:
        text.tobytes().decode()
    except UnicodeDecodeError as error:
        line = first + error.object.count(b"\n", 0, error.start)
        bad = shown(error.object[error.start : error.start + 8])
        raise BadInput(
            f"{name}, line {line}: the bytes {bad} are no UTF-8. Say what the text is written in "
            "(`charset`)."
        ) from error


def trimmed(cells: Any, nulls: tuple[str, ...]) -> Any:
    """Return cells without the blanks around them; what is a null then is one."""
    return without(pc.utf8_trim_whitespace(cells), nulls)


def _n_lines(cells: Any) -> Any:
    """Return how many lines end in each cell."""
    return pc.count_substring(cells, "\n").fill_null(0)


def _may_be_long(cells: Any) -> bool:
    """Say whether any text of an array holds a line end."""
    text = cells.buffers()[2]
    return text is not None and text.to_pybytes().find(b"\n") >= 0


def refuse_swallowed(name: str, batch: CsvCells, delimiter: str, n_cells: int) -> None:
    """Refuse cells that hold rows of their own: a quote that is part of the text began them.

    Raises
    ------
    BadInput
        When most cells and bad rows of several lines have as many delimiters as rows would.
    """
    lines = [(row, text.count("\n"), text.count(delimiter)) for row, _, text in batch.bad]
    long_cells = [(row, (n + 1) * (n_cells - 1) == k) for row, n, k in lines if n]
    for cells in filter(_may_be_long, batch.columns.columns):
        n = np.asarray(_n_lines(cells))
        long = np.flatnonzero(n)
        k = np.asarray(pc.count_substring(cells.take(pa.array(long)), delimiter))
        long_cells += zip(
            batch.rows[long].tolist(), (n[long] * (n_cells - 1) == k).tolist(), strict=True
        )
    stray = [row for row, is_stray in long_cells if is_stray]
    if 2 * len(stray) > len(long_cells):
        raise BadInput(
            f"{name}, row {min(stray)}: a cell begins with a quote and holds what looks like rows. "
            "Say `quote=none` if quotes are part of the text, `quote=double` if they enclose cells."
        )
