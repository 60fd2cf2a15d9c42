"""Differences of SQL dialects: names, text, types of cells, patterns, lists of rows.

Each of them is run by a test.  Dates without a zone are as of UTC.
"""

from __future__ import annotations

from collections.abc import Sequence

#: A row of the table that is scored, a name that no column of it has: columns come before rows.
ROW = "fewpass_source"
#: The largest number of float64, and what is below its smallest one.
LARGEST, SMALLEST = "1.7976931348623157e308", "2e-324"
#: Whole floats below are written as digits.
DIGITS_BELOW = "1e37"
_HALF = 1 << 62


class SqlDialect:
    """DuckDB, and what all dialects have alike."""

    name = "duckdb"
    text, number = "VARCHAR", "DOUBLE"
    #: Types, in small letters: of binary fractions, of decimal ones, of float32, of other numbers.
    floats, decimals, single = "'float', 'double'", "decimal%", "float"
    numbers = "u?(tiny|small|big|huge)?int(eger)?|double|decimal.*|bignum"
    cast = "TRY_CAST"
    #: A row as one value, and that value as columns again.
    row, fields = ROW, "fewpass_row.*"
    #: Behind a step, where it would be computed again for each use otherwise.
    fence = ""
    month = "MONTH(MAKE_TIMESTAMP(CAST({} AS BIGINT) * 1000000))"
    day_of_year = "DAYOFYEAR(MAKE_TIMESTAMP(CAST({} AS BIGINT) * 1000000))"

    def named(self, name: str) -> str:
        """Return a name, quoted."""
        return '"{}"'.format(name.replace('"', '""'))

    def alike(self, name: str) -> str:
        """Return what two names are one by."""
        return "".join(c.lower() if c.isascii() else c for c in name)

    def quoted(self, text: str) -> str:
        """Return a literal of text."""
        return "'{}'".format(text.replace("'", "''"))

    def as_text(self, cell: str) -> str:
        """Return a cell as text; of dates in ISO 8601."""
        return f"CAST({cell} AS {self.text})"

    def kind_of(self, cell: str) -> str:
        """Return the name of a cell's type, in small letters."""
        return f"LOWER(TYPEOF({cell}))"

    def as_word(self, kind: str, text: str, value: str) -> str:
        """Return what text of a type says: whole numbers are digits, decimals end in no zeros.

        `value` is its `typed_number`.
        """
        number = (
            f"CASE WHEN LOWER({text}) = 'nan' THEN NULL "
            f"WHEN {text} LIKE '%Infinity' OR LOWER({text}) LIKE '%inf' "
            f"THEN CASE WHEN {text} LIKE '-%' THEN '-inf' ELSE 'inf' END "
            f"WHEN {value} = TRUNC({value}) AND ABS({value}) < {DIGITS_BELOW} "
            f"THEN {self.digits(value)} ELSE {self.fraction(text)} END"
        )
        decimal = f"RTRIM(RTRIM({text}, '0'), '.')"
        return (
            f"NULLIF(CASE WHEN {kind} IN ({self.floats}) THEN {number} "
            f"WHEN {kind} LIKE '{self.decimals}' AND {text} LIKE '%.%' THEN {decimal} "
            f"WHEN {self.is_moment(kind)} THEN REPLACE({text}, 'T', ' ') ELSE {text} END, '')"
        )

    def digits(self, number: str) -> str:
        """Return all digits of a float that is whole."""
        return f"CAST(TRY_CAST({number} AS DECIMAL(38, 0)) AS VARCHAR)"

    def fraction(self, text: str) -> str:
        """Return the text of a float that is not whole: digits from 0.0001 on."""
        return text

    def typed_number(self, kind: str, text: str) -> str:
        """Return the number of a cell whose type is one of numbers, or boolean; else NULL."""
        single = f"{self.cast}({text} AS {self.single})"
        return (
            f"CASE WHEN {self.matches(kind, f'^({self.numbers})$')} THEN {self.number_in(text)} "
            f"WHEN {kind} = '{self.single}' THEN CAST({single} AS {self.number}) "
            f"WHEN {kind} = 'boolean' THEN {self.flag(text)} END"
        )

    def is_moment(self, kind: str) -> str:
        """Return whether a type is one of dates."""
        return f"({kind} = 'date' OR {kind} LIKE 'timestamp%')"

    def flag(self, text: str) -> str:
        """Return the number of a boolean."""
        return f"CASE {text} WHEN 'true' THEN 1e0 WHEN 'false' THEN 0e0 END"

    def number_in(self, text: str) -> str:
        """Return the number that a text is written as; NULL beyond the largest."""
        return f"TRY_CAST({text} AS DOUBLE)"

    def matches(self, text: str, pattern: str, *, any_case: bool = False) -> str:
        """Return whether text is what a pattern matches."""
        case = ", 'i'" if any_case else ""
        return f"REGEXP_MATCHES({text}, {self.quoted(pattern)}{case})"

    def without(self, text: str, pattern: str) -> str:
        """Return text without what a pattern matches."""
        return f"REGEXP_REPLACE({text}, {self.quoted(pattern)}, '', 'g')"

    def groups(self, text: str, pattern: str, n: int) -> str:
        """Return the texts of a pattern's groups as one value."""
        names = ", ".join(f"'g{k}'" for k in range(1, n + 1))
        return f"REGEXP_EXTRACT({text}, {self.quoted(pattern)}, [{names}])"

    def group(self, groups: str, k: int) -> str:
        """Return the text of the k-th group, from 1; NULL where it is empty."""
        return f"NULLIF({groups}.g{k}, '')"

    def table(self, alias: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Return rows of literals as a table of a query."""
        listed = "VALUES\n    " + ",\n    ".join(f"({', '.join(row)})" for row in rows)
        return f"({listed}) AS {alias}({', '.join(names)})"


class PostgreSql(SqlDialect):
    """PostgreSQL."""

    name = "postgres"
    text, number = "TEXT", "DOUBLE PRECISION"
    floats, decimals, single = "'real', 'double precision'", "numeric", "real"
    numbers, cast = "smallint|integer|bigint|numeric|double precision", "CAST"
    fields, fence = "(fewpass_row).*", " OFFSET 0"
    month = "EXTRACT(MONTH FROM TO_TIMESTAMP({}) AT TIME ZONE 'UTC')"
    day_of_year = "EXTRACT(DOY FROM TO_TIMESTAMP({}) AT TIME ZONE 'UTC')"

    def alike(self, name: str) -> str:
        # Longer names are cut.
        return name.encode()[:63].decode(errors="ignore")

    def kind_of(self, cell: str) -> str:
        return f"CAST(PG_TYPEOF({cell}) AS TEXT)"

    def as_text(self, cell: str) -> str:
        # JSON has one way to write dates, whatever the session's DateStyle is.
        is_moment, moment = self.is_moment(self.kind_of(cell)), f"TO_JSON({cell}) #>> '{{}}'"
        return f"CASE WHEN {is_moment} THEN {moment} ELSE CAST({cell} AS TEXT) END"

    def digits(self, number: str) -> str:
        # As a decimal a float has 15 digits, as whole numbers all: those of two halves.
        half = f"CAST('{_HALF}' AS DOUBLE PRECISION)"
        high = f"TRUNC({number} / {half})"
        halves = [
            f"CAST(CAST({n} AS BIGINT) AS NUMERIC)" for n in (high, f"{number} - {high} * {half}")
        ]
        return f"CAST({halves[0]} * {_HALF} + {halves[1]} AS TEXT)"

    def fraction(self, text: str) -> str:
        is_digits = self.matches(text, "e[+](0[0-9]|1[0-5])$")
        return f"CASE WHEN {is_digits} THEN CAST(CAST({text} AS NUMERIC) AS TEXT) ELSE {text} END"

    def number_in(self, text: str) -> str:
        # A decimal is no error where it is too large or too small for a float.
        sized = f"CAST({text} AS NUMERIC)"
        return (
            f"CASE WHEN {text} !~ 'e|E|.{{250}}' THEN CAST({text} AS DOUBLE PRECISION) "
            f"WHEN {text} ~ '[eE]-0*[1-9][0-9]{{3}}' THEN 0e0 "
            f"WHEN {text} ~ '[eE][+]?0*[1-9][0-9]{{3}}' OR ABS({sized}) > {LARGEST} THEN NULL "
            f"WHEN ABS({sized}) < {SMALLEST} THEN 0e0 ELSE CAST({text} AS DOUBLE PRECISION) END"
        )

    def matches(self, text: str, pattern: str, *, any_case: bool = False) -> str:
        return f"{text} {'~*' if any_case else '~'} {self.quoted(pattern)}"

    def groups(self, text: str, pattern: str, n: int) -> str:  # noqa: ARG002 - all of them
        return f"REGEXP_MATCH({text}, {self.quoted(pattern)})"

    def group(self, groups: str, k: int) -> str:
        return f"NULLIF(({groups})[{k}], '')"


DIALECTS = {one.name: one for one in (SqlDialect(), PostgreSql())}
