"""Sources on web servers of any quality.

The first request is for one byte: the answer has the size, the version, and whether the server
supports ranges.  With ranges, the file is read range by range, each answer compared with the
request; without, as a stream, or through a local copy for formats that need random access.
"""

from __future__ import annotations

from typing import Any

from fewpass.storage.source_files.checked import Checked, cut_short
from fewpass.storage.source_files.ranges import BUFFER_BYTES, RangeFile, RangeReply
from fewpass.storage.source_files.web_reply import GIVEN, PACKINGS, PART, Reply, fault
from fewpass.storage.source_files.web_stream import Spool, SpoolFile, StreamFile

CONNECT_S, READ_S = 30.0, 60.0  # timeouts for an answer, and between two bytes


class WebSource:
    """A file of a web server; see `OpenableFile`.

    Parameters
    ----------
    store
        fsspec's file system of http.
    url, name
        Its address, and the same without secrets.

    Attributes
    ----------
    first
        The server's first answer.

    Raises
    ------
    FileNotFoundError, PermissionError
        The server has no such file, or does not give it.
    CutShort
        Another answer that is of no use.
    """

    def __init__(self, store: Any, url: str, name: str) -> None:
        self._store, self._url, self.name = store, url, name
        self.first = self._reply()
        self.size, self.version = self.first.size, self.first.version
        self.packing = self._packing()
        self._spool: Spool | None = None

    def open(self, *, anywhere: bool) -> Checked:
        if self.first.status == PART and self.size is not None:
            return Checked(RangeFile(self, self.name, self.size), BUFFER_BYTES)
        if not anywhere:
            return Checked(StreamFile(self), BUFFER_BYTES)
        if self._spool is None:
            self._spool = Spool(StreamFile(self), self.name, self.size)
        return Checked(SpoolFile(self._spool), BUFFER_BYTES)

    # -- asking ------------------------------------------------------------------------------------

    async def answer(self, start: int = 0, end: int | None = None) -> Any:
        """Request a range, or the whole file; return the open response, undecoded."""
        import aiohttp  # noqa: PLC0415 - who reads nothing of the web need not have it

        options = dict(self._store.kwargs)
        headers = {**options.pop("headers", {}), "Accept-Encoding": "identity"}
        if end is not None:
            headers["Range"] = f"bytes={start}-{end - 1}"
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=READ_S)
        options = {"timeout": limits, "auto_decompress": False, **options, "headers": headers}
        session = await self._store.set_session()
        return await session.get(self._store.encode_url(self._url), **options)

    def wait_for(self, work: Any, *arguments: Any) -> Any:
        """Run a coroutine in the thread of the store's connections."""
        from fsspec.asyn import sync  # noqa: PLC0415 - a path on this machine needs none of it

        return sync(self._store.loop, work, *arguments)

    def _reply(self) -> Reply:
        for limits in ((0, 1), (0, None)):  # some servers cannot handle ranges
            reply: Reply = self.wait_for(self._head, *limits)
            reply.require_given(self.name)
            if reply.status == GIVEN or (
                reply.size is not None and (reply.status == PART or reply.size == 0)
            ):
                return reply
        raise cut_short(self.name, reply.refusal or f"status {reply.status} came for the file")

    async def _head(self, start: int, end: int | None) -> Reply:
        import aiohttp  # noqa: PLC0415 - as above

        try:
            async with await self.answer(start, end) as response:
                return Reply.of(response)
        except aiohttp.ClientConnectionError as error:
            raise FileNotFoundError(fault(error)) from None

    def _packing(self) -> str:
        """Return how the server compresses the file for transfer; "" if its name says so, too."""
        packing = PACKINGS.get(self.first.encoding)
        if packing is None:
            raise cut_short(
                self.name, f'the server sends it encoded as "{self.first.encoding}", though it was '
                "asked for as it is", "Fetch the file, and read that.",
            )  # fmt: skip
        return "" if packing and self.name.lower().endswith(packing) else packing

    # -- ranges ------------------------------------------------------------------------------------

    def part(self, start: int, end: int) -> RangeReply:
        part: RangeReply = self.wait_for(self._part, start, end)
        return part

    async def _part(self, start: int, end: int) -> RangeReply:
        """Request a range, and return the bytes received, if they are of that range."""
        import aiohttp  # noqa: PLC0415 - as above

        came = bytearray()
        try:
            async with await self.answer(start, end) as response:
                reply = Reply.of(response)
                reply.require_given(self.name)
                reply.require_same(self.first, self.name)
                if why := reply.other_than(start, end, self.first):
                    return RangeReply(b"", why)
                while len(came) < end - start:
                    content = await response.content.read(end - start - len(came))
                    if not content:
                        break
                    came += content
        except (aiohttp.ClientError, TimeoutError) as error:
            return RangeReply(came, fault(error))
        return RangeReply(came)

    def require_same(self, *, whole: bool) -> None:
        """Do nothing: every answer was compared."""

    def close(self) -> None:
        """Do nothing: no connection is kept."""
