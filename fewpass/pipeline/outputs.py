"""What is written for the user, and must never take the place of what the user has.

One rule holds for every file and folder that a command, a function or a flow is told to write.
Refused whatever else is said: one of the inputs; a source of the rows that the model was trained
on; a place inside a data set or a run; a folder where a file is to be.  Any other file that is
there has to be given up in so many words (`overwrite`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple

from fewpass.pipeline.errors import BadInput, PlanMismatch
from fewpass.pipeline.runs.run_folder import FORMAT as RUN_FORMAT
from fewpass.pipeline.runs.run_folder import KEY as RUN_KEY
from fewpass.pipeline.runs.run_folder import LOG, RunFolder, RunRecord
from fewpass.pipeline.sources.standard_input import WORDS
from fewpass.pipeline.straight.telling import GLOB, is_file_on_web
from fewpass.storage.addresses import open_store
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.locations import HERE, Location
from fewpass.storage.manifest import FORMAT as DATASET_FORMAT
from fewpass.storage.manifest import KEY as DATASET_KEY
from fewpass.storage.redaction import without_secrets
from fewpass.storage.whole_file import whole_file

StorageOptions = dict[str, Any] | None

ELSEWHERE = "Choose another place."
#: What marks a folder as one of ours: an object, and what its first bytes say.
MARKS = (
    (DATASET_KEY, f'"{DATASET_FORMAT}"', "the data set"),
    (RUN_KEY, f'"{RUN_FORMAT}"', "the run"),
    ("ingest.json", '"plan_digest"', "the data set"),  # one that is being made
)
_HEAD_BYTES = 4096


class Output(NamedTuple):
    """A file to be written for the user.

    Attributes
    ----------
    url
        Its path or address.
    overwrite
        Whether a file that is there may be replaced.
    inputs
        What is read to make it: files, folders, globs, addresses, data sets.
    record
        Of the run whose model it is made with.
    storage_options
        What fsspec hands to the file systems of `url` and `inputs`.
    """

    url: str
    overwrite: bool = False
    inputs: tuple[str, ...] = ()
    record: RunRecord | None = None
    storage_options: StorageOptions = None

    def require_free(self) -> None:
        """Refuse a place that must not be written to, before any work is done for it.

        Raises
        ------
        BadInput
            With what is there.
        """
        here = Location.of(self.url)
        require_outside(here, self.storage_options)
        if not _is_there(here, self.storage_options):
            return
        for kept, what in self._kept(here.store):
            if kept.is_same(here):
                raise BadInput(f"{_shown(self.url)} is {what}, which stays as it is. {ELSEWHERE}")
        if not self.overwrite:
            raise BadInput(
                f"{_shown(self.url)} is there already. Choose another name, or say "
                "`overwrite=true` to replace it."
            )

    @contextmanager
    def written(self) -> Iterator[IO[bytes]]:
        """Yield a stream into the file, which appears whole and durable at the end."""
        self.require_free()
        with whole_file(
            self.url, self.storage_options, replace=self.overwrite, before=self.require_free
        ) as target:
            yield target

    def _kept(self, store: str) -> Iterator[tuple[Location, str]]:
        """Yield the files of a store that are never replaced, and what each is."""
        for spec in self.inputs:
            if is_data_set(spec, self.storage_options):
                yield from _sources_of(spec, f"a source of the input {_shown(spec)}")
            else:
                for one in _files_of(spec, store, self.storage_options):
                    yield one, f"one of the inputs ({_shown(spec)})"
        if self.record is not None:
            yield from _taught(self.record, store)


def require_outside(here: Location, storage_options: StorageOptions = None) -> None:
    """Refuse a place inside a data set or a run; BadInput."""
    for folder in here.folders():
        what = what_is_at(folder, storage_options)
        if what is not None:
            raise BadInput(
                f"{_shown(here.url)} lies in {what} {_shown(folder)}, which holds nothing else. "
                f"{ELSEWHERE}"
            )


def require_place_for_run(run: RunFolder) -> None:
    """Refuse a new run in a data set, in another run, or among files that it would write into.

    Raises BadInput; a run that is there goes on wherever it lies.
    """
    if run.exists():
        return
    require_outside(Location.of(run.url), run.folder.storage_options)
    if what_is_at(run.url, run.folder.storage_options) is not None:
        raise BadInput(f"{_shown(run.url)} is a data set, and no place for a run. {ELSEWHERE}")
    for name in (LOG, "report"):
        found = [name] if run.folder.exists(name) else run.folder.list(name)
        if found and not run.snapshots.names():
            raise BadInput(
                f"{_shown(run.url)} holds other files, such as {found[0]}, which a run would write "
                "to. Choose an empty folder."
            )


def what_is_at(folder: str, storage_options: StorageOptions = None) -> str | None:
    """Say which of ours an address holds, by the first bytes of its mark; None for neither."""
    place = Folder(folder, storage_options)
    return next((what for key, says, what in MARKS if says in head_of(place, key)), None)


def head_of(folder: Folder, key: str) -> str:
    """Return how an object begins; nothing where there is none, or it is not ours to read."""
    buffer = bytearray(_HEAD_BYTES)
    try:
        size = folder.read_into(key, memoryview(buffer))
    except (FileNotFoundError, PermissionError, Damaged):
        return ""
    return buffer[:size].decode("latin-1")


def is_data_set(address: str, storage_options: StorageOptions = None) -> bool:
    """Whether an address names a data set, and no file."""
    if address in WORDS or without_secrets(address) != address:  # then it names a single file
        return False
    if is_file_on_web(address):
        return False
    return Folder(address, storage_options).exists(DATASET_KEY)


def _is_there(here: Location, storage_options: StorageOptions) -> bool:
    """Whether a file has that name; BadInput where it is no file."""
    found = here.kind(storage_options)
    if found == "folder":
        raise BadInput(f"{_shown(here.url)} is a folder. Name a file in it.")
    if found == "other":
        raise BadInput(f"{_shown(here.url)} is no file, but a pipe or a device. {ELSEWHERE}")
    return found is not None


def _files_of(spec: str, store: str, storage_options: StorageOptions = None) -> Iterator[Location]:
    """Yield the files of a store that a path, a glob or an address names, whatever they hold."""
    if spec in WORDS or Location.of(spec).store != store:
        return
    system, path = open_store(spec, storage_options)
    if system.isdir(path):
        paths = system.find(path)
    elif any(mark in path for mark in GLOB) and not system.exists(path):
        paths = system.glob(path)
    else:
        paths = [path]
    for one in paths:
        yield Location.of(one if store == HERE else system.unstrip_protocol(one))


def _taught(record: RunRecord, store: str) -> Iterator[tuple[Location, str]]:
    """Yield the sources that a model has learnt from, and those that its beginning had."""
    seen = set[str]()
    while True:
        plan = record.plan
        for place in (plan.dataset, plan.held_out) if plan.source is None else (plan.held_out,):
            if place is not None:
                yield from _sources_of(
                    place, f"a source of the data set {place}, which the model comes of"
                )
        if plan.source is not None:
            for spec in plan.source.sources:
                for one in _files_of(spec, store):
                    yield one, "a source of the rows that the model was trained on"
        if plan.start_from is None or plan.start_from in seen:
            return
        seen.add(plan.start_from)
        try:
            record = RunFolder(plan.start_from).record()
        except (OSError, ValueError, PlanMismatch):  # gone, or of another version
            return


def _sources_of(dataset: str, what: str) -> Iterator[tuple[Location, str]]:
    """Yield the files that a data set was made of, as far as it is there to tell."""
    try:
        sources = Dataset.open(dataset).manifest.sources
    except (OSError, ValueError):
        return
    for source in sources:
        with suppress(ValueError):  # no address, but what the rows of a Dask collection are called
            yield Location.of(source.name), what


def _shown(address: str) -> str:
    return without_secrets(address)
