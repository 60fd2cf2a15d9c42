"""A web server of this machine that serves one file, well or badly, for tests."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """One request for the file, and what a good server would answer."""

    number: int  # of the requests for more than one byte, from 1
    content: bytes
    start: int | None  # None: the whole file
    end: int  # one behind the last byte

    @property
    def part(self) -> bytes:
        """What was asked for."""
        return self.content[self.start or 0 : self.end]


class Answer(NamedTuple):
    """What a server sends."""

    status: int
    body: bytes
    headers: dict[str, str]
    sent: int | None = None  # bytes of the body before the connection breaks; None: all of it


def good(asked: Asked, tag: str = '"1"', **more: str) -> Answer:
    """Answer as one should."""
    headers = {"ETag": tag, **{name.replace("_", "-"): value for name, value in more.items()}}
    if asked.start is None:
        return Answer(200, asked.content, headers)
    last = asked.start + len(asked.part) - 1
    headers["Content-Range"] = f"bytes {asked.start}-{last}/{len(asked.content)}"
    return Answer(206, asked.part, headers)


def no_ranges(asked: Asked) -> Answer:
    """Send all whatever is asked for, and its length."""
    return Answer(200, asked.content, {"ETag": '"1"'})


def chunked(asked: Asked) -> Answer:
    """Send all in chunks, without a length."""
    return Answer(200, asked.content, {"Transfer-Encoding": "chunked"})


def endless(asked: Asked) -> Answer:
    """Send all, and say neither how long it is nor where it ends."""
    return Answer(200, asked.content, {"Content-Length": ""})


def no_head(asked: Asked) -> Answer:
    """Send ranges; the server refuses HEAD of this one."""
    return good(asked)


def packed(asked: Asked) -> Answer:
    """Compress the file on its way, ranges and all, though it was asked not to."""
    content = gzip.compress(asked.content, mtime=0)
    start, end = asked.start, min(asked.end, len(content))
    return good(asked._replace(content=content, start=start, end=end), Content_Encoding="gzip")


def short(asked: Asked) -> Answer:
    """Send two thirds of each range, and say so."""
    if asked.start is None:
        return good(asked)
    return good(asked._replace(end=asked.start + max(1, len(asked.part) * 2 // 3)))


def breaks_now_and_then(asked: Asked) -> Answer:
    """Break the connection in the middle of every second answer."""
    whole = good(asked)
    return whole._replace(sent=len(whole.body) // 2) if asked.number % 2 else whole


def empty(asked: Asked) -> Answer:
    """Answer later ranges with nothing."""
    return good(asked)._replace(body=b"") if asked.start else good(asked)


def beyond(asked: Asked) -> Answer:
    """Say of later ranges that there are none: the file was replaced by a shorter one."""
    there = len(asked.content) // 3
    if not asked.start:
        return good(asked)
    return Answer(416, b"", {"Content-Range": f"bytes */{there}"})


def no_such_range(asked: Asked) -> Answer:
    """Say of later ranges that there are none, and nothing else."""
    return Answer(416, b"", {}) if asked.start else good(asked)


def shifted(asked: Asked) -> Answer:
    """Send the bytes behind those asked for, and say so."""
    if not asked.start:
        return good(asked)
    return good(asked._replace(start=asked.start + 3, end=asked.end + 3))


def unsaid(asked: Asked) -> Answer:
    """Send the bytes behind those asked for, and do not say which they are."""
    if not asked.start:
        return good(asked)
    return Answer(206, asked.content[asked.start + 3 : asked.end + 3], {})


def whole_for_a_part(asked: Asked) -> Answer:
    """Send the whole file where a later part is asked for."""
    return Answer(200, asked.content, {"ETag": '"1"'}) if asked.start else good(asked)


def breaks(asked: Asked) -> Answer:
    """Know no ranges, and break the connection after two thirds."""
    return no_ranges(asked)._replace(sent=len(asked.content) * 2 // 3)


def breaks_ranges(asked: Asked) -> Answer:
    """Break the connection before the first byte of every later range."""
    return good(asked)._replace(sent=0) if asked.start else good(asked)


def breaks_chunks(asked: Asked) -> Answer:
    """Send chunks, and break the connection after two thirds."""
    return chunked(asked)._replace(sent=len(asked.content) * 2 // 3)


def lies(asked: Asked) -> Answer:
    """Announce more bytes than there are."""
    return Answer(200, asked.content, {"Content-Length": str(len(asked.content) + 999)})


def changes(asked: Asked) -> Answer:
    """Be another file of the same size from the second request on, by its tag."""
    return good(asked, tag=f'"{min(asked.number, 2)}"')


def changes_in_time(asked: Asked) -> Answer:
    """Be another file of the same size from the second request on, by its time of change."""
    return good(asked, "", Last_Modified=f"Thu, 0{min(asked.number, 2)} Jan 2026 00:00:00 GMT")


def changes_in_size(asked: Asked) -> Answer:
    """Be a longer file from the second request on, of which nothing else is said."""
    if asked.number > 1:
        asked = asked._replace(content=asked.content + asked.content)
    return good(asked, "")


def fails(asked: Asked) -> Answer:
    """Answer later ranges with an error of the server."""
    return Answer(503, b"", {}) if asked.start else good(asked)


def vanishes(asked: Asked) -> Answer:
    """Have no such file from the second request on."""
    return good(asked) if asked.number < 2 else Answer(404, b"", {})


#: What must be read as if nothing were amiss, and what must be refused by name.
TAKEN = (
    good, no_ranges, chunked, no_head, packed, short, breaks_now_and_then, empty, beyond,
    no_such_range, shifted, unsaid, whole_for_a_part, breaks_ranges, changes, changes_in_time,
    changes_in_size, fails, vanishes,
)  # fmt: skip
REFUSED = (breaks, breaks_chunks, lies, endless)


class WebServer(ThreadingHTTPServer):
    """Serves one file under any name.

    Parameters
    ----------
    content
        The file; it may be exchanged.
    answer
        How requests are answered.
    """

    daemon_threads = True

    def __init__(self, content: bytes, answer: Any = good) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content, self.answer, self.count = content, answer, 0

    def url(self, name: str) -> str:
        """Return the address of the file under a name."""
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def handle_error(self, *_: Any) -> None:
        """Say nothing of those who hang up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: WebServer

    def do_GET(self) -> None:
        self._send(self.server.answer(self._asked()), body=True)

    def do_HEAD(self) -> None:
        if self.server.answer is no_head:
            self._send(Answer(405, b"", {}), body=False)
        else:
            self._send(self.server.answer(self._asked()), body=False)

    def _asked(self) -> Asked:
        content = self.server.content
        found = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not found:
            return Asked(self._numbered(), content, None, len(content))
        start, last = int(found[1]), int(found[2] or len(content) - 1)
        number = 1 if last == start else self._numbered()
        return Asked(number, content, start, last + 1)

    def _numbered(self) -> int:
        self.server.count += 1
        return self.server.count

    def _send(self, answer: Answer, *, body: bool) -> None:
        headers = {"Content-Length": str(len(answer.body)), **answer.headers}
        is_chunked = "Transfer-Encoding" in headers
        if is_chunked or not headers["Content-Length"]:
            del headers["Content-Length"]
        self.send_response(answer.status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if body:
            self._send_body(answer, is_chunked=is_chunked)
        self.close_connection = (
            answer.sent is not None
            or not (is_chunked or "Content-Length" in headers)
            or int(headers.get("Content-Length", 0)) > len(answer.body)
        )

    def _send_body(self, answer: Answer, *, is_chunked: bool) -> None:
        sent = answer.body if answer.sent is None else answer.body[: answer.sent]
        if not is_chunked:
            self.wfile.write(sent)
            return
        if sent:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(sent), sent))
        if answer.sent is None:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def web_server(content: bytes, answer: Any = good) -> Iterator[WebServer]:
    """Serve a file while the block lasts."""
    with WebServer(content, answer) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()
