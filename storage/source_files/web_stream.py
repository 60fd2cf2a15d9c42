"""Files of web servers without ranges: read from the first byte, again after an interruption."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import time
import weakref
from typing import IO, TYPE_CHECKING, Any

from fewpass.storage.source_files.checked import ReadAnywhere, cut_short
from fewpass.storage.source_files.ranges import IN_VAIN, WAIT_S
from fewpass.storage.source_files.web_reply import GIVEN, Reply, fault

MOST_BYTES = 1 << 30  # largest file that is copied by default
_COPIED_BYTES = 1 << 20
ADVICE = "Fetch the file, and read that."
_PASSED_BYTES = 1 << 16  # per read, when skipping bytes that were read before

if TYPE_CHECKING:
    from fewpass.storage.source_files.web import WebSource


class StreamFile(io.RawIOBase):
    """A file that is read in order up to its end.

    Parameters
    ----------
    source
        The file.
    """

    def __init__(self, source: WebSource) -> None:
        super().__init__()
        self._source, self._at, self._vain = source, 0, 0
        self._response: Any = None
        self._ended = False

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, out: Any) -> int:
        """Read bytes; after an interruption request the file once more, from the beginning."""
        while not self._ended:
            content, why = self._source.wait_for(self._read, len(out))
            if content:
                self._vain = 0
                self._at += len(content)
                out[: len(content)] = content
                return len(content)
            self._ended = not why
            if why:
                self._hang_up()
                self._again_or_never(why)
        return 0

    def _again_or_never(self, why: str) -> None:
        self._vain += 1
        if self._vain == IN_VAIN:
            raise self._cut_short(why)
        time.sleep(WAIT_S * 4 ** (self._vain - 1))

    async def _read(self, most: int) -> tuple[bytes, str]:
        """Return some bytes, none at the end, and the reason if the end is premature."""
        import aiohttp  # noqa: PLC0415 - who reads nothing of the web need not have it

        try:
            if self._response is None and (why := await self._begin()):
                return b"", why
            content = await self._response.content.read(most)
        except (aiohttp.ClientError, TimeoutError) as error:
            return b"", fault(error)
        size = self._source.size
        early = not content and size is not None and self._at < size
        return content, "the connection ended" if early else ""

    async def _begin(self) -> str:
        """Request the file, and skip the bytes read before; return the reason of a failure."""
        source = self._source
        self._response = await source.answer()
        reply = Reply.of(self._response)
        reply.require_given(source.name)
        reply.require_same(source.first, source.name)
        if reply.refusal or reply.status != GIVEN or reply.encoding != source.first.encoding:
            return reply.refusal or "the answers of the server differ"
        left = self._at
        while left:
            passed = await self._response.content.read(min(left, _PASSED_BYTES))
            if not passed:
                return "the connection ended"
            left -= len(passed)
        return ""

    def _cut_short(self, why: str) -> Exception:
        size = self._source.size
        expected = "more were to come" if size is None else f"{size:,} were expected"
        return cut_short(
            self._source.name, f"{self._at:,} bytes came where {expected}, {IN_VAIN} times ({why})"
        )

    def require_same(self) -> None:
        """Do nothing: every answer was compared."""

    def close(self) -> None:
        if not self.closed:
            self._hang_up()
        super().close()

    def _hang_up(self) -> None:
        if self._response is not None:
            self._source.wait_for(_closed, self._response)
            self._response = None


async def _closed(response: Any) -> None:
    response.close()


# -- local copies, for formats that need random access ---------------------------------------------


class Spool:
    """A copy in the temporary folder, without a name: it is deleted with this process.

    Parameters
    ----------
    stream
        The stream to copy and close.
    name, size
        Its name without secrets, and its bytes, if known.

    Raises
    ------
    CutShort
        It has more bytes than the limit, or is incomplete.
    """

    def __init__(self, stream: Any, name: str, size: int | None) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it goes with this object
        weakref.finalize(self, self.file.close)
        self.size = 0
        most = min(MOST_BYTES, shutil.disk_usage(tempfile.gettempdir()).free // 2)
        with stream:
            while self.size <= most and (size or 0) <= most:
                content = stream.read(_COPIED_BYTES)
                if not content:
                    break
                self.file.write(content)
                self.size += len(content)
            else:
                raise cut_short(
                    name, "the server knows no ranges, which its format is read by, and it has "
                    f"more than the {most:,} bytes that are copied to {tempfile.gettempdir()}",
                    ADVICE,
                )  # fmt: skip
        self.file.flush()


class SpoolFile(ReadAnywhere):
    """An open copy; there may be several at once."""

    def __init__(self, spool: Spool) -> None:
        super().__init__(spool.size)
        self._spool = spool

    def _copy(self, out: memoryview, at: int) -> int:
        return os.preadv(self._spool.file.fileno(), [out], at)
