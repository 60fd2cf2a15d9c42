"""Files that paths, addresses and globs name, with their sizes and versions."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from fewpass.pipeline.budget import UNTOLD, Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.formats import (
    COMPRESSIONS,
    DESCRIPTIONS,
    MARKS,
    STANDARD_INPUT_WORDS,
    server_format,
)
from fewpass.pipeline.tables.readers.source import SourceFile
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT, StandardInput
from fewpass.storage.addresses import READ_ONLY, open_store, protocol_of
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import OWN, instead, kind_of
from fewpass.storage.locations import Location
from fewpass.storage.redaction import shown_address, without_queries, without_secrets
from fewpass.storage.source_file import (
    CutShort,
    LocalFile,
    SourceChanged,
    StoreFile,
    VersionedFile,
    WebCopy,
)

_HIDDEN = re.compile(r"/[._]")
_DESCRIBED = "metadata/*.metadata.json"  # in the folder of a table of Iceberg


class Address(NamedTuple):
    """One stored file, or a table that is found by its place."""

    store: Any  # an fsspec file system; None: its own library reaches it
    path: str  # in the store
    name: str  # full path or URL, without secrets: for messages and manifests
    size: int | None  # bytes as stored
    charset: str | None = None  # of its text; None: UTF-8, or UTF-16 where its mark says so
    spaced: bool = False  # whether cells of its text stand between runs of blanks
    quotes: bool = True  # whether double quotes enclose them
    budget: Budget = UNTOLD  # that memory has for what it makes us have
    file: VersionedFile | None = None  # how it is opened; None: by the store, as it is
    format: str | None = None  # that its place tells; None: its name or content does
    head: Any = None  # its first lines, where they were read (lines.with_head)

    @property
    def compression(self) -> str:
        """`.gz` and the like, or nothing."""
        suffix = PurePosixPath(self.name).suffix.lower()
        packing = self.file.packing if self.file else ""
        return packing or (suffix if suffix in COMPRESSIONS else "")

    @property
    def extension(self) -> str:
        """The name's suffix without that of the compression: `.csv` for `a.csv.gz`."""
        path = PurePosixPath(self.name)
        packed = path.suffix.lower() in COMPRESSIONS
        return (path.with_suffix("") if packed else path).suffix.lower()

    @property
    def is_local(self) -> bool:
        """Return whether the operating system can open it by path."""
        return _is_local(self.store)


def find(
    specs: Sequence[str], storage_options: dict[str, Any] | None = None, *, inbox: bool = False
) -> list[Address]:
    """Files that the paths, URLs and globs name, in their order; a glob's own files sorted.

    Parameters
    ----------
    specs, storage_options
        What to look for, and the options of fsspec.
    inbox
        Whether files come and go there: what a store listed earlier does not count, empty files and
        folders are found, too, and what has vanished from a glob or a folder is not.

    Raises
    ------
    FileNotFoundError
        A path that does not exist, or a glob that fits nothing; of an inbox, a glob in a folder
        that does not exist.
    BadInput
        No path at all, a folder, or an empty file.
    """
    options = storage_options or {}
    addresses = [one for spec in specs for one in _expand(spec, options, inbox=inbox)]
    if inbox:
        return addresses
    if not addresses:
        raise BadInput("No source was named. Give at least one file.")
    for address in addresses:
        if address.size == 0:
            raise empty_file(address.name)
    return addresses


def _expand(spec: str, storage_options: dict[str, Any], *, inbox: bool) -> Iterator[Address]:
    if spec in STANDARD_INPUT_WORDS:
        yield Address(StandardInput(), spec, STANDARD_INPUT, None)
        return
    if (word := server_format(spec)) is not None:
        yield Address(None, spec, shown_address(spec), None, format=word)
        return
    is_web = protocol_of(spec) in READ_ONLY
    store, path = open_store(spec, storage_options)
    with plain_errors(without_secrets(spec), store):
        if inbox:
            store.invalidate_cache()
        is_glob = _is_glob(store, path)
        paths, is_listed = (sorted(store.glob(path)) if is_glob else [path]), is_glob
        if not (is_glob or is_web) and store.isdir(path):
            _require_rows(spec, storage_options)
            if (word := _table_in(store, path)) is not None:
                yield Address(store, path, _name_of(store, path), None, format=word)
                return
            paths, is_listed = _files_below(store, path), True
            if not (paths or inbox):
                raise BadInput(f"{path} is a folder without files of rows. Name another.")
        if inbox and is_listed and not (is_glob and _has_no_folder(store, path)):
            yield from _still_there(store, path, paths)
            return
        files = [described_file(store, p) for p in paths if not (is_glob and store.isdir(p))]
    if not files:
        raise FileNotFoundError(
            f"{without_secrets(spec)}: no file fits this pattern. Check its spelling."
        )
    yield from files


def is_glob(spec: str) -> bool:
    """Say whether a path or an address is a pattern of names; not where such a name is there."""
    return _is_glob(*open_store(spec))


def _is_glob(store: Any, path: str) -> bool:
    marks = "*[" if _is_web(store) else "*?["  # in a web address a question mark begins a query
    return any(mark in path for mark in marks) and not store.exists(path)


def _has_no_folder(store: Any, pattern: str) -> bool:
    """Say whether no folder is before a glob's marks; object stores have none, and need none."""
    whole = pattern.split("/")
    marked = next(k for k, part in enumerate(whole) if any(mark in part for mark in "*?["))
    return _is_local(store) and not store.isdir("/".join(whole[:marked]) or "/")


