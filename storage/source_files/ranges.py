"""Files elsewhere, read range by range; what does not come is asked for again, but not for ever."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

from fewpass.storage.source_files.checked import ReadAnywhere, cut_short

#: Bytes that are asked for at a time: more and more of them, as long as they are read in order.
FIRST_BYTES, MOST_BYTES = 1 << 18, 8 << 20
#: Bytes that readers of small parts are given at a time.
BUFFER_BYTES = 1 << 16
#: How often a range is asked for in vain, and in parts, before it is given up.
IN_VAIN, IN_PARTS = 3, 40
WAIT_S = 0.2  # after the first request in vain; four times as long after each one more


class RangeReply(NamedTuple):
    """What came of a range."""

    content: bytes | bytearray  # from its first byte on; fewer than were asked for, maybe
    why: str = ""  # of the rest, if somebody said so


class Ranges(Protocol):
    """A file that is asked for ranges."""

    def part(self, start: int, end: int) -> RangeReply:
        """Ask once for the bytes from `start` to before `end`."""

    def require_same(self, *, whole: bool) -> None:
        """Raise SourceChanged if the file changed meanwhile; `whole`: it was read to its end."""

    def close(self) -> None:
        """Let go of it."""


def fetched(ranges: Ranges, name: str, start: int, end: int) -> bytes | bytearray:
    """Return the bytes from `start` to before `end`, all of them.

    Raises
    ------
    CutShort
        When they do not come.
    """
    whole, why, vain = bytearray(), "", 0
    for _ in range(IN_PARTS):
        part = ranges.part(start + len(whole), end)
        if not whole and len(part.content) == end - start:
            return part.content
        whole += part.content
        if len(whole) == end - start:
            return whole
        vain, why = 0 if part.content else vain + 1, part.why or why
        if vain == IN_VAIN:
            break
        if vain:
            time.sleep(WAIT_S * 4 ** (vain - 1))
    because = f" ({why})" if why else ""
    raise cut_short(
        name, f"of the {end - start:,} bytes that were expected behind the first {start:,} came "
        f"{len(whole):,}, however often the rest was asked for{because}",
    )  # fmt: skip


class RangeFile(ReadAnywhere):
    """A file that is fetched in ranges while it is read."""

    def __init__(self, ranges: Ranges, name: str, size: int) -> None:
        super().__init__(size)
        self._ranges, self._name = ranges, name
        self._begin, self._ahead, self._reached = 0, FIRST_BYTES // 2, 0
        self._window: bytes | bytearray = b""

    def _copy(self, out: memoryview, at: int) -> int:
        end = self._begin + len(self._window)
        if not self._begin <= at < end:
            self._fetch(at, len(out), goes_on=at == end)
        content = memoryview(self._window)[at - self._begin :][: len(out)]
        out[: len(content)] = content
        return len(content)

    def _fetch(self, at: int, wanted: int, *, goes_on: bool) -> None:
        self._ahead = min(MOST_BYTES, 2 * self._ahead) if goes_on else FIRST_BYTES
        end = min(self.size, at + max(wanted, self._ahead))
        self._window = b""  # two of them would be twice the memory
        self._window, self._begin = fetched(self._ranges, self._name, at, end), at
        self._reached = max(self._reached, end)

    def require_same(self) -> None:
        """Refuse a file that changed while it was read."""
        self._ranges.require_same(whole=self._reached == self.size)

    def close(self) -> None:
        """Let go of the file and of what was fetched."""
        if not self.closed:
            self._window = b""
            self._ranges.close()
        super().close()
