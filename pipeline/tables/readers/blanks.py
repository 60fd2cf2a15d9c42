"""Text whose cells stand between runs of blanks, as in the tables of R and Fortran."""

from __future__ import annotations

import numpy as np

from fewpass.pipeline.tables.readers.characters import NEWLINE, QUOTE, RETURN, SPACE, TAB
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Bytes

_NO_BYTE = 256
#: Lines that show whether cells stand between blanks.
_LINES = 100


@kernel
def _put_tabs(text: Bytes, quote: int, out: Bytes) -> int:
    """Copy text with one tab for every run of blanks inside a line; return how much that is."""
    n, waits, begun, quoted = 0, False, False, False
    for at in range(text.size):
        c = text[at]
        if c == NEWLINE:
            out[n] = c
            n, waits, begun, quoted = n + 1, False, False, False
        elif not quoted and (c == SPACE or c == TAB or c == RETURN):  # noqa: PLR1714, SIM109 -- `in` builds a set
            waits = begun
        else:
            if waits:
                out[n] = TAB
                n += 1
            if c == quote and (quoted or waits or not begun):
                quoted = not quoted
            out[n] = c
            n, waits, begun = n + 1, False, True
    return n


def by_tabs(text: Bytes, quotes: bool) -> Bytes:
    """Return whole lines with a tab between cells; those in double quotes end on their line."""
    out = np.empty_like(text)
    return out[: _put_tabs(text, QUOTE if quotes else _NO_BYTE, out)]


def looks_spaced(head: bytes) -> bool:
    """Say whether the first lines have no other delimiter, but all the same number of blanks."""
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()][:_LINES]
    if len(lines) < 2 or any(mark in lines[0] for mark in (b",", b";", b"|", b"\t")):
        return False
    counts = {by_tabs(np.frombuffer(line, np.uint8), True).tobytes().count(b"\t") for line in lines}
    return len(counts) == 1 and counts != {0}
