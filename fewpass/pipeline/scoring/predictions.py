"""Files of predictions: Parquet, CSV or NPY, written batch by batch, there whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.storage.addresses import local_path, open_store, require_no_secrets
from fewpass.storage.folder import described
from fewpass.storage.local_files import beside

Batch = Mapping[str, NDArray[Any]]
COPY_BYTES = 1 << 20
STANDARD_OUTPUT = "-"


#: What a spreadsheet takes for the beginning of a formula, also as wide characters.
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def defused(text: str) -> str:
    """Put a ' before text that a spreadsheet would run as a formula; numbers stay numbers."""
    bare = text.strip()
    return f"'{text}" if bare.startswith(_FORMULA) and not _NUMBER.fullmatch(bare) else text


class PredictionFile(Protocol):
    """Takes batches of equally long columns."""

    def write(self, batch: Batch) -> None:
        """Append a batch."""

    def close(self) -> None:
        """Finish the file's own format."""


@contextlib.contextmanager
def open_predictions(
    url: str, columns: Sequence[str], storage_options: dict[str, Any] | None = None
) -> Iterator[PredictionFile]:
    """Open a file of predictions by its ending; on any error nothing is left at `url`.

    NPY holds one number a row: the last column.  "-" is standard output, as CSV.
    """
    if url == STANDARD_OUTPUT:
        if sys.stdout is None:
            raise BadInput("Standard output is closed. Name a file for the predictions.")
        yield _Csv(sys.stdout.buffer, columns, io.BytesIO())
        sys.stdout.flush()
        return
    kind = PurePosixPath(url).suffix
    if kind not in WRITERS:
        raise BadInput(
            f'Predictions cannot be written to "{url}". End it in .parquet, .csv or .npy.'
        )
    here = local_path(url)
    opened = _stored(url, storage_options) if here is None else _beside(here)
    with opened as target, tempfile.TemporaryFile() as scratch:
        writer = WRITERS[kind](target, columns, scratch)
        yield writer
        writer.close()


@contextlib.contextmanager
def _described(path: Path) -> Iterator[None]:
    """Say of errors which file they are about, and what to do."""
    try:
        yield
    except OSError as error:
        raise described(error, str(path)) from error


class _Partial(io.FileIO):
    """A new file, whose errors are told of the one whose place it is to take."""

    def __init__(self, partial: Path, path: Path) -> None:
        super().__init__(partial, "xb")
        self._path = path

    def write(self, content: Any, /) -> int:
        with _described(self._path):
            return super().write(content)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[IO[bytes]]:
    """Write beside a file of this machine, and then in its place: on its disk, and no other."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(path.parent))
    partial = beside(path)
    try:
        with _described(path):
            raw = _Partial(partial, path)
        with io.BufferedWriter(raw) as target:
            yield target
        with _described(path):
            partial.replace(path)
    finally:
        with contextlib.suppress(OSError):  # gone, or a disk that nothing is removed from
            partial.unlink()


@contextlib.contextmanager
def _stored(url: str, storage_options: dict[str, Any] | None) -> Iterator[IO[bytes]]:
    system, path = open_store(url, storage_options, writing=True)
    require_no_secrets(url)
    target = system.open(path, "wb", autocommit=False)
    try:
        yield target
        target.close()
    except BaseException:
        with contextlib.suppress(ValueError):  # closed by a writer that failed while closing
            target.close()
        target.discard()
        raise
    target.commit()


class _Parquet:
    def __init__(self, target: IO[bytes], _columns: Sequence[str], _scratch: IO[bytes]) -> None:
        self._target = target
        self._writer: Any = None

    def write(self, batch: Batch) -> None:
        table = pa.table({name: pa.array(column) for name, column in batch.items()})
        if self._writer is None:
            self._writer = pa.parquet.ParquetWriter(self._target, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _Csv:
    def __init__(self, target: IO[bytes], columns: Sequence[str], _scratch: IO[bytes]) -> None:
        self._target = target
        head = io.StringIO()
        csv.writer(head, lineterminator="\n").writerow(columns)
        target.write(head.getvalue().encode())

    def write(self, batch: Batch) -> None:
        table = pa.table({name: pa.array(column) for name, column in batch.items()})
        text = io.BytesIO()
        pa.csv.write_csv(table, text, pa.csv.WriteOptions(include_header=False))
        self._target.write(text.getbuffer())

    def close(self) -> None:
        pass


class _Npy:
    """The header tells the number of rows, so the numbers wait in a scratch file for it."""

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


#: What writes a file of predictions, by its ending.
WRITERS: dict[str, Callable[[IO[bytes], Sequence[str], IO[bytes]], PredictionFile]] = {
    ".parquet": _Parquet,
    ".csv": _Csv,
    ".npy": _Npy,
}
