"""A SELECT in steps: each has the columns of those before, and adds some of its own."""

from __future__ import annotations

from collections.abc import Iterator

from fewpass.pipeline.models.export.sql_dialects import ROW, SqlDialect

#: Cells as text with their types; typed numbers; words, read by these; what patterns find in the
#: others, numbers of that; cells as what they are; features.
STEPS = ("texts", "numbers", "read", "known", "parts", "dates", "values", "cells", "features")


class Statement:
    """The steps of a SELECT in a dialect, whose columns have names of a letter and a number."""

    def __init__(self, dialect: SqlDialect) -> None:
        self.dialect = dialect
        self._columns: dict[str, dict[str, str]] = {step: {} for step in STEPS}

    def add(self, step: str, expression: str) -> str:
        """Return the name of a column of a step; the same one for the same expression."""
        columns = self._columns[step]
        return columns.setdefault(expression, f"{step[0]}{len(columns)}")

    def written(self, source: str) -> Iterator[str]:
        """Yield the steps, from a table on, that have columns; the last one is `features`."""
        before, columns_before = f"{source} AS {ROW}", f"{self.dialect.row} AS fewpass_row"
        for step, columns in self._columns.items():
            if columns or step in (STEPS[0], STEPS[-1]):
                own = [f"{expression} AS {name}" for expression, name in columns.items()]
                yield f"{step} AS ({selected([columns_before, *own], before)}{self.dialect.fence})"
                before, columns_before = step, f"{step}.*"


def selected(columns: list[str], rows: str) -> str:
    """Return a SELECT of expressions from rows."""
    listed = ",\n  ".join(columns)
    return f"\nSELECT\n  {listed}\nFROM {rows}"
