"""The places that an ingest writes to: what may be replaced there, and what must not be touched."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.storage.addresses import BadAddress, command
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import PROBE, Folder
from fewpass.storage.kinds import INGEST_KEY, INSIDE, begins_as_ours, head_of, inside_of_ours
from fewpass.storage.locations import Location
from fewpass.storage.manifest import FORMAT, GENERATIONS, KEY
from fewpass.storage.seal import seal, unseal
from fewpass.storage.set_generations import delete_objects

#: Written before any object, stays: which plan this data set is made by, and what no manifest says.
MARKER = INGEST_KEY
GROUP = "zarr.json"


class IngestTarget:
    """One data set to be made.

    Parameters
    ----------
    folder
        Where.
    digest
        Digest of the plan and the sources it is made by.
    """

    def __init__(self, folder: Folder, digest: str) -> None:
        self.folder, self.digest = folder, digest

    def finished(self) -> Dataset | None:
        """Return the data set if it is there and was made by this very plan."""
        if not self.folder.exists(KEY) or self.marker().get("plan_digest") != self.digest:
            return None
        return Dataset.open(self.folder)

    def marker(self) -> dict[str, Any]:
        """Return the facts of the marker; none if there is none, or it cannot be read."""
        if not self.folder.exists(MARKER):
            return {}
        try:
            content = unseal(self.folder.read(MARKER))
        except ValueError:
            return {}
        del content["fingerprint"]
        return content

    def require_free(self, *, overwrite: bool) -> None:
        """Refuse a place that holds something else.

        Parameters
        ----------
        overwrite
            Whether a data set that is there may be replaced.

        Raises
        ------
        BadInput
            If there is a data set and `overwrite` is not set, or any other file.
        """
        if self._is_ours(KEY):
            # Of two data sets, one can be finished when the other was cut short.
            if not overwrite and self.finished() is None:
                raise BadInput(
                    f"{self.folder.url} holds a data set made by another plan or of other sources. "
                    f"`{command('append', self.folder.url, 'FILES')}` adds rows of files that came "
                    "since, none twice; `overwrite=true` makes it anew. Or choose another place."
                )
            return
        if self._is_ours(MARKER):
            return
        keys = (key for key in self.folder.list() if key.partition("/")[0] not in (INSIDE, PROBE))
        foreign = next(keys, None)
        if foreign is not None:
            raise BadInput(
                f"{self.folder.url} holds other files, such as {foreign}. Choose an empty folder."
            )

    def require_separate(self, reads: Iterable[str]) -> None:
        """Refuse a place in another data set or in a run, and one that is, or holds, what is read.

        Parameters
        ----------
        reads
            Addresses of the sources, and of a data set that is followed.
        """
        here = Location.of(self.folder.url)
        if refusal := inside_of_ours(here, self.folder.storage_options):
            raise BadInput(refusal)
        if here.kind(self.folder.storage_options) is None:
            return
        looked_at = set[str]()  # folders: a source may have thousands of files
        for address in reads:
            with suppress(BadAddress):  # no address, but what rows from elsewhere are called
                read = Location.of(address)
                above = read.path.rpartition("/")[0]
                if read.is_same(here) or (above not in looked_at and read.is_in(here)):
                    raise BadInput(
                        f"{self.folder.url} is where the data set is to be, and {address} is read "
                        "from there: it would be lost. Choose another place."
                    )
                looked_at.add(above)

    def _is_ours(self, key: str) -> bool:
        """Return whether the mark of a data set is there, and not a file of another program.

        A damaged one is ours where other objects of a data set are next to it.
        """
        if not self.folder.exists(key):
            return False
        is_marked = begins_as_ours(self.folder, key)
        begun = f'"{FORMAT}"' in head_of(self.folder, GROUP) or bool(self.folder.list(INSIDE))
        return is_marked or begun

    def clear(self) -> None:
        """Remove the data set that is there, its manifest first, whole or not."""
        if self.folder.exists(KEY):
            # Without a digest the marker says: this place is ours. It may not say that the data set
            # still there is made by the new plan.
            self._write_marker("", {})
            self.folder.delete(KEY)
        delete_objects(self.folder)
        self.folder.delete_tree(GENERATIONS)

    def mark(self, facts: dict[str, Any]) -> None:
        """Write the marker: the digest and `facts`."""
        self._write_marker(self.digest, facts)

    def _write_marker(self, digest: str, facts: dict[str, Any]) -> None:
        document = {"plan_digest": digest, **facts}
        self.folder.write(MARKER, seal(document, allow_nan=True))
