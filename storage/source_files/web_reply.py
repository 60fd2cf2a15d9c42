"""What web servers answer: the head of an answer, and how it compares with an earlier one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from fewpass.storage.redaction import without_queries, without_secrets
from fewpass.storage.source_files.checked import changed

GIVEN, PART, NO_SUCH_RANGE = 200, 206, 416
#: What a server may have packed a file by, and the ending of files that are packed so.
PACKINGS = {"": "", "identity": "", "gzip": ".gz", "x-gzip": ".gz", "zstd": ".zst"}
_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


class Reply(NamedTuple):
    """The head of an answer."""

    status: int
    size: int | None  # of the whole file, as it is sent
    tag: str | None
    modified: str | None
    encoding: str
    begin: int | None  # of the range that follows
    end: int | None  # one behind its last byte
    says_its_end: bool  # else a connection that breaks looks like the end

    @classmethod
    def of(cls, response: Any) -> Reply:
        """Read the head of an answer."""
        told: Mapping[str, str] = response.headers
        begin, end, size = _range(told.get("Content-Range", ""))
        length = told.get("Content-Length", "").strip()
        if response.status == GIVEN:
            size = int(length) if length.isdecimal() else None
        chunked = "chunked" in told.get("Transfer-Encoding", "").lower()
        return cls(
            response.status, size, told.get("ETag"),
            told.get("Last-Modified"), told.get("Content-Encoding", "").strip().lower(),
            begin, end, chunked or length.isdecimal(),
        )  # fmt: skip

    @property
    def refusal(self) -> str:
        """Why nothing came, in words; nothing where something did."""
        failed = self.status >= 400 and self.status != NO_SUCH_RANGE
        return f"the server answers {self.in_words}" if failed else ""

    @property
    def in_words(self) -> str:
        """Its status as the standard calls it: a server's own words may repeat the address."""
        known = self.status in HTTPStatus._value2member_map_
        return f"{self.status} {HTTPStatus(self.status).phrase}" if known else f"{self.status}"

    @property
    def version(self) -> str | None:
        """What says which version of the file this is."""
        return self.tag or self.modified

    def require_given(self, name: str) -> None:
        """Raise where there is no such file, or it is not given."""
        if self.status in (404, 410):
            raise FileNotFoundError(f"{name}: no such file. Check the address.")
        if self.status in (401, 403, 407):
            raise PermissionError(
                f"{name} may not be read ({self.in_words}). Check the address and the credentials."
            )

    def require_same(self, first: Reply, name: str) -> None:
        """Raise SourceChanged where another file is answered with than at first."""
        for what, before, now in (
            ("ETag", first.tag, self.tag),
            ("time of change", first.modified, self.modified),
        ):
            if before and now:
                if before != now:
                    raise changed(name, f"{what} {before} at first, {now} now")
                break  # servers of one file may differ in what is weaker
        if None not in (first.size, self.size) and first.size != self.size:
            raise changed(name, f"{first.size:,} bytes at first, {self.size:,} now")

    def other_than(self, start: int, end: int, first: Reply) -> str:
        """Say why what follows is not the range that was asked for; nothing where it is."""
        if self.refusal or self.status == NO_SUCH_RANGE:
            return self.refusal or "the server says that there is no such range"
        if self.encoding != first.encoding:
            return f'it came encoded as "{self.encoding}"'
        if self.status == GIVEN:
            from_its_beginning = start == 0 and self.size == first.size
            return "" if from_its_beginning else "the whole file came where a part was asked for"
        if self.begin is None or self.end is None:
            return "the server does not say which bytes it sends"
        if self.begin != start or self.end > end:
            asked, came = f"{start:,} to {end - 1:,}", f"{self.begin:,} to {self.end - 1:,}"
            return f"bytes {came} came where {asked} were asked for"
        return ""


def fault(error: BaseException) -> str:
    """Say what broke a connection, without what may be secret."""
    return without_queries(without_secrets(str(error))) or type(error).__name__


def _range(told: str) -> tuple[int | None, int | None, int | None]:
    """Return first byte, end and size of the file that a Content-Range tells."""
    found = _RANGE.fullmatch(told.strip())
    if not found:
        return None, None, None
    size = None if found[3] == "*" else int(found[3])
    return (int(found[1]), int(found[2]) + 1, size) if found[1] else (None, None, size)
