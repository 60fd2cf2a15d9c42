"""Quotes at the beginning of a cell that enclose none: `"AGENT" K is`, or 19" for inches.

Read as if they did, they would take the rows behind them into the cell, and say nothing of it.
"""

from __future__ import annotations

from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.characters import NEWLINE, SPACE
from fewpass.pipeline.tables.readers.delimited_header import dialect_of, without_comments
from fewpass.pipeline.tables.readers.dialect import Dialect
from fewpass.pipeline.tables.readers.exact import count_byte
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.lines import WholeLines, first_lines
from fewpass.pipeline.tables.readers.source import Piece
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Bytes

#: Bytes that tell whether quotes are text.
_LOOKED_AT = 4 << 20
#: Share of the first lines that have a row's delimiters where quotes are part of the text.
_WHOLE = 0.99


class Evidence(NamedTuple):
    """What some text says of its quotes."""

    opened: int  # rows with a cell that begins with a quote
    unclosed: int  # rows in which text follows a closing quote
    long: int  # rows of several lines
    stray: int  # of these, all of whose lines are rows, or with text behind a closing quote
    first: int  # line of the first stray one, from 0
    n_lines: int  # that it takes


@kernel
def _weigh(  # noqa: C901
    text: Bytes, delimiter: int, quote: int, n_delimiters: int
) -> tuple[int, int, int, int, int, int]:
    n_opened, n_unclosed, n_long, n_stray, first, taken = 0, 0, 0, 0, -1, 0
    line, begins, in_line = 0, 0, 0
    quoted, at_start, skip, closed = False, True, False, False
    opened, behind, all_whole = False, False, True
    for at in range(text.size):
        c = text[at]
        in_line += c == delimiter
        if skip:
            skip = False
        elif quoted:
            if c == quote:
                skip = at + 1 < text.size and text[at + 1] == quote
                quoted, closed = skip, not skip
        elif c == quote and at_start:
            quoted, at_start, opened = True, False, True
        elif c == delimiter:
            at_start, closed = True, False
        elif c > SPACE:
            behind |= closed
            at_start = False
        elif c != NEWLINE:
            at_start = False
        if c != NEWLINE:
            continue
        all_whole &= in_line == n_delimiters
        in_line = 0
        if not quoted:
            is_long = line > begins
            is_stray = is_long and (behind or all_whole)
            n_opened += opened
            n_unclosed += behind
            n_long += is_long
            n_stray += is_stray
            if is_stray and first < 0:
                first, taken = begins, line - begins + 1
            begins = line + 1
            at_start, closed, opened, behind, all_whole = True, False, False, False, True
        line += 1
    return n_opened, n_unclosed, n_long, n_stray, first, taken


def in_address(address: Address, options: SourceOptions, longest: int) -> Address:
    """Say in an address of text whether quotes enclose cells: as was asked for, or is seen."""
    if options.quote != "auto" or address.spaced:
        return address._replace(quotes=options.quote != "none")
    head = without_comments(first_lines(address, longest, _LOOKED_AT), address.name)
    return address._replace(quotes=not are_text(head, dialect_of(head, address, options)))


def reading_of(address: Address, options: SourceOptions) -> dict[str, str]:
    """Return what was not asked for, but seen: the setting `quote`, if quotes are text."""
    return {} if address.quotes or options.quote == "none" else {"quote": "none"}


def sentences(address: Address, options: SourceOptions) -> tuple[str, ...]:
    """Tell that quotes are read as text, where nobody said so."""
    if not reading_of(address, options):
        return ()
    said = (
        "Some cells begin with a quote that does not end them, so quotes were read as part of the "
        "text. Say `quote=double` if they enclose cells."
    )
    return (said,)


def weighed(text: WholeLines, dialect: Dialect, n_cells: int) -> Evidence:
    """Count the quotes of whole lines whose rows have `n_cells` cells."""
    return Evidence(*map(int, _weigh(text.bytes, *dialect.marks, n_cells - 1)))


def are_text(head: WholeLines, dialect: Dialect) -> bool:
    """Say whether quotes are part of the text in the first lines of a table.

    Then some do not end their cells, few rows have any, and every line is a row.  With tabs that
    is enough: who writes tabs between cells seldom encloses them.
    """
    if not dialect.quotes or not count_byte(head.bytes, dialect.quote):
        return False
    lines = head.bytes.tobytes().split(b"\n")[:-1]
    counts = [line.count(dialect.delimiter.encode()) for line in lines if line.strip()]
    quotes = weighed(head, dialect, counts[0] + 1)
    whole = sum(count == counts[0] for count in counts)
    strays = quotes.unclosed or (dialect.delimiter == "\t" and 2 * quotes.stray > quotes.long)
    few = 2 * quotes.opened < len(counts)
    return bool(counts[0] and strays and few and whole >= _WHOLE * len(counts))


def refuse_stray(piece: Piece, dialect: Dialect, n_cells: int) -> None:
    """Refuse quotes that took rows into a cell, it seems; BadInput says where they begin."""
    text: WholeLines = piece.content
    if not dialect.quotes or not count_byte(text.bytes, dialect.quote):
        return
    quotes = weighed(text, dialect, n_cells)
    if 2 * quotes.stray > quotes.long:
        raise BadInput(
            f"{piece.file}, line {piece.first_line + quotes.first}: a cell begins with a quote and "
            f"goes on for {quotes.n_lines} lines, which look like rows of their own. Say "
            "`quote=none` if quotes are part of the text, `quote=double` if they enclose cells."
        )
