"""Rows that a database selects: what its readers share."""

# ruff: noqa: S608 - the query is the user's, who may run it anyway

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, ClassVar, TypeVar

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.plain_types import plain_schema
from fewpass.pipeline.tables.readers.arrow_batches import cut, validated
from fewpass.pipeline.tables.readers.arrow_rows import CELL_BYTES, TypedRows
from fewpass.pipeline.tables.readers.dense_rows import refuse_text_settings
from fewpass.pipeline.tables.readers.finding import Address, place_of
from fewpass.pipeline.tables.readers.seen_files import SeenFiles
from fewpass.pipeline.tables.readers.source import Expected, Piece, SourceFile
from fewpass.pipeline.tables.readers.table_files import only_table

#: The name of a table, as SQL has it.
TABLE_NAME = re.compile(r'(?:\w+|"[^"]+")(?:\.(?:\w+|"[^"]+"))*')
_SELECT = re.compile(r"\s*(?:--[^\n]*\n\s*)*\(*\s*(?:select|with|values|table)\b", re.IGNORECASE)
_ORDER = re.compile(r"\border\s+by\b", re.IGNORECASE)
_ASKED_AGAIN_S = 0.1  # to cancel what had not begun the first time
Answer = TypeVar("Answer")


def quoted_name(name: str) -> str:
    """Return the name of a column or a table as SQL has it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def as_select(query: str, where: str) -> str:
    """Return a SELECT of the rows that a setting `query` names; BadInput where it is none."""
    text = query.strip().rstrip(";").rstrip()
    if TABLE_NAME.fullmatch(text):
        return f"SELECT * FROM {text}"
    if not _SELECT.match(text):
        raise BadInput(
            f"{where}: `query` is neither the name of a table nor a SELECT. Write for example "
            "'SELECT * FROM visits ORDER BY id'."
        )
    return text


def cancellable(ask: Callable[[], Answer], cancel: Callable[[], object] | None = None) -> Answer:
    """Ask a database in a thread, as Python handles no signal while its own waits for C code.

    A signal that ends the wait cancels the question. One that cannot be cancelled is left alone.
    """
    answer: Future[Answer] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(error)

    Thread(target=work, name="fewpass-query", daemon=True).start()
    try:
        return answer.result()
    except BaseException:
        if cancel is None:
            answer.add_done_callback(_close)
        while cancel and wait([answer], _ASKED_AGAIN_S).not_done:
            cancel()
        raise


def _close(answer: Future[Any]) -> None:
    """Close what comes when nobody waits for it any more, such as a connection."""
    if answer.exception() is None and hasattr(answer.result(), "close"):
        answer.result().close()


def added_up(terms: Sequence[str]) -> str:
    """Return the sum of terms in SQL, as deep as their number's logarithm: depth is limited."""
    if len(terms) < 2:
        return terms[0] if terms else "0"
    half = len(terms) // 2
    return f"({added_up(terms[:half])} + {added_up(terms[half:])})"


class QueriedRows(TypedRows):
    """Rows of a query; see `TableRows` for the methods.

    A reader says what columns there are, and yields their rows as Arrow's record batches.
    """

    dialect: ClassVar[str]  # what the database is called

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, self.dialect)
        self._address = only_table(addresses)
        self._most = self._address.budget.longest_row
        dropped = (name for name, kind in options.column.items() if kind == "drop")
        self._dropped: set[str | int] = {*options.drop, *dropped}
        self._read_anyway = expected.read_anyway
        self.name = self._address.name
        self.version = self.state()
        self._select = as_select(options.query or self.only_name(), self.name)
        self.schema = self.described()
        super().__init__([self._address], [plain_schema(self.schema)], options, expected)
        expected.budget.require_columns(len(self.schema), self.name, "encoded")
        place = f"{place_of(self._address)} {self._select}"
        self.files = (SourceFile(self.name, self._address.size, self.version, place=place),)
        if expected.seen is not None:
            self.require_new(expected.seen)
        self.notes = self._notes()

    @property
    def is_ordered(self) -> bool:
        """Whether the query says in which order rows come."""
        return bool(_ORDER.search(self._select))

    def _notes(self) -> tuple[str, ...]:
        """Return what somebody should know of the rows of another reading."""
        raise NotImplementedError

    def require_new(self, seen: SeenFiles) -> None:
        """Raise NothingNew where the rows were taken, BadInput where nothing says which are new."""
        raise NotImplementedError

    def only_name(self) -> str:
        """Return the table to read where no query is given; BadInput where that is open."""
        raise BadInput(
            f"{self.name} is a database. Say which of its rows: the name of a table, or a SELECT "
            "(`query`)."
        )

    def described(self) -> Any:
        """Return the Arrow schema of the query's rows; BadInput where it cannot be run."""
        raise NotImplementedError

    def read_among(self, names: Sequence[str]) -> list[str]:
        """Return the columns whose cells are read, by their names or positions."""
        n, read = len(names), []
        for k, name in enumerate(names):
            own = {name, k, k - n}
            if own & self._read_anyway or not own & self._dropped:
                read.append(name)
        return read

    def state(self) -> str:
        """Return what changes with the rows."""
        raise NotImplementedError

    def selected(self, names: Sequence[str], n_bytes: int) -> Iterator[Any]:
        """Yield batches of some columns, of about `n_bytes` each."""
        raise NotImplementedError

    def expands_to(self) -> float:
        """Estimate the bytes of all rows."""
        raise NotImplementedError

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        """Pieces of rows, in the order of the query."""
        rows, row = max(1, piece_bytes // (CELL_BYTES * max(1, len(used)))), 1
        names = list(dict.fromkeys(self.names[k] for k in used)) or [self.names[0]]
        batches = validated(self.selected(names, piece_bytes), self.name)
        for part in cut(batches, rows, piece_bytes, self.name, self._address.budget):
            yield Piece(self.name, row, part, part.nbytes)
            row += part.num_rows
