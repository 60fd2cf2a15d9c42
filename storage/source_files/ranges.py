"""Remote files, read range by range; missing bytes are requested again a few times."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

from fewpass.storage.source_files.checked import ReadAnywhere, cut_short

#: Bytes per request: increasing while the file is read in order.
FIRST_BYTES, MOST_BYTES = 1 << 18, 8 << 20
#: Buffer size for readers of small parts.
BUFFER_BYTES = 1 << 16
#: Failed requests for a range, and requests for parts of it, before giving up.
IN_VAIN, IN_PARTS = 3, 40
WAIT_S = 0.2  # after the first failed request; four times as long after each further one


class RangeReply(NamedTuple):
    """The reply to a request for a range."""

    content: bytes | bytearray  # from its first byte on; possibly incomplete
    why: str = ""  # reason for missing bytes, if known


class Ranges(Protocol):
    """A file that is read by requests for ranges."""

    def part(self, start: int, end: int) -> RangeReply:
        """Request the bytes start to end - 1 once."""

    def require_same(self, *, whole: bool) -> None:
        """Raise SourceChanged if the file changed meanwhile; `whole`: it was read to its end."""

    def close(self) -> None:
        """Close the file."""


def fetched(ranges: Ranges, name: str, start: int, end: int) -> bytes | bytearray:
    """Return all bytes from start to end - 1.

    Raises
    ------
    CutShort
        Some of them cannot be fetched.
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
        self._window = b""  # frees its memory before the next one
        self._window, self._begin = fetched(self._ranges, self._name, at, end), at
        self._reached = max(self._reached, end)

    def require_same(self) -> None:
        self._ranges.require_same(whole=self._reached == self.size)

    def close(self) -> None:
        if not self.closed:
            self._window = b""
            self._ranges.close()
        super().close()
