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
_DAY = r"^\s*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
#: What of ISO 8601 is read, tidied: databases take 24:00:00, names of zones and `epoch` besides.
_ISO_SHAPE = (
    "^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ]([01]?[0-9]|2[0-3])(:[0-5][0-9]){1,2}"
    "( ?(UTC|GMT|Z)|[-+][0-9]{2}(:?[0-9]{2})?)?)?$"
)
_ZONE = r":[0-9]{2}[-+][0-9]{2}(:?[0-9]{2})?\s*$"
#: What in text is otherwise than a form has it, and by what it is replaced: groups are {1}, {2}.
#: Zones become +0000, in ISO's without a space before; seconds whole; names three letters long.
_NAMED_ZONE = (r" ?(UTC|GMT|Z)\s*$", "+0000")
_SPACED_ZONE = (
    r"(:[0-9]{2}|T[0-9]{4,6})([.,][0-9]+)? ?([-+][0-9]{2}):?([0-9]{2})( [(][A-Za-z ]+[)])?\s*$",
    "{1} {3}{4}",
)
_FRACTION = (r"(:[0-9]{2})[.,][0-9]+", "{1}")
_BLANKS = (r"^\s+|\s+$", "")
_JOINED_ZONE = (r" ([-+][0-9]{2}:?[0-9]{2})\s*$", "{1}")
_NAME = (r"([A-Za-z]{3})[A-Za-z]+", "{1}")
_TIDY = {
    "%z": (_NAMED_ZONE, _SPACED_ZONE), "%S": (_FRACTION,), "%a": (_NAME,), "%b": (_NAME,),
    "%B": (_NAME,), ISO: (_FRACTION, _JOINED_ZONE),
}  # fmt: skip


#: A row of the table that is scored, a name that no column of it has: columns come before rows.
ROW = "fewpass_source"


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
    group: str = r"\{}"
    """A group of a pattern, in what replaces its match."""
    everywhere: str = ""
    """Behind the arguments of `REGEXP_REPLACE`: all places, not the first."""
    row: str = ROW
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

    def as_word(self, cell: str) -> str:
        """Return a cell as the word that it is: of the number 1.0 that is 1."""
        text = self.as_text(cell)
        if self.name not in _IS_FLOAT:
            return text
        whole = self.without(text, "[.]0$")
        return f"CASE WHEN {_IS_FLOAT[self.name].format(cell=cell)} THEN {whole} ELSE {text} END"

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

    def _tidied(self, text: str, form: str) -> str:
        """Return text as a form has it."""
        groups = [self.group.format(k) for k in range(5)]
        steps = dict.fromkeys(step for part in _TIDY if part in form for step in _TIDY[part])
        for pattern, by in (_BLANKS, *steps):
            replaced = f"{self.quoted(pattern)}, {self.quoted(by.format(*groups))}"
            text = f"REGEXP_REPLACE({text}, {replaced}{self.everywhere})"
        return text

    def _moment(self, cell: str, form: str) -> str:
        text = self._tidied(self.as_text(cell), form)
        form = form.replace("%B", "%b")
        if form == ISO:
            seconds = _ISO_SECONDS[self.name].format(text=text, day=_DAY, zone=_ZONE)
            return f"CASE WHEN {self.matches(text, _ISO_SHAPE)} THEN {seconds} END"
        codes = _FORMS[self.name]
        written = form if codes is None else self._translated(form, codes)
        if "%G" in form or "%q" in form:
            raise BadInput(f"{self.name} reads no dates like {form!r}")
        typed = _ISO_SECONDS[self.name].format(text=self.as_text(cell), day=_DAY, zone=_ZONE)
        seconds = _FORM_SECONDS[self.name].format(text=text, form=self.quoted(written))
        if self.name == "bigquery":  # its dates are text to `is_text`
            return f"COALESCE({seconds}, {typed})"
        return f"CASE WHEN {self.is_text(cell)} THEN {seconds} ELSE {typed} END"

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
#: Whether a cell is a number that the dialect writes with a point in any case.
_IS_FLOAT = {
    "duckdb": "TYPEOF({cell}) IN ('FLOAT', 'DOUBLE')",
    "spark": "TYPEOF({cell}) IN ('float', 'double')",
}
_MATCHES = {
    "duckdb": "REGEXP_MATCHES({text}, {pattern})",
    "postgres": "{text} ~ {pattern}",
    "bigquery": "REGEXP_CONTAINS({text}, {pattern})",
    "spark": "{text} RLIKE {pattern}",
}
_ISO_SECONDS = {  # a timestamp without a zone would drop that of the text
    "duckdb": (
        "CASE WHEN REGEXP_MATCHES({text}, '{zone}') THEN EPOCH(TRY_CAST({text} AS TIMESTAMPTZ)) "
        "ELSE EPOCH(TRY_CAST({text} AS TIMESTAMP)) END"
    ),
    "postgres": (
        "CASE WHEN {text} ~ '{day}' THEN EXTRACT(EPOCH FROM CAST({text} AS TIMESTAMPTZ)) END"
    ),
    "bigquery": "UNIX_SECONDS(SAFE_CAST({text} AS TIMESTAMP))",
    "spark": "UNIX_TIMESTAMP(TRY_CAST({text} AS TIMESTAMP))",
}
_FORM_SECONDS = {
    "duckdb": "EPOCH(TRY_STRPTIME({text}, {form}))",
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
            "spark", quote="`", has_backslashes=True, text="STRING", row=f"STRUCT({ROW}.*)",
            group="${{}}",
            month="MONTH(TIMESTAMP_SECONDS({}))", day_of_year="DAYOFYEAR(TIMESTAMP_SECONDS({}))",
        ),
    )
}  # fmt: skip
