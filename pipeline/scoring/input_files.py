"""The files of an input that are predicted one by one, and what is made of each."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.formats import STANDARD_INPUT_WORDS
from fewpass.pipeline.tables.readers.finding import Address, find, is_glob
from fewpass.storage.addresses import local_path, open_store
from fewpass.storage.locations import Location

_TEXT = (".csv", ".tsv")
_GLOB = "*?["


class InputFile(NamedTuple):
    """A file of the input, and the one that is made of it."""

    spec: str  # its path or address
    stem: str  # of what is made, below the output's folder
    ending: str
    version: list[Any]  # what changes with its content
    size: int
    name: str  # without secrets

    @property
    def made(self) -> str:
        """The file that is made of all of it."""
        return self.stem + self.ending

    def part(self, number: int, of: int) -> str:
        """Return the file that is made of one of its spans; of the only one that of all."""
        return self.made if of == 1 else f"{self.stem}/part-{number:05d}{self.ending}"


def are_there(inputs: Sequence[str]) -> bool:
    """Say whether there are files by now, of inputs that come one by one; nor need a folder be."""
    with suppress(FileNotFoundError):
        return bool(input_files(inputs, None, only_new=True))
    return False


def input_files(inputs: Sequence[str], output: str | None, *, only_new: bool) -> list[InputFile]:
    """Return the files of the inputs, and what is made of each below a folder (None: in a table).

    Of files that come one by one there may be none yet, and empty ones are not written yet.
    """
    files: list[InputFile] = []
    for spec in inputs:
        if spec in STANDARD_INPUT_WORDS:
            raise BadInput(
                "Standard input is one stream, and no files to predict one by one. Name a file as "
                "the output (or -), or leave `only_new` out."
            )
        addresses = find([spec], inbox=only_new)
        if table := next((address for address in addresses if address.format), None):
            raise BadInput(
                f"{table.name} is a table, and its files are no parts to predict one by one. Name "
                "a file as the output, or a table without `only_new`."
            )
        is_pattern = is_glob(spec)
        base = _base(spec) if is_pattern else _folder_of(spec)
        if output is not None and _reads_below(spec, is_pattern=is_pattern):
            _require_outside(output, base)
        each = (_input_file(address, base) for address in addresses)
        files += [one for one in each if one.size or not only_new]
    names = [one.made if output is not None else one.name for one in files]
    double = next((name for name, times in Counter(names).items() if times > 1), None)
    if double is not None:
        raise BadInput(
            f"Two files of the input would become {double}. Predict them into folders of their own."
        )
    return files


def _require_outside(output: str, base: str) -> None:
    if Location.of(output.rstrip("/")).is_in(Location.of(base)):
        raise BadInput(
            f"{output} is inside the input {base}, whose files would be read again. Name another "
            "folder."
        )


def _base(pattern: str) -> str:
    """Return the folder before the marks of a pattern, which the names of files are below."""
    parts = pattern.rstrip("/").split("/")
    marked = next(k for k, part in enumerate(parts) if any(mark in part for mark in _GLOB))
    return "/".join(parts[:marked]) or "."


def _folder_of(spec: str) -> str:
    """Return a folder, or that of a file."""
    here = local_path(spec)
    return spec if here is None or here.is_dir() else str(here.parent)


def _reads_below(spec: str, *, is_pattern: bool) -> bool:
    """Say whether files in new folders next to the files of a source would be among these."""
    if is_pattern:
        return "**" in spec
    here = local_path(spec)
    return here is None or here.is_dir()


def _input_file(address: Address, base: str) -> InputFile:
    here = local_path(base)
    if address.is_local and here is not None:
        spec, name = address.path, str(Path(address.path).relative_to(here))
    else:
        spec = str(address.store.unstrip_protocol(address.path))
        _, folder = open_store(base)
        below = address.path.removeprefix(folder.rstrip("/"))  # nothing: it is the file itself
        name = (below if below != address.path else "").lstrip("/") or PurePosixPath(spec).name
    endings = [*re.finditer(re.escape(address.extension), name, re.IGNORECASE)]
    stem = name[: endings[-1].start()] if address.extension else name
    ending = ".csv" if address.extension in _TEXT else ".parquet"
    version = [address.size, address.file.version if address.file else None]
    size = address.size or 0
    return InputFile(spec, stem, ending, json.loads(json.dumps(version)), size, address.name)
