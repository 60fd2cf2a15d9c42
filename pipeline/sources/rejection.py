"""Bad rows: refused with an error, or skipped with a record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pipeline.errors import BadInput
from pipeline.sources.source import LISTED, BadRow

#: Characters of an offending value that a message shows.
_SHOWN = 40

SKIP_ADVICE = "or drop such rows (`on_bad_row=skip`)."


def shown(value: str | bytes) -> str:
    """Value as a message quotes it: on one line, printable, not too long."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    quoted = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"'{quoted[:_SHOWN]}...'" if len(quoted) > _SHOWN else f"'{quoted}'"


def settle(
    faults: Iterable[tuple[int, str, str]],
    file: str,
    mode: Literal["refuse", "skip"],
    unit: Literal["line", "row"] = "line",
) -> tuple[BadRow, ...]:
    """Refuse the first of the faults (line, fact, advice), or list them.

    Raises
    ------
    BadInput
        When there is one, and `mode` is refuse.
    """
    listed: list[BadRow] = []
    for line, fact, advice in faults:
        if mode == "refuse":
            raise BadInput(f"{file}, {unit} {line}: {fact}. {advice}")
        if len(listed) == LISTED:
            break
        listed.append(BadRow(file, line, fact))
    return tuple(listed)
