"""Rows of delimited text (CSV) as text cells in blocks, by Arrow."""

from __future__ import annotations

import atexit
import codecs
import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, BinaryIO, NamedTuple
from weakref import ref

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import release_freed_memory
from fewpass.pipeline.tables.encoding.cells import without
from fewpass.pipeline.tables.readers.blanks import by_tabs
from fewpass.pipeline.tables.readers.csv_head import WIDE, CsvLayout, RowTooLong
from fewpass.pipeline.tables.readers.lines import LineTooLong
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.pipeline.tables.readers.source import Piece

_MOST_CELLS = 1 << 19  # of a piece


class CsvBatch(NamedTuple):
    """Rows that follow each other."""

    cells: Any  # (n,) record batch of the columns `c0`, `c1`, ...
    rows: NDArray[np.int64]  # (n,) number of each
    bad: tuple[tuple[int, int, str], ...]  # number, cells and text of rows of another width

    def since(self, row: int) -> CsvBatch:
        """Return the rows from a number on."""
        first = int(np.searchsorted(self.rows, row))
        bad = tuple(one for one in self.bad if one[0] >= row)
        return CsvBatch(self.cells.slice(first), self.rows[first:], bad)


class CsvText:
    """Text as Arrow reads it: checked to be UTF-8, with a last row that tells whether it ended.

    Parameters
    ----------
    stream
        The bytes behind `head`.
    head, begins
        Bytes that were read already, and where the rows begin in them.
    layout, name
        How rows fall into cells, and what messages call the text.
    spaced
        Whether cells stand between runs of blanks, of which each becomes a tab.
    """

    def __init__(
        self, stream: BinaryIO, head: bytes, begins: int, layout: CsvLayout, name: str,
        *, spaced: bool = False,
    ) -> None:  # fmt: skip
        self._stream, self._name, self._layout, self._spaced = stream, name, layout, spaced
        self._end = f"\n{layout.end}\n".encode()
        self._left, self.n_read, self._lines = head[begins:], len(head), 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._check(head)
        self._is_stopped = False

    def stop(self) -> None:
        """End the text here."""
        self._is_stopped = True

    def read(self, n: int) -> bytes:
        """Return the next bytes, `n` at most."""
        if self._is_stopped:
            return b""
        if not self._left:
            self._left = self._more(n)
        end = n - (self._left[n - 1 : n + 1] == b"\r\n")  # of these Arrow may lose the second
        text, self._left = self._left[:end], self._left[end:]
        return text

    def _more(self, n: int) -> bytes:
        text = self._stream.read(n)
        if text.endswith(b"\r"):
            text += self._stream.read(1)
        if self._spaced and text:
            rest = self._stream.readline(n)
            if len(rest) == n and not rest.endswith(b"\n"):
                raise LineTooLong(n)
            lines = np.frombuffer(text + rest, np.uint8)
            text = by_tabs(lines, self._layout.quotes).tobytes()
        self._check(text)
        self.n_read += len(text)
        if not text:
            text, self._end = self._end, b""
        return text

    def _check(self, text: bytes) -> None:
        try:
            self._decoder.decode(text, final=not text)
        except UnicodeDecodeError as error:
            line = self._lines + error.object.count(b"\n", 0, error.start) + 1
            bad = shown(error.object[error.start : error.start + 8])
            raise BadInput(
                f"{self._name}, line {line}: the bytes {bad} are no UTF-8. Say what the text is "
                "written in (`charset`)."
            ) from error
        self._lines += text.count(b"\n")


