"""What SQL dialects write differently: names, text, cells, parts of dates, lists of rows.

Dates are read as of UTC: sessions of Spark and PostgreSQL must be set to it where columns have no
zone of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.moments import ISO

#: What `strptime` calls by these, in words of PostgreSQL's and of Spark's.
_POSTGRES = {
    "%Y": "YYYY", "%y": "YY", "%m": "MM", "%d": "DD", "%H": "HH24", "%I": "HH12", "%M": "MI",
    "%S": "SS", "%b": "Mon", "%B": "Month", "%p": "AM", "T": '"T"',
}  # fmt: skip
_SPARK = {
    "%Y": "yyyy", "%y": "yy", "%m": "M", "%d": "d", "%H": "H", "%I": "h", "%M": "m", "%S": "s",
    "%b": "MMM", "%B": "MMMM", "%p": "a", "T": "'T'",
}  # fmt: skip
_NUMBER = r"^\s*[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?\s*$"
_DAY = r"^\s*[0-9]{4}-[0-9]{2}-[0-9]{2}"


class SqlDialect(NamedTuple):
    """One dialect."""

    name: str
    quote: str = '"'
    has_backslashes: bool = False
    """Whether a backslash in text begins something else."""
    text: str = "VARCHAR"
    number: str = "DOUBLE"
    cast: str = "TRY_CAST"
    """Of what may be no number, which is NULL then."""
    everywhere: str = ""
    """Behind the arguments of `REGEXP_REPLACE`: all places, not the first."""
    row: str = "t"
    """A row as one value."""
    fields: str = "fewpass_row.*"
    """That value as columns again."""
    month: str = "MONTH(MAKE_TIMESTAMP(CAST({} AS BIGINT) * 1000000))"
    day_of_year: str = "DAYOFYEAR(MAKE_TIMESTAMP(CAST({} AS BIGINT) * 1000000))"

    def named(self, name: str) -> str:
        """Return a name, quoted."""
        if self.name == "bigquery":
            name = name.replace("\\", "\\\\").replace("`", "\\`")
        else:
            name = name.replace(self.quote, self.quote * 2)
        return f"{self.quote}{name}{self.quote}"

    def quoted(self, text: str) -> str:
        """Return a literal of text."""
        if self.has_backslashes:
            escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
            return f"'{escaped}'"
        return "'{}'".format(text.replace("'", "''"))

    def as_text(self, cell: str) -> str:
        """Return a cell as text."""
        return f"CAST({cell} AS {self.text})"

    def as_number(self, cell: str) -> str:
        """Return a cell, a number or text, as a number; NULL where it is none."""
        if self.name == "postgres":
            text = self.as_text(cell)
            return f"CASE WHEN {text} ~ '{_NUMBER}' THEN CAST({text} AS DOUBLE PRECISION) END"
        if self.name == "bigquery":
            cell = self.as_text(cell)
        return f"{self.cast}({cell} AS {self.number})"

    def without(self, text: str, pattern: str) -> str:
        """Return text without what a pattern matches."""
        return f"REGEXP_REPLACE({text}, {self.quoted(pattern)}, ''{self.everywhere})"

    def is_text(self, cell: str) -> str:
        """Return whether a cell is of a type of text, and no number."""
        return _IS_TEXT[self.name].format(cell=cell)

    def matches(self, text: str, pattern: str) -> str:
        """Return whether text is what a pattern matches."""
        return _MATCHES[self.name].format(text=text, pattern=self.quoted(pattern))

    def as_seconds(self, cell: str, form: str | None) -> str:
        """Return a date as seconds since 1970; NULL where it is none.

        BadInput for a form that the dialect does not know.
        """
        forms = (form or ISO).split("|")
        read = [self._moment(cell, one) for one in forms]
        moment = read[0] if len(read) == 1 else f"COALESCE({', '.join(read)})"
        return f"FLOOR({moment})"

    def _moment(self, cell: str, form: str) -> str:
        text = self.as_text(cell)
        if form == ISO:
            return _ISO_SECONDS[self.name].format(cell=cell, text=text, day=_DAY)
        codes = _FORMS[self.name]
        written = form if codes is None else self._translated(form, codes)
        if "%G" in form or "%q" in form:
            raise BadInput(f"{self.name} reads no dates like {form!r}")
        return _FORM_SECONDS[self.name].format(cell=cell, text=text, form=self.quoted(written))

    def _translated(self, form: str, codes: dict[str, str]) -> str:
        words = re.findall(r"%[A-Za-z]|[A-Za-z]+|[^%A-Za-z]+", form)
        for word in words:
            if word not in codes and re.search("[A-Za-z]", word):
                raise BadInput(f"{self.name} reads no dates like {form!r}")
        return "".join(codes.get(word, word) for word in words)

    def table(self, alias: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Return rows of literals as a table of a query."""
        if self.name == "bigquery":
            first = ", ".join(f"{v} AS {n}" for v, n in zip(rows[0], names, strict=True))
            others = [f"({', '.join(row)})" for row in rows[1:]]
            return f"UNNEST([STRUCT({first}), {', '.join(others)}]) AS {alias}"
        listed = "VALUES\n    " + ",\n    ".join(f"({', '.join(row)})" for row in rows)
        columns = ", ".join(names)
        if self.name == "spark":
            return f"(SELECT * FROM {listed} AS v({columns})) AS {alias}"  # noqa: S608 - all quoted
        return f"({listed}) AS {alias}({columns})"


