"""Output streams: results to standard output, everything about the way there to standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Column, Table

from fewpass.flows.display.log_lines import Line, form_of_lines, json_line
from fewpass.flows.display.printing import plain_json, printable
from fewpass.flows.flags import in_flags
from fewpass.flows.options import Output
from fewpass.pipeline.drawing.safe_text import without_control
from fewpass.pipeline.passes import cluster_logs

WARNINGS = ("yellow", "red")  # styles
NARROWEST = 8  # letters of a column whose text goes on below
BETWEEN = 2  # blanks beside a column
#: Words that rich would read as its own: names and labels are other people's, titles among them.
AS_WRITTEN: Any = {"highlight": False, "emoji": False, "markup": False}
MOST_COLUMNS = 40  # of a table, that the results of a command show one by one


class Screen(Console):
    """A console that shows control characters in what it is given instead of obeying them."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render, all text printable; what moves the cursor is rich's own."""
        for segment in super().render(renderable, options):
            if segment.control is None:
                yield Segment(without_control(segment.text), segment.style)
            else:
                yield segment


class Terminal:
    """Prints as the options of a command ask for."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.log_format = form_of_lines(output.log_format)
        self.err = Screen(stderr=True, quiet=output.quiet, **AS_WRITTEN)
        self.out = Screen(quiet=output.quiet, **AS_WRITTEN)
        if not output.debug:  # our own messages say what the cluster's log would, and how to go on
            cluster_logs.level = "critical"

    @property
    def live(self) -> bool:
        """True if a display that redraws itself makes sense."""
        quiet = self.output.quiet or self.log_format == "json"
        return self.err.is_terminal and not quiet

    def log(self, level: str, line: Line) -> None:
        """Write a line of the log in JSON on standard error."""
        if not self.output.quiet:
            sys.stderr.write(json_line(level, in_flags(line.text), line.fields) + "\n")
            sys.stderr.flush()

    def say(self, text: str = "", style: str | None = None) -> None:
        """Tell something on standard error; what is in yellow or red is a warning.

        A terminal's lines are broken between words: a number or a path that is cut cannot be read.
        """
        self._say(text, style, as_it_is=not self.err.is_terminal)

    def command(self, text: str) -> None:
        """Tell a command on standard error, as it is: it is there to be copied."""
        self._say(f"  $ {text}", "cyan", as_it_is=True)

    def explain(self, text: str) -> None:
        """Tell more than a line on standard error, broken between words wherever it goes."""
        self._say(text, None, as_it_is=False)

    def _say(self, text: str, style: str | None, *, as_it_is: bool) -> None:
        if self.log_format == "json":
            self.log("warning" if style in WARNINGS else "info", Line(text, {}))
            return
        self.err.print(in_flags(printable(text)), style=style, soft_wrap=as_it_is)

    def show(self, shown: RenderableType) -> None:
        """Show a table on standard error, on the way to a result."""
        table = uncut(shown, self.err.width)
        if self.log_format == "text":
            self.err.print(table, soft_wrap=True)
            return
        with self.err.capture() as text:
            self.err.print(table, soft_wrap=True)
        self.log("info", Line(text.get().strip(), {}))

    def plan(self, text: str) -> None:
        """Print the effective plan when --verbose asks for it."""
        if self.output.verbose:
            self.say(text, style="dim")

    def result(self, facts: Mapping[str, Any], shown: RenderableType) -> None:
        """Print what a command came to: as one JSON object, or for people."""
        if self.output.json:
            sys.stdout.write(plain_json(facts) + "\n")
        else:
            width = self.out.width
            shown = printable(shown) if isinstance(shown, str) else uncut(shown, width)
            self.out.print(shown, soft_wrap=True)


def uncut(shown: RenderableType, width: int) -> RenderableType:
    """Keep numbers whole on a narrow terminal, too, and of text that goes on below a few letters.

    A number that is cut is another, and a row whose name is gone is nobody's.  A table that needs
    more than the `width` letters there are is as wide as it has to be.
    """
    for part in shown.renderables if isinstance(shown, Group) else [shown]:
        if isinstance(part, Table):
            for column in part.columns:
                column.min_width = max(column.min_width or 0, _least_width(column))
            needs = sum((column.min_width or 0) + BETWEEN for column in part.columns)
            part.width = needs if needs > width else part.width
    return shown


def _least_width(column: Column) -> int:
    lines = "\n".join(map(str, (column.header, *column.cells))).split("\n")
    widest = max(map(cell_len, lines))
    goes_on_below = column.overflow == "fold" and not column.no_wrap
    return min(widest, NARROWEST) if goes_on_below else widest


def titled_table(title: str | None = None) -> Table:
    """Return a table without lines, its title at the left."""
    shown = title and printable(title)
    return Table(title=shown, title_justify="left", title_style="bold", box=None)


def rows_table(
    title: str,
    rows: Sequence[Mapping[str, str]],
    text: Sequence[str] = (),
    *,
    of_numbers: bool = False,
) -> Table:
    """Lay rows out below the names of their cells.

    Text is at the left: the first column, unless the table is of numbers, and those of `text`.
    """
    table = titled_table(title)
    for k, name in enumerate(rows[0] if rows else ()):
        if name in text or (k == 0 and not of_numbers):
            table.add_column(name, style="" if k else "cyan", overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(printable, row.values()))
    return table


def facts_table(title: str, facts: Mapping[str, Any], *, whole_names: bool = True) -> Table:
    """Lay facts out one below the other; what is None is left out.

    Names that may be long take no more space than their values, unless they are whole.
    """
    table = titled_table(title)
    table.show_header = False
    table.add_column(style="cyan", no_wrap=whole_names, overflow="fold")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None:
            shown = value if isinstance(value, str) else format_value(value)
            table.add_row(printable(name), printable(shown))
    return table


def columns_table(columns: Mapping[str, str], most: int = MOST_COLUMNS, rest: str = "") -> Table:
    """Lay out the columns of a table, and what each is; of many the first, and where others are."""
    shown = {name: in_flags(what) for name, what in islice(columns.items(), most)}
    if len(columns) > most:
        shown["..."] = f"{len(columns) - most:,} more{rest}"
    return facts_table("Columns", shown, whole_names=False)


def format_value(value: Any) -> str:
    """Write a number so that it can be read."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
