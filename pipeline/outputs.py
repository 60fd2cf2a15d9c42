"""Outputs for the user, which must never take the place of what the user has.

One rule holds for every file and folder that a command, a function or a flow is asked to write.
Refused whatever else is said: one of the inputs; a source of the rows that the model was trained
on; a place inside a data set or a run; a folder where a file is to be.  A file that fewpass wrote
and nobody has changed since is written anew; any other that is there has to be given up
explicitly (`overwrite`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

from fewpass.pipeline.errors import BadInput, PlanMismatch
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.settings.formats import STANDARD_INPUT_WORDS, is_file_on_web
from fewpass.storage.addresses import is_table_server, local_path, open_store
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import ELSEWHERE, inside_of_ours
from fewpass.storage.locations import HERE, Location, plain_errors
from fewpass.storage.manifest import KEY
from fewpass.storage.own_files import is_unchanged
from fewpass.storage.redaction import shown_address, without_secrets
from fewpass.storage.whole_file import whole_file

_GLOB = "*?["


def is_data_set(address: str) -> bool:
    """Say whether an address names a data set, and no file."""
    if address in STANDARD_INPUT_WORDS or without_secrets(address) != address:
        return False  # it names a single file
    if is_table_server(address):
        return False
    return not is_file_on_web(address) and Folder(address).exists(KEY)


class OutputFile(NamedTuple):
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
    """

    url: str
    overwrite: bool = False
    inputs: tuple[str, ...] = ()
    record: RunRecord | None = None

    def require_free(self) -> None:
        """Refuse a place that must not be written to, before any work is done for it.

        Raises
        ------
        BadInput
            With what is there.
        """
        here = Location.of(self.url)
        if refusal := inside_of_ours(here):
            raise BadInput(refusal)
        if not _is_there(here):
            return
        for place, what in self._protected(here.store):
            if place.is_same(here):
                raise BadInput(
                    f"{without_secrets(self.url)} stays as it is: it is {what}. {ELSEWHERE}"
                )
        if not self.may_replace:
            raise BadInput(
                f"{without_secrets(self.url)} is there already. Choose another name, or say "
                "`overwrite=true` to replace it."
            )

    @property
    def may_replace(self) -> bool:
        """True if an existing file may be replaced: on request, or where it is as we left it."""
        here = local_path(self.url)
        return self.overwrite or (here is not None and is_unchanged(here))

    @contextmanager
    def written(self) -> Iterator[IO[bytes]]:
        """Yield a stream into the file, which appears whole and durable, if it still may."""
        with whole_file(self.url, replace=self.may_replace, before=self.require_free) as target:
            yield target

    def _protected(self, store: str) -> Iterator[tuple[Location, str]]:
        """Yield the files of a store that are never replaced, and what each is."""
        for spec in self.inputs:
            if is_data_set(spec):
                yield from _sources_of(spec, f"a source of the input {shown_address(spec)}")
            else:
                for one in _files_of(spec, store):
                    yield one, f"one of the inputs ({shown_address(spec)})"
        if self.record is not None:
            yield from _taught(self.record, store)


def _is_there(here: Location) -> bool:
    """Return whether a file has that name; BadInput where it is no file."""
    kind = here.kind()
    if kind == "folder":
        raise BadInput(f"{without_secrets(here.url)} is a folder. Name a file in it.")
    if kind == "other":
        raise BadInput(
            f"{without_secrets(here.url)} is no file, but a pipe or a device. {ELSEWHERE}"
        )
    return kind is not None


def _files_of(spec: str, store: str) -> Iterator[Location]:
    """Yield the files of a store that a path, a glob or an address names, whatever they hold."""
    if spec in STANDARD_INPUT_WORDS or Location.of(spec).store != store:
        return
    system, path = open_store(spec)
    with plain_errors(spec):
        if system.isdir(path):
            paths = system.find(path)
        elif any(mark in path for mark in _GLOB) and not system.exists(path):
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
                with suppress(OSError, ValueError):  # out of reach by now
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
