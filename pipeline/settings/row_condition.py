"""Conditions on rows, as they are written: `id in FILE`, `city == "north" and age < 18`.

    condition = term { "and" term } | term { "or" term }      whoever mixes them writes brackets
    term      = "not" term | "(" condition ")" | column test
    test      = ("==" | "!=" | "<" | "<=" | ">" | ">=") value
              | ["not"] "in" ("(" value { "," value } ")" | file)
              | "is" ["not"] "missing"
    value     = number | text               -1, 2.5, 1e6; no 007, +5 or 1_000, which are text
    column    = name | text                 a name has no blanks, quotes, brackets or signs
    file      = path | text                 a path has no blanks, quotes, brackets or commas
    text      = "..." | '...'               a quote inside is written twice

Words are read in any case.  Whatever else stands there is refused, with its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

#: For forms that are checked elsewhere: some column, how it is compared, with what.
CONDITION_PATTERN = r"\S\s*([!=<>]=|<|>|\s([nN][oO][tT]\s+)?[iI][nN][\s(]|\s[iI][sS]\s)\s*\S"

#: What holds of a cell that is there just where the other does not.
_OPPOSITE = {
    "in": "not in", "<": ">=", "<=": ">", "is missing": "is not missing",
    "not in": "in", ">=": "<", ">": "<=", "is not missing": "is missing",
}  # fmt: skip
_BLANKS = re.compile(r"\s*")
_NAME = re.compile(r"[^\s\"'()\[\],;=!<>&|]+")
_PATH = re.compile(r"[^\s\"'(),]+")
#: Values with commas between, or one of them, that stand where a file or brackets are expected.
_BARE_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s(),]+)"
_BARE = re.compile(rf"{_BARE_VALUE}(?:\s*,\s*{_BARE_VALUE})*")
_VALUE = re.compile(r"[^\s\"'(),;&|]+")
_TEXT = re.compile(r"\"((?:[^\"]|\"\")*)\"|'((?:[^']|'')*)'")
_SIGN = re.compile(r"[=!<>&|~]+")
_NUMBER = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?", re.ASCII)
_COMPARING = ("==", "!=", "<", "<=", ">", ">=")
_KEYWORDS = ("and", "or", "not", "in", "is")
_DEEPEST, _SHOWN = 50, 60
_ADVICE = {
    "&&": "Write `and`.", "&": "Write `and`.", "||": "Write `or`.", "|": "Write `or`.",
    "=": "Write `==`.", "===": "Write `==`.", "<>": "Write `!=`.", "!": "Write `not`.",
    ",": "Join conditions with `and` or `or`.", ";": "Join conditions with `and` or `or`.",
}  # fmt: skip
T = TypeVar("T")


class WrittenTerm(NamedTuple):
    """A condition on one column: its cell is, or is not, one of the values, or compares with it."""

    column: str
    how: str  # a key of `_OPPOSITE`
    values: tuple[str | Decimal, ...] = ()
    file: str | None = None  # whose lines are the values


class WrittenConditions(NamedTuple):
    """Several conditions, all of which hold, or one at least."""

    every: bool
    parts: tuple[Written, ...]


Written = WrittenTerm | WrittenConditions


def read_condition(text: str) -> Written:
    """Return what is written; ValueError for what is no condition, with the place."""
    reader = _Reader(text)
    written = reader.condition()
    if not reader.ends:
        raise reader.refusal("`and`, `or` or the end", _QUOTING)
    return written


def terms_of(written: Written) -> Iterator[WrittenTerm]:
    """Yield the conditions on single columns."""
    if isinstance(written, WrittenTerm):
        yield written
    else:
        for part in written.parts:
            yield from terms_of(part)


def as_condition(text: str) -> str:
    """Return the text of a condition; ValueError where it is none."""
    read_condition(text)
    return text


_QUOTING = "A quote inside a text in quotes is written twice."
_EXAMPLES = 'Write for example id in FILE, id in (1, 2), city == "north" and age < 18.'


def _negated(written: Written) -> Written:
    """Return what holds where another condition does not, of cells that are there (De Morgan)."""
    if isinstance(written, WrittenTerm):
        return written._replace(how=_OPPOSITE[written.how])
    return WrittenConditions(not written.every, tuple(_negated(part) for part in written.parts))


class _Reader:
    """Reads a condition from left to right, by a method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        if "\0" in text:
            self._at = text.index("\0")
            raise self.refusal("no character 0")

    @property
    def ends(self) -> bool:
        """True if nothing but blanks is left."""
        return self._skipped() == len(self._text)

    def condition(self) -> Written:
        parts = [self._term()]
        every = self._next_word() == "and"
        while self._word("and" if every else "or"):
            parts.append(self._term())
        if self._next_word() == ("or" if every else "and"):
            raise self.refusal("brackets", "They say what belongs together: a and (b or c).")
        return parts[0] if len(parts) == 1 else WrittenConditions(every, tuple(parts))

    def _term(self) -> Written:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self.refusal(f"no more than {_DEEPEST} brackets and `not` inside one another")
        if self._word("not"):
            written = _negated(self._term())
        elif self._mark("("):
            written = self.condition()
            if not self._mark(")"):
                raise self.refusal("`and`, `or` or a closing bracket", _QUOTING)
        else:
            written = self._test(self._column())
        self._depth -= 1
        return written

    def _column(self) -> str:
        text = self._quoted()
        if text is not None:
            return text
        name = self._matched(_NAME, lambda piece: piece if piece.lower() not in _KEYWORDS else None)
        if name is None:
            raise self.refusal("the name of a column", _EXAMPLES)
        return name

    def _test(self, column: str) -> WrittenTerm:
        if self._word("is"):
            how = "is not missing" if self._word("not") else "is missing"
            if not self._word("missing"):
                raise self.refusal("`missing`", "Other values are compared by == and !=.")
            return WrittenTerm(column, how)
        inverted = self._word("not")
        if self._word("in"):
            return self._listed(column, "not in" if inverted else "in")
        if inverted:
            raise self.refusal("`in`")
        sign = self._matched(_SIGN, lambda piece: piece if piece in _COMPARING else None)
        if sign is None:
            raise self.refusal(
                "==, !=, <, <=, >, >=, `in` or `is missing`",
                "A name with blanks, and one that is a word of conditions, goes in quotes.",
            )
        how = {"==": "in", "!=": "not in"}.get(sign, sign)
        return WrittenTerm(column, how, (self._value(),))

    def _listed(self, column: str, how: str) -> WrittenTerm:
        if not self._mark("("):
            self._refuse_bare_values()
            file = self._quoted() or self._matched(_PATH, lambda piece: piece)
            if file is None:
                raise self.refusal("a file, or values in round brackets")
            return WrittenTerm(column, how, file=file)
        values = [self._value()]
        while self._mark(","):
            values.append(self._value())
        if not self._mark(")"):
            raise self.refusal("a closing bracket, or a comma and a value")
        return WrittenTerm(column, how, tuple(values))

    def _refuse_bare_values(self) -> None:
        """Refuse values without their brackets: several with commas, or a number alone."""
        written = _BARE.match(self._text, self._skipped())
        values = re.findall(_BARE_VALUE, written[0].strip("[]{}")) if written else []
        if len(values) > 1 or (values and _NUMBER.fullmatch(values[0])):
            each = (v if _NUMBER.fullmatch(v) or v[0] in "\"'" else f'"{v}"' for v in values)
            raise self.refusal(
                "a file, or values in round brackets",
                f"Write the values as ({', '.join(each)}). The name of a file that looks like them "
                "goes in quotes.",
            )

    def _value(self) -> str | Decimal:
        before = self._skipped()
        text = self._quoted()
        if text is not None:
            if not text.strip():
                self._at = before
                raise self.refusal("a value", "An empty cell is missing: COLUMN is missing.")
            return text
        number = self._matched(
            _VALUE, lambda piece: Decimal(piece) if _NUMBER.fullmatch(piece) else None
        )
        if number is None:
            piece = _VALUE.match(self._text, before)
            word = piece[0] if piece and "=" not in piece[0] else "north"
            raise self.refusal("a number, or text in quotes", f'Put text in quotes: "{word}".')
        return number

    # -- characters --------------------------------------------------------------------------------

    def _skipped(self) -> int:
        """Return where the next character is that is no blank."""
        return _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]

    def _matched(self, pattern: re.Pattern[str], value: Callable[[str], T | None]) -> T | None:
        """Read on and return a value, if there is one of what matches; else None, and stay."""
        match = pattern.match(self._text, self._skipped())
        made = value(match[0]) if match else None
        if match is not None and made is not None:
            self._at = match.end()
        return made

    def _next_word(self) -> str:
        match = _NAME.match(self._text, self._skipped())
        return match[0].lower() if match else ""

    def _word(self, word: str) -> bool:
        return bool(self._matched(_NAME, lambda piece: piece.lower() == word or None))

    def _mark(self, mark: str) -> bool:
        return bool(self._matched(re.compile(re.escape(mark)), bool))

    def _quoted(self) -> str | None:
        """Return a text without its quotes; None where there is none."""

        def inside(piece: str) -> str:
            return piece[1:-1].replace(2 * piece[0], piece[0])

        text = self._matched(_TEXT, inside)
        if text is None and self._text[self._skipped() :][:1] in ('"', "'"):
            raise self.refusal("a quote that is closed", _QUOTING)
        return text

    def refusal(self, expected: str, advice: str = "") -> ValueError:
        """Return an error that shows where something else was expected."""
        at = self._skipped()
        first = max(0, at - _SHOWN)
        cut = self._text[first : at + _SHOWN]
        shown = "".join(letter if letter.isprintable() else " " for letter in cut)
        sign: Any = _SIGN.match(self._text, at) or re.match("[,;]", self._text[at:])
        own = _ADVICE.get(sign[0], "") if sign else ""
        return ValueError(
            f"`where` cannot be read from character {at + 1} on. Expected: {expected}.\n"
            f"    {shown}\n    {' ' * (at - first)}^\n{own or advice}".rstrip()
        )
