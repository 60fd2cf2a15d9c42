"""Files of predictions, Parquet, CSV or NPY, written batch by batch, visible only if complete."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv

from fewpass.pipeline.decimal_text import DECIMAL
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.tables.readers.arrow_batches import sizes_of
from fewpass.storage.whole_file import whole_file

Batch = Mapping[str, Any]  # NumPy or Arrow arrays
COPY_BYTES = 1 << 20
#: Rows and bytes of a row group of Parquet; rows, and cells, of the parts that it is made of.
GROUP_ROWS, GROUP_BYTES = 1 << 17, 16 << 20
PART_ROWS, PART_CELLS = 1 << 12, 1 << 16
STANDARD_OUTPUT = "-"


#: Characters that start a formula in a spreadsheet, also as wide characters.
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
_NUMBER = re.compile(DECIMAL)


def defused(text: str) -> str:
    """Put a ' before text that a spreadsheet would run as a formula; numbers stay numbers."""
    bare = text.strip()
    return f"'{text}" if bare.startswith(_FORMULA) and not _NUMBER.fullmatch(bare) else text


class PredictionFile(Protocol):
    """A file that takes batches of equally long columns."""

    def write(self, batch: Batch) -> None:
        """Append a batch."""

    def close(self) -> None:
        """Complete the file."""


def require_ending(url: str) -> None:
    """Raise BadInput for an unknown suffix."""
    if url != STANDARD_OUTPUT and PurePosixPath(url).suffix not in WRITERS:
        raise BadInput(
            f'Predictions cannot be written to "{url}". End it in .parquet, .csv or .npy.'
        )


@contextlib.contextmanager
def open_predictions(
    url: str,
    columns: Sequence[str],
    *,
    replace: bool = True,
    before: Callable[[], None] = lambda: None,
) -> Iterator[PredictionFile]:
    """Open a file of predictions by its ending; on any error nothing appears at `url`.

    NPY holds one number a row: the last column.  "-" is standard output, as CSV.  `replace` and
    `before` as in `whole_file`.
    """
    require_ending(url)
    if url == STANDARD_OUTPUT:
        if sys.stdout is None:
            raise BadInput("Standard output is closed. Name a file for the predictions.")
        yield _Csv(sys.stdout.buffer, columns, io.BytesIO())
        sys.stdout.flush()
        return
    opened = whole_file(url, replace=replace, before=before)
    with opened as target, tempfile.TemporaryFile() as scratch:
        writer = WRITERS[PurePosixPath(url).suffix](target, columns, scratch)
        with contextlib.closing(writer):  # after an error, too: Arrow's ends into an open file only
            yield writer