_IS_TEXT = {
    "duckdb": "TYPEOF({cell}) = 'VARCHAR'",
    "postgres": "CAST(PG_TYPEOF({cell}) AS TEXT) IN ('text', 'character varying', 'character')",
    "bigquery": "TO_JSON_STRING({cell}) LIKE '\"%'",
    "spark": "TYPEOF({cell}) = 'string'",
}
_MATCHES = {
    "duckdb": "REGEXP_MATCHES({text}, {pattern})",
    "postgres": "{text} ~ {pattern}",
    "bigquery": "REGEXP_CONTAINS({text}, {pattern})",
    "spark": "{text} RLIKE {pattern}",
}
_ISO_SECONDS = {
    "duckdb": "EPOCH(TRY_CAST({cell} AS TIMESTAMP))",
    "postgres": "CASE WHEN {text} ~ '{day}' THEN EXTRACT(EPOCH FROM CAST({text} AS TIMESTAMP)) END",
    "bigquery": "UNIX_SECONDS(SAFE_CAST({text} AS TIMESTAMP))",
    "spark": "UNIX_TIMESTAMP(TRY_CAST({cell} AS TIMESTAMP))",
}
_FORM_SECONDS = {
    "duckdb": "EPOCH(COALESCE(TRY_STRPTIME({text}, {form}), TRY_CAST({cell} AS TIMESTAMP)))",
    "postgres": "EXTRACT(EPOCH FROM TO_TIMESTAMP({text}, {form}))",
    "bigquery": "UNIX_SECONDS(SAFE.PARSE_TIMESTAMP({form}, {text}))",
    "spark": "UNIX_TIMESTAMP(TRY_TO_TIMESTAMP({text}, {form}))",
}
_FORMS = {"duckdb": None, "postgres": _POSTGRES, "bigquery": None, "spark": _SPARK}

DIALECTS = {
    one.name: one
    for one in (
        SqlDialect("duckdb", everywhere=", 'g'"),
        SqlDialect(
            "postgres", number="DOUBLE PRECISION", text="TEXT", cast="CAST", everywhere=", 'g'",
            fields="(fewpass_row).*",
            month="EXTRACT(MONTH FROM TO_TIMESTAMP({}) AT TIME ZONE 'UTC')",
            day_of_year="EXTRACT(DOY FROM TO_TIMESTAMP({}) AT TIME ZONE 'UTC')",
        ),
        SqlDialect(
            "bigquery", quote="`", has_backslashes=True, text="STRING", number="FLOAT64",
            cast="SAFE_CAST", month="EXTRACT(MONTH FROM TIMESTAMP_SECONDS(CAST({} AS INT64)))",
            day_of_year="EXTRACT(DAYOFYEAR FROM TIMESTAMP_SECONDS(CAST({} AS INT64)))",
        ),
        SqlDialect(
            "spark", quote="`", has_backslashes=True, text="STRING", row="STRUCT(t.*)",
            month="MONTH(TIMESTAMP_SECONDS({}))", day_of_year="DAYOFYEAR(TIMESTAMP_SECONDS({}))",
        ),
    )
}  # fmt: skip