def _still_there(store: Any, named: str, paths: Sequence[str]) -> Iterator[Address]:
    """Return those of listed files that are whole ones, and have not vanished since."""
    for path in paths:
        is_hidden = path.count("/.") > named.count("/.")  # as unfinished copies are
        if not is_hidden and not store.isdir(path):
            with suppress(FileNotFoundError):
                yield described_file(store, path)


def _require_rows(spec: str, storage_options: dict[str, Any]) -> None:
    """Refuse folders that hold no rows of anybody's, but what was made of them."""
    folder = Folder(spec, storage_options)
    if kind_of(folder) in OWN:
        raise BadInput(instead(folder, "rows"))


def _table_in(store: Any, folder: str) -> str | None:
    """Return the format of the table that a folder is; None where it holds files."""
    for mark, word in MARKS.items():
        if store.exists(f"{folder}/{mark}"):
            return word
    if store.exists(f"{folder}/metadata") and (states := store.glob(f"{folder}/{_DESCRIBED}")):
        raise BadInput(
            f"{folder} is a table of Iceberg without a version hint, so which of its states is the "
            f"newest only its catalog knows. Name a state, such as {max(states)}, or the "
            "table of a catalog: iceberg://CATALOG/NAMESPACE.TABLE."
        )
    return None


def _files_below(store: Any, folder: str) -> list[str]:
    """Return the files of a folder and of those in it; what begins with . or _ is no data."""
    start = len(folder.rstrip("/"))
    return [path for path in sorted(store.find(folder)) if not _HIDDEN.search(path[start:])]


def _name_of(store: Any, path: str) -> str:
    return without_secrets(path if _is_local(store) else store.unstrip_protocol(path))


def described_file(store: Any, path: str) -> Address:
    """Return a file of a store, with its size and version.

    Raises
    ------
    FileNotFoundError
        There is none.
    BadInput
        It is a folder.
    """
    name = _name_of(store, path)
    if _is_web(store):
        file: VersionedFile = WebCopy(store, path, name)
    else:
        try:
            info = store.info(path)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{name}: no such file. Check the path.") from error
        if info["type"] == "directory":
            raise BadInput(f"{name} is a folder. Name its files, for example by '{name}/*'.")
        if local := _is_local(store):
            _require_file(path, name)
        file = LocalFile(path) if local else StoreFile(store, path, name, info)
    word = next((word for end, word in DESCRIPTIONS.items() if name.endswith(end)), None)
    return Address(store, path, name, file.size, file=file, format=word)


def _require_file(path: str, name: str) -> None:
    """Refuse a pipe, as the shell's `<(...)` is one: it has no size, and is read only once."""
    mode = os.stat(path).st_mode  # noqa: PTH116 - a path as fsspec has it
    if not stat.S_ISREG(mode):
        raise BadInput(
            f"{name} is a pipe or a device, and no file. Send its rows to standard input, and name "
            "that (-): unzip -p rows.zip | fewpass ingest - ..."
        )


def _is_web(store: Any) -> bool:
    return "http" in ((store.protocol,) if isinstance(store.protocol, str) else store.protocol)


def _is_local(store: Any) -> bool:
    from fsspec.implementations.local import LocalFileSystem  # noqa: PLC0415 - open_store did

    return isinstance(store, LocalFileSystem)


@contextmanager
def plain_errors(name: str, store: Any) -> Iterator[None]:
    """Report errors of remote stores without the secrets of the address.

    Each store has errors of its own, many of which repeat the address: they are no causes here.
    """
    try:
        yield
    except BadInput as error:
        if without_secrets(str(error)) == str(error):
            raise
        raise BadInput(without_secrets(str(error))) from None
    except (CutShort, SourceChanged) as error:  # in our own words, which have none
        raise error from None
    except FileNotFoundError:
        if _is_local(store):
            raise
        raise FileNotFoundError(
            f"{name} cannot be found, or may not be read. Check the address and the credentials."
        ) from None
    except Exception as error:
        if _is_local(store) or not _repeats_addresses(error):
            raise
        kind = PermissionError if isinstance(error, PermissionError) else OSError
        reason = without_queries(without_secrets(str(error))) or type(error).__name__
        raise kind(
            f"{name} cannot be read ({reason}). Check the address, the network and the credentials."
        ) from None


def _repeats_addresses(error: BaseException) -> bool:
    """Return whether an error is a store's own, or tells an address with its secrets."""
    return (
        isinstance(error, OSError)
        or type(error).__module__.partition(".")[0] in ("aiohttp", "botocore", "fsspec")
        or without_secrets(str(error)) != str(error)
    )


def empty_file(name: str) -> BadInput:
    """Return the refusal of a file without bytes."""
    return BadInput(
        f"{name}: the file is empty, rows were expected. Leave it out, or write it anew."
    )


def described(addresses: Sequence[Address]) -> tuple[SourceFile, ...]:
    """Names and sizes, as a data set's manifest keeps them."""
    return tuple(map(source_file, addresses))


def source_file(address: Address) -> SourceFile:
    """Return what is known of a file before it is read."""
    version = address.file.version if address.file else None
    packed = bool(address.compression)
    return SourceFile(address.name, address.size, version, packed, place_of(address))


def place_of(address: Address) -> str | None:
    """Return store and path, by links and other spellings the same; None of standard input."""
    if isinstance(address.store, StandardInput):
        return None
    query = address.path.partition("?")[2] if protocol_of(address.name) in READ_ONLY else ""
    asked = f"?{hashlib.sha256(query.encode()).hexdigest()[:16]}" if query else ""
    return Location.of(address.name).key + asked
