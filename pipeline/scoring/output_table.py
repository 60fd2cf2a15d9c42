"""Tables that predictions are put into: what all of them have, whatever keeps them.

Predictions wait in a scratch file until all of them are there.  Then one transaction puts them into
the table, so nobody waits while rows are scored, and a process that is killed leaves no row.  Every
row says which model it is of, and which source: the same prediction again replaces its rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, ClassVar, NamedTuple

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.scoring.prediction_files import ParquetPredictions, PredictionFile
from fewpass.storage.redaction import shown_address

#: Columns behind those of the predictions: the model's version, the file or the address that a row
#: is of, and what changes with that file's content (of databases and data sets nothing).
ORIGIN = ("model", "source", "source_version")
#: Rows that are put into a table at a time.
BATCH_ROWS = 1 << 15
_SOURCES_AT_ONCE = 500  # in one condition


class Origin(NamedTuple):
    """Values of all rows of one source in the columns of `ORIGIN`."""

    model: str
    source: str
    source_version: str | None

    def columns(self, n: int) -> dict[str, Any]:
        """Return the columns of n rows."""
        return {
            name: pa.repeat(pa.scalar(value, pa.string()), n)
            for name, value in self._asdict().items()
        }


def source_version(size: int | None, version: Any) -> str | None:
    """Return what changes with a file: of its size, and of its time or what its store says."""
    if version is None or callable(version):  # of databases a reading of all rows would tell
        return None
    said = json.dumps([size, version])
    return hashlib.sha256(said.encode()).hexdigest()[:12]


class Replaced(NamedTuple):
    """Rows of a table that give way to those that are put there."""

    sources: tuple[str, ...]
    model: str | None = None  # None: of any model

    def conditions(self) -> Iterator[str]:
        """Yield conditions in SQL, each on some of the sources."""
        of_model = f"model = {literal(self.model)} AND " if self.model else ""
        for first in range(0, len(self.sources), _SOURCES_AT_ONCE):
            some = map(literal, self.sources[first : first + _SOURCES_AT_ONCE])
            yield f"{of_model}source IN ({', '.join(some)})"


def literal(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


class WaitingRows(NamedTuple):
    """Predictions in a scratch file, to be put into a table."""

    file: IO[bytes]

    @property
    def path(self) -> str:
        """A path of the file, which has no name."""
        return f"/proc/self/fd/{self.file.fileno()}"

    def reader(self) -> Any:
        """Return an Arrow reader of all rows, in batches."""
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - where rows wait for a table

        parquet = ParquetFile(self.file)
        batches = parquet.iter_batches(BATCH_ROWS)
        return pa.RecordBatchReader.from_batches(parquet.schema_arrow, batches)


class OutputTable:
    """A table that predictions are put into; subclasses say where it is kept.

    Parameters
    ----------
    url
        The address of the database, or of the table itself.
    name
        Of the table in the database; None where the address is the table's.
    """

    kind: ClassVar[str]

    def __init__(self, url: str, name: str | None) -> None:
        self.url, self.name = url, name
        self.shown = shown_address(url)
        self.called = f"{self.shown}, table {name}" if name else self.shown

    def columns(self) -> Sequence[str] | None:
        """Return the columns that the table has; None where there is none yet."""
        raise NotImplementedError

    def scored(self) -> set[tuple[str, str | None]]:
        """Return source and version of all rows that are there."""
        raise NotImplementedError

    def put(self, rows: WaitingRows, replaced: Replaced | None) -> None:
        """Put rows there in one transaction, in place of others (None: of all)."""
        raise NotImplementedError

    def require_columns(self, stored: Sequence[str], wanted: Sequence[str]) -> None:
        """Refuse a table of other columns, in whatever order; BadInput with both lists."""
        if sorted(stored) != sorted(wanted):
            listed, ours = (", ".join(map(shown_name, names)) for names in (stored, wanted))
            raise BadInput(
                f"{self.called} has the columns {listed}; these predictions have {ours}. "
                "Name another table, or ask for the columns that it has (`keep`, `probability`)."
            )

    def require_fit(self, columns: Sequence[str]) -> None:
        """Refuse a table of other columns, or one that cannot be reached; BadInput, OSError."""
        if (stored := self.columns()) is not None:
            self.require_columns(stored, columns)

    @contextlib.contextmanager
    def opened(self, columns: Sequence[str], replaced: Replaced | None) -> Iterator[PredictionFile]:
        """Yield what takes batches, which are put there if the block ends without an error."""
        with tempfile.TemporaryFile() as scratch:
            with contextlib.closing(ParquetPredictions(scratch, columns, scratch)) as writer:
                yield writer
            if scratch.seek(0, 2):
                self.put(WaitingRows(scratch), replaced)


def conditions_of(replaced: Replaced | None) -> Iterator[str]:
    """Yield conditions in SQL of the rows that give way."""
    if replaced is None:
        yield "true"
    else:
        yield from replaced.conditions()
