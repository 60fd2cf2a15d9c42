"""Tables and queries of databases: one reader of the record batches that their own libraries yield.

A database is opened by a file of its own (`delta`, `iceberg`, `postgresql`, `sqlite`), as columns
and parts; this is what happens to all of them.
"""

# ruff: noqa: S608 - the query is the user's, who may run it anyway

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, ClassVar, NamedTuple, TypeVar

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.arrow_rows import Part, TypedRows
from fewpass.pipeline.tables.readers.dense_rows import refuse_text_settings
from fewpass.pipeline.tables.readers.exact_numbers import refuse_rounded
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.seen_files import NothingNew
from fewpass.pipeline.tables.readers.source import Expected, Piece, SourceFile, TableCells

_EXACT = "Cast it to text in the query: SELECT CAST(id AS text) AS id."


class OpenedTable(NamedTuple):
    """A table of a database, or the rows of a query, in one state."""

    schema: Any  # Arrow's
    parts: Sequence[Part]
    version: str  # another one where rows may be others
    place: str  # by which the table or the query is recognised
    expands_to: Callable[[Sequence[Part]], float]  # estimated bytes of all rows of parts
    n_rows: int | None = None
    n_bytes: int | None = None  # as stored
    notes: tuple[str, ...] = ()
    rounded: frozenset[str] = frozenset()  # columns that are read as doubles, and may be whole


class DatabaseRows(TypedRows):
    """Rows of a table or a query; see `TableReader` for the methods."""

    kind: ClassVar[str]  # what the database is called
    has_versions: ClassVar[bool] = False  # which `table_version` names

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, self.kind)
        if len(addresses) > 1:
            raise BadInput(
                f"{addresses[0].name} is a table, and {addresses[1].name} was named, too. Read one "
                "table at a time."
            )
        address = addresses[0]
        table = self.opened(address, options, expected)
        file = SourceFile(address.name, table.n_bytes, table.version, place=table.place)
        last = None if expected.seen is None else expected.seen.last_of(file)
        if last is not None:
            before = options.model_copy(update={"table_version": last})
            table = self._since(last, table, file, lambda: self.opened(address, before, expected))
        self._table, self._rounded = table, table.rounded.intersection(expected.passed)
        super().__init__([address], [table.schema], options, expected)
        self.files, self.n_rows, self.notes = (file,), table.n_rows, table.notes
        self._n_parts = len(table.parts)
        if self.has_versions:
            self.decided = {"table_version": table.version}

    def opened(self, address: Address, options: SourceOptions, expected: Expected) -> OpenedTable:
        """Open a table or a query; BadInput where it cannot be read."""
        raise NotImplementedError

    def part(self, number: int) -> Part:
        return self._table.parts[number]

    def cells(self, piece: Piece, used: Sequence[int]) -> TableCells:
        result, names = super().cells(piece, used), [self.names[k] for k in used]
        where = f"{piece.file}, from row {piece.first_line:,} on"
        refuse_rounded(result.columns, names, self._rounded, where, _EXACT)
        return result

    def expands_to(self) -> float:
        return self._table.expands_to(self._table.parts)

    def _since(
        self, last: str, table: OpenedTable, file: SourceFile, again: Callable[[], OpenedTable]
    ) -> OpenedTable:
        """Return the parts that came after a version that was taken; `again` opens that one."""
        new, why, advice = None, "a query does not say", "Select these alone by another query"
        if self.has_versions:
            why, advice = "rows of that one were deleted or written anew", "Ingest the table anew"
            try:
                new = _new_parts(table, again())
            except (BadInput, FileNotFoundError):
                why = "that one is not there any more"
        if new is None:
            raise BadInput(
                f"{file.name}: rows of it were taken before (version {last}), and which rows of "
                f"version {table.version} are new cannot be told: {why}. {advice}, or append all "
                "rows of now as well: `again=true`."
            )
        if not new:
            raise NothingNew(
                f"{file.name}: version {table.version} of the table has no rows that version "
                f"{last} had not, which was taken before."
            )
        return table._replace(parts=new, n_rows=rows_of(new))


def _new_parts(table: OpenedTable, before: OpenedTable) -> list[Part] | None:
    """Return the parts that came after another version; None where rows of that one went."""
    old = {part.identity for part in before.parts}
    if not old <= {part.identity for part in table.parts}:
        return None
    return [part for part in table.parts if part.identity not in old]


def rows_of(parts: Sequence[Part]) -> int | None:
    """Return the rows of parts; None where one does not say."""
    counts = [part.n_rows for part in parts]
    return None if None in counts else sum(n for n in counts if n)


#: The name of a table, as SQL has it.
_NAME = r'(?:\w+|"(?:[^"]|"")+")'
TABLE_NAME = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_BEFORE = r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*"  # a query: blanks, comments, brackets
_SELECT = re.compile(rf"{_BEFORE}(?:select|with|values|table)\b", re.IGNORECASE | re.DOTALL)
_ASKED_AGAIN_S = 0.1  # to cancel what had not begun the first time
Answer = TypeVar("Answer")


def quoted_name(name: str) -> str:
    """Return the name of a column or a table as SQL has it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def as_select(query: str | None, where: str) -> str:
    """Return a SELECT of the rows that a setting `query` names; BadInput where it is none."""
    if query is None:
        raise BadInput(
            f"{where} is a database. Say which of its rows: the name of a table, or a SELECT "
            "(`query`)."
        )
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
