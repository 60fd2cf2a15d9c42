"""Objects in any file system of fsspec: one put writes one object."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from threading import Lock
from typing import IO, TYPE_CHECKING, Any

from fewpass.storage.addresses import open_store, protocol_of, require_writable
from fewpass.storage.local_files import ReadAt, ReadObject
from fewpass.storage.source_file import is_page

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it from Python 3.12

PIECE_BYTES = 16 << 20  # of an object that is written piece by piece


@contextlib.contextmanager
def stored_stream(
    store: Any, path: str, before: Callable[[], None] = lambda: None
) -> Iterator[IO[bytes]]:
    """Yield a stream; its content is stored at the end, unless the block or `before` fails."""
    if store.protocol == "memory":  # shows unfinished files
        whole = io.BytesIO()
        yield whole
        before()
        store.pipe_file(path, whole.getvalue())
        return
    target = store.open(path, "wb", autocommit=False)
    try:
        yield target
        target.close()
        before()
    except BaseException:
        with contextlib.suppress(ValueError):  # closed by a writer that failed while closing
            target.close()
        target.discard()
        raise
    target.commit()


#: fsspec's store in memory is one dictionary, which it goes through to list and to delete.
_IN_MEMORY = Lock()


class RemoteFiles:
    """The remote half of `Folder`; see there for the meaning of the methods."""

    def __init__(self, url: str, storage_options: dict[str, Any]) -> None:
        self._url, self._protocol = url, protocol_of(url)
        self._fs, root = open_store(url, storage_options)
        self._root = root.rstrip("/")
        self._alone = _IN_MEMORY if self._protocol == "memory" else contextlib.nullcontext()

    def address(self, key: str) -> str:
        """Return the address of an object, for messages."""
        return f"{self._url}/{key}" if key else self._url

    def read(self, key: str, expected: int | None = None) -> bytes:
        """Return the content of an object; of one longer than expected maybe one byte more only."""
        data = self._whole(key) if expected is None else self._range(key, expected + 1)
        if is_page(data):
            raise OSError(
                "a page of the web came in its place, as where a login is asked for, or the "
                "address is another"
            )
        return data

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Return a part of an object, in one request; fewer bytes where it ends before."""
        try:
            data: bytes = self._fs.cat_file(self._path(key), start=start, end=start + length)
        except FileNotFoundError:
            raise
        except (OSError, ValueError):  # an object that ends before has no such range
            return b"" if self.size(key) <= start else self._whole(key)[start : start + length]
        if len(data) > length:  # web servers may answer with all of it
            return data[start : start + length]
        return data

    def _whole(self, key: str) -> bytes:
        data: bytes = self._fs.cat_file(self._path(key))
        return data

    def _range(self, key: str, stop: int) -> bytes:
        """Read the first bytes, in one request: of a whole object stores first ask for its size."""
        try:
            data: bytes = self._fs.cat_file(self._path(key), start=0, end=stop)
        except FileNotFoundError:
            raise
        except (OSError, ValueError):  # an empty object has no such range
            return self._whole(key)
        return data

    def read_into(self, key: str, *buffers: memoryview) -> ReadObject:
        """Fill the buffers from the object, one after the other."""
        wanted = sum(map(len, buffers))
        data = self.read(key, wanted)
        _copy(data, buffers)
        return ReadObject(len(data) if len(data) <= wanted else self.size(key))

    def read_range_into(self, key: str, start: int, *buffers: memoryview) -> int:
        """Fill the buffers from byte `start` on, in one request; return how many bytes came."""
        data = self.read_range(key, start, sum(map(len, buffers)))
        _copy(data, buffers)
        return len(data)

    @contextlib.contextmanager
    def opened(self, key: str) -> Iterator[ReadAt]:
        """Yield what reads of an object, each part by a request."""
        yield lambda start, out: self.read_range_into(key, start, out)

    def prefetch(self, key: str) -> None:
        """Do nothing: fetching twice would cost more than waiting."""

    def write(self, key: str, pieces: Iterable[Buffer], *, durable: bool) -> None:  # noqa: ARG002  a put is durable
        """Put an object; a large one goes up piece by piece, so that there is no copy of it."""
        store, parts = self._writable(), _in_pieces(pieces)
        first, size = list[memoryview](), 0
        for part in parts:
            first, size = [*first, part], size + len(part)
            if size > PIECE_BYTES:
                break
        else:
            with self._alone:
                store.pipe_file(self._path(key), b"".join(first))
            return
        with stored_stream(store, self._path(key)) as target:
            for part in itertools.chain(first, parts):
                target.write(part)

    def write_part(self, key: str, start: int, data: Buffer) -> None:
        """Put the part as an object of its own, named by its first byte."""
        self.write(f"{key}/{start:012d}", [data], durable=True)

    def read_part(self, key: str, start: int, out: memoryview) -> int:
        """Fill `out` from the object of the part; return how many bytes came."""
        return self.read_into(f"{key}/{start:012d}", out).size

    def create(self, key: str, data: Buffer, *, durable: bool) -> None:  # noqa: ARG002  likewise
        """Put an object unless it exists; with two concurrent writers the store decides."""
        store = self._writable()
        store.invalidate_cache()
        with self._alone:
            store.pipe_file(self._path(key), bytes(data), mode="create")

    def append(self, key: str, data: bytes) -> None:
        """Read, extend, put: object stores cannot append."""
        self._writable()
        before = b""
        with contextlib.suppress(FileNotFoundError):
            before = self.read(key)
        self.write(key, [before + data], durable=True)

    def size(self, key: str) -> int:
        """Return the size of the object in bytes."""
        # Another process may have written since this one last listed.
        self._fs.invalidate_cache()
        info = self._fs.info(self._path(key))
        if info["type"] != "file":
            raise FileNotFoundError(key)
        size = info["size"]
        return len(self.read(key)) if size is None else int(size)  # some web servers do not say

    def sizes(self, keys: Collection[str]) -> dict[str, int]:
        """Return the sizes of those objects that exist, by one listing of each of their folders."""
        self._fs.invalidate_cache()
        wanted, sizes = set(keys), dict[str, int]()
        for folder in sorted({key.rpartition("/")[0] for key in wanted}):
            with self._alone, contextlib.suppress(FileNotFoundError):
                for info in self._fs.ls(self._path(folder), detail=True):
                    key = f"{folder}/{info['name'].rpartition('/')[2]}".lstrip("/")
                    if key in wanted and info["type"] == "file":
                        sizes[key] = int(info["size"])
        return sizes

    def list(self, prefix: str) -> list[str]:
        """Return the objects below `prefix`."""
        self._fs.invalidate_cache()
        try:
            with self._alone:
                paths = self._fs.find(self._path(prefix))
        except FileNotFoundError:
            return []
        start = len(self._root) + 1
        return [path[start:] for path in paths if path[: start - 1] == self._root]

    def names(self) -> Sequence[str]:
        """Return the names of objects, and what others begin with up to a slash."""
        self._fs.invalidate_cache()
        try:
            with self._alone:
                paths = self._fs.ls(self._root, detail=False)
        except FileNotFoundError:
            return ()
        return [path.rstrip("/").rpartition("/")[2] for path in paths]

    def delete(self, key: str) -> None:
        """Delete an object."""
        with self._alone, contextlib.suppress(FileNotFoundError):
            self._writable().rm_file(self._path(key))

    def delete_tree(self, prefix: str) -> None:
        """Delete all objects below `prefix`."""
        store = self._writable()
        store.invalidate_cache()
        with self._alone, contextlib.suppress(FileNotFoundError):
            store.rm(self._path(prefix), recursive=True)

    def delete_partials(self) -> None:
        """Do nothing: a put leaves no partial object."""

    def _writable(self) -> Any:
        require_writable(self._protocol)
        return self._fs

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}" if key else self._root


def _in_pieces(buffers: Iterable[Buffer]) -> Iterator[memoryview]:
    """Yield the bytes of buffers in pieces of at most 16 MiB."""
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            yield view[start : start + PIECE_BYTES]


def _copy(data: bytes, buffers: Sequence[memoryview]) -> None:
    """Copy bytes into buffers, one after the other, as far as they reach."""
    source, done = memoryview(data), 0
    for buffer in buffers:
        part = source[done : done + len(buffer)]
        buffer[: len(part)] = part
        done += len(part)
