"""Headers of web servers' answers, and comparison with an earlier answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from fewpass.storage.redaction import without_queries, without_secrets
from fewpass.storage.source_files.checked import changed

GIVEN, PART, NO_SUCH_RANGE = 200, 206, 416
#: Content encodings, and the suffixes of files compressed in that way.
PACKINGS = {"": "", "identity": "", "gzip": ".gz", "x-gzip": ".gz", "zstd": ".zst"}
_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


class Reply(NamedTuple):
    """The headers of an answer."""

    status: int
    size: int | None  # of the whole file, as sent
    tag: str | None
    modified: str | None
    encoding: str
    begin: int | None  # of the range that follows
    end: int | None  # one behind its last byte
    says_its_end: bool  # otherwise a broken connection looks like the end

    @classmethod
    def of(cls, response: Any) -> Reply:
        """Read the headers of an answer."""
        headers: Mapping[str, str] = response.headers
        begin, end, size = _range(headers.get("Content-Range", ""))
        length = headers.get("Content-Length", "").strip()
        if response.status == GIVEN:
            size = int(length) if length.isdecimal() else None
        chunked = "chunked" in headers.get("Transfer-Encoding", "").lower()
        return cls(
            response.status, size, headers.get("ETag"),
            headers.get("Last-Modified"), headers.get("Content-Encoding", "").strip().lower(),
            begin, end, chunked or length.isdecimal(),
        )  # fmt: skip

    @property
    def refusal(self) -> str:
        """Reason for a failure; "" for a success."""
        failed = self.status >= 400 and self.status != NO_SUCH_RANGE
        return f"the server answers {self.in_words}" if failed else ""

    @property
    def in_words(self) -> str:
        """Status in the standard's words: a server's own words may repeat the address."""
        is_standard = self.status in HTTPStatus._value2member_map_
        return (
            f"{self.status} {HTTPStatus(self.status).phrase}" if is_standard else f"{self.status}"
        )

    @property
    def version(self) -> str | None:
        """Identifier of the file's version."""
        return self.tag or self.modified

    def require_given(self, name: str) -> None:
        """Raise if the file does not exist or must not be read."""
        if self.status in (404, 410):
            raise FileNotFoundError(f"{name}: no such file. Check the address.")
        if self.status in (401, 403, 407):
            raise PermissionError(
                f"{name} may not be read ({self.in_words}). Check the address and the credentials."
            )

    def require_same(self, first: Reply, name: str) -> None:
        """Raise SourceChanged if the answer is of another file than the first one."""
        for what, before, now in (
            ("ETag", first.tag, self.tag),
            ("time of change", first.modified, self.modified),
        ):
            if before and now:
                if before != now:
                    raise changed(name, f"{what} {before} at first, {now} now")
                break  # several servers of one file may differ in weaker identifiers
        if None not in (first.size, self.size) and first.size != self.size:
            raise changed(name, f"{first.size:,} bytes at first, {self.size:,} now")

    def other_than(self, start: int, end: int, first: Reply) -> str:
        """Return why the content is not the requested range; "" if it is."""
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
    """Describe a connection error without secrets."""
    return without_queries(without_secrets(str(error))) or type(error).__name__


def _range(header: str) -> tuple[int | None, int | None, int | None]:
    """Return first byte, end and size in a Content-Range header."""
    match = _RANGE.fullmatch(header.strip())
    if not match:
        return None, None, None
    size = None if match[3] == "*" else int(match[3])
    return (int(match[1]), int(match[2]) + 1, size) if match[1] else (None, None, size)
