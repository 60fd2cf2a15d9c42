"""The record of a folder of predictions: which files are done, of what, by which model.

A file is put on record after it appeared whole: a process that is killed between the two makes it
again, to the same bytes.  What is done is not repeated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.scoring.input_files import InputFile
from fewpass.pipeline.scoring.scored_file import PredictedRows
from fewpass.pipeline.tables.readers.source_spans import ReadExtent
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal, unseal
from fewpass.storage.whole_file import remove_abandoned

#: What begins with _ is no data to whoever reads a folder of files.
KEY = "_predictions.json"
_FORMAT = "fewpass-predictions"
_SEVERAL = "several models"
#: Times as long as the last writing of the record took, after which it is written again: it is as
#: long as all files are many, and no more than so much of what was done last is done again.
_PATIENCE = 20


class RecordedPart(NamedTuple):
    """A file that was made of a span of the input's file, or of all of it."""

    rows: int
    bytes: int
    read: ReadExtent  # of the span

    @classmethod
    def of_record(cls, stored: list[Any]) -> RecordedPart:
        """Return what was put on record."""
        rows, size, read = stored
        return cls(rows, size, ReadExtent(*read))


class FileRecord(NamedTuple):
    """Record of a file of the input."""

    version: list[Any] | None  # of the input's file
    of: int  # files that it becomes
    columns: list[str]
    parts: dict[str, RecordedPart]  # those that are made
    stale: dict[str, int]  # files that were made of it before, and are to go, and their bytes

    @classmethod
    def of_record(cls, stored: dict[str, Any]) -> FileRecord:
        """Return what was put on record."""
        parts = {name: RecordedPart.of_record(one) for name, one in stored["parts"].items()}
        return cls(stored["version"], stored["of"], stored["columns"], parts, dict(stored["stale"]))

    @property
    def rows(self) -> int:
        """Rows of all that is made."""
        return sum(part.rows for part in self.parts.values())


class FolderRecord:
    """The record of a folder of predictions.

    Parameters
    ----------
    folder
        The folder.
    made_by
        What its files depend on, besides the rows: model and settings.
    overwrite
        Make all files again.
    only_new
        Leave files as they are that another model has predicted: then the folder is of neither
        from now on.

    Raises
    ------
    BadInput
        The record is damaged; the folder holds predictions of another model or of other settings.
    """

    def __init__(
        self, folder: Folder, made_by: dict[str, Any], *, overwrite: bool, only_new: bool
    ) -> None:
        self.folder = folder
        self._made_by = json.loads(json.dumps(made_by))
        self.files = self._read(overwrite=overwrite, only_new=only_new)
        self._sizes = folder.sizes([name for one in self.files.values() for name in one.parts])
        self.remove_unfinished([name for one in self.files.values() for name in one.parts])
        self._due = 0.0

    def remove_unfinished(self, names: Collection[str]) -> None:
        """Remove what killed calls have left half written of files of these names."""
        by_place = dict[Path, set[str]]()
        for path in (Path(self.folder.url) / name for name in names if self.folder.is_local):
            by_place.setdefault(path.parent, set()).add(path.name)
        for place, own in by_place.items():
            if place.is_dir():
                remove_abandoned(place, own)

    def _read(self, *, overwrite: bool, only_new: bool) -> dict[str, FileRecord]:
        try:
            record = unseal(self.folder.read(KEY))
            of = dict(record["of"])
            files = {name: FileRecord.of_record(one) for name, one in record["files"].items()}
            if only_new and of["weights"] != self._made_by["weights"]:
                of["weights"] = self._made_by["weights"] = _SEVERAL
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError) as error:
            if overwrite:
                return {}
            raise BadInput(
                f"{self.folder.address(KEY)} is damaged ({error}). Say `overwrite=true` to make "
                "all files again."
            ) from error
        if overwrite:
            return {name: one._replace(version=None) for name, one in files.items()}
        if of != self._made_by and any(one.parts or one.stale for one in files.values()):
            raise BadInput(
                f"{self.folder.url} holds predictions of another model, or with other settings. "
                "Name another folder, or say `overwrite=true` to make all files again."
            )
        return files

    def is_done(self, file: InputFile) -> bool:
        """Say whether all is made of a file as it is now, and is there as it was made."""
        record = self.files.get(file.made)
        if record is None or record.version != file.version or record.stale:
            return False
        return len(self._there(record)) == record.of

    def made(self, file: InputFile, names: Collection[str]) -> dict[str, RecordedPart] | None:
        """Return what is made of a file that becomes those of these names; None: not begun yet."""
        record = self.files.get(file.made)
        if record is None or record.version != file.version or record.of != len(names):
            return None
        return self._there(record)

    def _there(self, record: FileRecord) -> dict[str, RecordedPart]:
        return {n: one for n, one in record.parts.items() if self._sizes.get(n) == one.bytes}

    def owners(self) -> dict[str, str]:
        """Return by which name the file of the input goes that each file is made of."""
        whole = {made: made for made, one in self.files.items() if one.of == 1}
        return whole | {name: made for made, one in self.files.items() for name in one.parts}

    def begin(self, file: InputFile, names: Collection[str]) -> None:
        """Take up a file that becomes those of these names."""
        before = self.files.get(file.made) or FileRecord(None, 0, [], {}, {})
        parts = self.made(file, names) or {}
        old = before.stale | {name: part.bytes for name, part in before.parts.items()}
        stale = {name: size for name, size in old.items() if name not in names}
        begun = FileRecord(file.version, len(names), before.columns, parts, stale)
        self.files[file.made] = self._settled(begun)

    def _settled(self, record: FileRecord) -> FileRecord:
        """Remove what was made before of a file, once all is made of it as it is now."""
        if len(record.parts) < record.of:
            return record
        self._remove(record.stale)
        return record._replace(stale={})

    def add(self, file: InputFile, name: str, written: PredictedRows) -> None:
        """Put a part that was made on record."""
        record = self.files[file.made]
        record.parts[name] = RecordedPart(written.result.rows, self._size(name), written.read)
        record = record._replace(columns=[*written.result.columns])
        self.files[file.made] = self._settled(record)
        if time.monotonic() >= self._due:
            self.write()

    def _size(self, name: str) -> int:
        size = self.folder.sizes([name]).get(name)
        if size is None:
            raise BadInput(
                f"A worker has written {self.folder.address(name)}, and it is not there for this "
                "process. Name a folder that all of them share, or one of an object store."
            )
        return size

    def refuse(self, file: InputFile) -> None:
        """Remove what was made of a file that cannot be predicted to its end."""
        record = self.files[file.made]
        self._remove({name: part.bytes for name, part in record.parts.items()})
        self.files[file.made] = record._replace(version=None, parts={})

    def _remove(self, files: Mapping[str, int]) -> None:
        """Remove files that are as they were made."""
        for name, size in self.folder.sizes(files).items():
            if size == files[name]:
                self.folder.delete(name)

    def write(self) -> None:
        """Write the record."""
        began = time.monotonic()
        files = dict(self._stored())
        document = {"format": _FORMAT, "of": self._made_by, "files": files}
        self.folder.write(KEY, seal(document, indent=1))
        ended = time.monotonic()
        self._due = ended + _PATIENCE * (ended - began)

    def _stored(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, one in self.files.items():
            parts = {part: [*made[:2], [*made.read]] for part, made in one.parts.items()}
            yield name, one._asdict() | {"parts": parts}