def batches(
    text: CsvText, layout: CsvLayout, block: int, first: int, name: str
) -> Iterator[CsvBatch]:
    """Read rows in blocks of `block` bytes; the first one has the number `first`.

    Raises
    ------
    BadInput
        When a quoted cell does not end.
    RowTooLong
    """
    row, bad = first, deque[tuple[int, int, str]]()

    def skip(one: Any) -> None:
        bad.append((first - 1 + one.number, one.actual_columns, one.text))

    try:
        for cells in _read_ahead(text, layout, block, skip):
            batch = _numbered(cells, row, bad)
            row += batch.rows.size + len(batch.bad)
            yield batch
    except pa.ArrowInvalid as error:
        if "straddling" in str(error):
            raise RowTooLong(row) from error
        raise BadInput(
            f"{name}, from row {row} on: the text cannot be read ({str(error)[:200]}). Check the "
            "file and its delimiter (`delimiter`)."
        ) from error
    if not bad or bad[-1][2] != layout.end:
        raise BadInput(
            f"{name}, row {bad[-1][0] if bad else row - 1}: a quoted cell does not end within the "
            "file. Close it, double the quotes inside cells, or say `quote=none` if quotes are "
            "part of the text."
        )
    bad.pop()
    if bad:
        yield CsvBatch(no_cells(layout), np.zeros(0, np.int64), tuple(bad))


class _ArrowFile:
    """What Arrow's threads call, `read` for bytes and `skip` for a row of another width.

    No frame of an exception may hold it, so that it goes when the last thread is done.
    """

    closed = False

    def __init__(self, read: Callable[[int], Any], skip: Callable[[Any], None]) -> None:
        self.read, self._skip = read, skip

    def skip(self, row: Any) -> str:
        self._skip(row)
        return "skip"


class _Lent:
    """Python's objects that Arrow's threads have, and give back when they are done.

    A reference to an object that is gone comes by a queue, of which `put` and `get` are C: the
    thread that gives the object back runs no Python after.
    """

    def __init__(self) -> None:
        self._refs, self._gone = dict[int, Any](), SimpleQueue[Any]()

    def add(self, one: Any) -> None:
        """Count an object, in any thread, until it is gone."""
        reference = ref(one, self._gone.put)
        self._refs[id(reference)] = reference

    def settle(self, *, all_of_them: bool = False) -> None:
        """Forget the objects that are gone; wait for all of them. For one thread alone."""
        while self._refs if all_of_them else not self._gone.empty():
            del self._refs[id(self._gone.get())]


def _read_ahead(
    text: CsvText, layout: CsvLayout, block: int, skip: Callable[[Any], None]
) -> Iterator[Any]:
    """Yield record batches. Arrow's threads read the text ahead: they have ended when this has.

    One that still read would use a stream that is closed meanwhile, or end the process with an
    abort when it asks an interpreter that is about to exit for its lock, be it to free a block.
    """
    lent, readers = _Lent(), list[Any]()

    def read(n: int) -> Any:
        bytes_read = np.frombuffer(text.read(n), np.uint8)  # bytes have no weak references
        lent.add(bytes_read)
        return bytes_read

    def end() -> None:
        text.stop()
        readers.clear()
        lent.settle(all_of_them=True)

    atexit.register(end)  # where nobody closes this generator
    try:
        readers.append(_reader(read, skip, lent, layout, block))
        while (cells := next(readers[0], None)) is not None:  # no frame of a loop holds the reader
            lent.settle()
            yield cells
    finally:
        atexit.unregister(end)
        end()


def _reader(
    read: Callable[[int], Any], skip: Callable[[Any], None], lent: _Lent, layout: CsvLayout,
    block: int,
) -> Any:  # fmt: skip
    file = _ArrowFile(read, skip)
    lent.add(file)
    wanted = [f"c{k}" for k in layout.columns]
    try:
        return pa.csv.open_csv(
            pa.PythonFile(file, "r"),
            pa.csv.ReadOptions(
                use_threads=False, block_size=block,
                column_names=[f"c{k}" for k in range(layout.n_cells)],
            ),
            pa.csv.ParseOptions(
                delimiter=layout.delimiter, quote_char='"' if layout.quotes else False,
                newlines_in_values=layout.quotes, invalid_row_handler=file.skip,
            ),
            pa.csv.ConvertOptions(
                check_utf8=False, column_types=dict.fromkeys(wanted, pa.large_string()),
                include_columns=wanted, null_values=layout.nulls, strings_can_be_null=True,
                true_values=[], false_values=[],  # 2 kB a column, of text, too
            ),
        )  # fmt: skip
    finally:
        del file  # or the frame of an error has it