class ParquetPredictions:
    """A Parquet file of predictions, the same however rows came in batches; of no batches none."""

    def __init__(self, target: IO[bytes], columns: Sequence[str], _scratch: IO[bytes]) -> None:
        self._target, self._part_rows = target, min(PART_ROWS, max(1, PART_CELLS // len(columns)))
        self._writer: Any = None
        self._group: list[Any] = []  # of the row group to be written, ...
        self._group_bytes = 0  # ... and what they take
        self._rest: list[Any] = []  # fewer rows than a part of it has
        self._n_rest = 0

    def write(self, batch: Batch) -> None:
        table = pa.table({name: _as_arrow(column) for name, column in batch.items()})
        if self._writer is None:
            from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - CSV needs none of it

            self._writer = ParquetWriter(self._target, table.schema)
        self._rest.append(_typed_as(self._writer.schema, table))
        self._n_rest += table.num_rows
        if self._n_rest >= self._part_rows:
            self._take(self._n_rest - self._n_rest % self._part_rows)

    def close(self) -> None:
        if self._writer is not None:
            self._take(self._n_rest)
            self._end_group()
            self._writer.close()

    def _take(self, n: int) -> None:
        """Put the first n rows of the rest into row groups."""
        rest = pa.concat_tables(self._rest).combine_chunks()
        for start in range(0, n, self._part_rows):
            part = rest.slice(start, min(self._part_rows, n - start))
            self._group.append(part)
            self._group_bytes += sum(int(sizes_of(batch).sum()) for batch in part.to_batches())
            rows = self._part_rows * len(self._group)
            if rows >= GROUP_ROWS or self._group_bytes >= GROUP_BYTES:
                self._end_group()
        self._rest, self._n_rest = [rest.slice(n)], self._n_rest - n

    def _end_group(self) -> None:
        if self._group:
            group = pa.concat_tables(self._group).combine_chunks()
            self._writer.write_table(group, row_group_size=GROUP_ROWS)
            self._group, self._group_bytes = [], 0


def _typed_as(schema: Any, table: Any) -> Any:
    """Return a table whose columns have the types of the rows before; BadInput where cells differ.

    Text is no number, whatever it says: 007 is an id, and 7 another.
    """
    if table.schema == schema:
        return table
    columns = [_cast(field, column) for field, column in zip(schema, table.columns, strict=True)]
    return pa.table(columns, schema=schema)


def _cast(field: Any, column: Any) -> Any:
    is_nothing = pa.types.is_null(column.type)
    try:
        if is_nothing or _is_text(column) == _is_text(field):
            return column.cast(field.type)
    except pa.ArrowException:
        pass  # the sentence below is about that, too
    raise BadInput(
        f"Column {field.name!r} holds {field.type} values in the first rows, and {column.type} "
        "values in others. Write a .csv file, or a folder (with a slash at its end) with a file "
        "for each input."
    )


def _as_arrow(column: Any) -> Any:
    """Return a column as an Arrow array; words with a code for each as words."""
    array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


class _Csv:
    def __init__(self, target: IO[bytes], columns: Sequence[str], _scratch: IO[bytes]) -> None:
        self._target = target
        head = io.StringIO()
        csv.writer(head, lineterminator="\n").writerow(columns)
        self._put(head.getvalue().encode())

    def write(self, batch: Batch) -> None:
        columns = {name: _for_text(name, _as_arrow(column)) for name, column in batch.items()}
        are_numbers = not any(map(_is_text, columns.values()))
        if "predicted" in columns:
            columns["predicted"] = _as_written(columns["predicted"], quoted=not are_numbers)
        text = io.BytesIO()
        # Text is quoted, numbers are not.
        quotes = "none" if are_numbers else "needed"
        options = pa.csv.WriteOptions(include_header=False, quoting_style=quotes)
        pa.csv.write_csv(pa.table(columns), text, options)
        self._put(text.getbuffer())

    def _put(self, content: bytes | memoryview) -> None:
        """Write all: a standard output without a buffer takes as much as it likes."""
        while content:
            content = content[self._target.write(content) :]

    def close(self) -> None:
        pass


def _is_text(column: Any) -> bool:
    types = pa.types
    return bool(types.is_string(column.type) or types.is_large_string(column.type))


def _for_text(name: str, column: Any) -> Any:
    """Return a column as CSV can hold it; BadInput for lists and the like."""
    types = pa.types
    if types.is_nested(column.type) or types.is_binary(column.type):
        raise BadInput(
            f"Column {name!r} holds {column.type} values, which CSV cannot. Write a .parquet file."
        )
    if types.is_decimal(column.type) or types.is_interval(column.type):
        return column.cast(pa.string())
    return column


def _as_written(labels: Any, *, quoted: bool) -> Any:
    """Format numeric labels in the usual notation: Arrow's 1.0000000007e+10 is 10000000007."""
    if quoted or not pa.types.is_floating(labels.type):
        return labels
    coded = labels.dictionary_encode()
    names = pa.array([label_text(label) for label in coded.dictionary.to_pylist()], pa.string())
    return names.take(coded.indices)


class _Npy:
    """Collects the numbers in a scratch file, as the header needs the number of rows."""

    def __init__(self, target: IO[bytes], columns: Sequence[str], scratch: IO[bytes]) -> None:
        self._target, self._column, self._numbers = target, columns[-1], scratch
        self._rows = 0

    def write(self, batch: Batch) -> None:
        column = np.ascontiguousarray(batch[self._column], np.float64)
        self._numbers.write(column.tobytes())
        self._rows += len(column)

    def close(self) -> None:
        head = {"descr": "<f8", "fortran_order": False, "shape": (self._rows,)}
        np.lib.format.write_array_header_1_0(self._target, head)
        self._numbers.seek(0)
        while part := self._numbers.read(COPY_BYTES):
            self._target.write(part)


#: Writers of files of predictions, by suffix.
WRITERS: dict[str, Callable[[IO[bytes], Sequence[str], IO[bytes]], PredictionFile]] = {
    ".parquet": ParquetPredictions,
    ".csv": _Csv,
    ".npy": _Npy,
}
