"""Local copies of streamed files, for formats that need random access."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import IO, Any

from fewpass.storage.source_files.checked import ReadAnywhere, cut_short

MOST_BYTES = 1 << 30  # largest file that is copied by default
_COPIED_BYTES = 1 << 20
ADVICE = "Fetch the file, and read that."


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