def _numbered(cells: Any, row: int, bad: deque[tuple[int, int, str]]) -> CsvBatch:
    """Return a batch whose first row has that number, with the bad rows before its last one."""
    before: list[tuple[int, int, str]] = []
    while bad and bad[0][0] < row + cells.num_rows + len(before):
        before.append(bad.popleft())
    rows = np.arange(row, row + cells.num_rows + len(before))
    return CsvBatch(cells, np.delete(rows, [one[0] - row for one in before]), tuple(before))


def joined(parts: Iterable[CsvBatch], most: int) -> Iterator[tuple[CsvBatch, int]]:
    """Yield batches as one, and how many they were: `most` of them, fewer of many cells.

    A batch has some 2 kB for each of its columns, and an encoder calls functions for each: both are
    shared by more rows.
    """
    some: list[CsvBatch] = []
    try:
        for part in parts:
            some.append(part)
            cells = sum(one.cells.num_rows for one in some) * part.cells.num_columns
            if len(some) == most or cells >= _MOST_CELLS:
                yield _as_one(some), len(some)
                some = []
                if part.cells.num_columns > WIDE:
                    release_freed_memory()
    except (BadInput, RowTooLong):  # rows before it may have faults of their own
        if some:
            yield _as_one(some), len(some)
        raise
    if some:
        yield _as_one(some), len(some)


def _as_one(parts: list[CsvBatch]) -> CsvBatch:
    return CsvBatch(
        pa.concat_batches([part.cells for part in parts]),
        np.concatenate([part.rows for part in parts]),
        tuple(one for part in parts for one in part.bad),
    )


def no_cells(layout: CsvLayout) -> Any:
    """Return a batch without rows."""
    names = [f"c{k}" for k in layout.columns]
    return pa.record_batch([pa.array([], pa.large_string()) for _ in names], names)


# -- cells ---------------------------------------------------------------------------------------


def batch_of(piece: Piece, layout: CsvLayout) -> CsvBatch:
    """Return whole lines as rows of their own.

    Raises
    ------
    BadInput
        When a quoted cell goes on behind its line.
    """
    raw = piece.content.bytes.tobytes()
    text = CsvText(io.BytesIO(), raw, 0, layout, piece.file)
    none = CsvBatch(no_cells(layout), np.zeros(0, np.int64), ())
    parts = batches(text, layout, len(raw) + 16, piece.first_line, piece.file)
    batch = _as_one([none, *parts])
    long = [row for row, _, text in batch.bad if "\n" in text]
    for cells in batch.cells.columns:
        long += batch.rows[np.asarray(_n_lines(cells)) > 0].tolist()
    if long:
        raise BadInput(
            f"{piece.file}, row {min(long)}: a quoted cell does not end on its line, as those of "
            "plain numbers do. Say `quote=none` if quotes are part of the text, or "
            "`encode=always`, which reads cells of several lines."
        )
    return batch


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


def refuse_swallowed(name: str, batch: CsvBatch, delimiter: str, n_cells: int) -> None:
    """Refuse cells that hold rows of their own: a quote that is part of the text began them.

    Raises
    ------
    BadInput
        When most cells and bad rows of several lines have as many delimiters as rows would.
    """
    lines = [(row, text.count("\n"), text.count(delimiter)) for row, _, text in batch.bad]
    long_cells = [(row, (n + 1) * (n_cells - 1) == k) for row, n, k in lines if n]
    for cells in filter(_may_be_long, batch.cells.columns):
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
