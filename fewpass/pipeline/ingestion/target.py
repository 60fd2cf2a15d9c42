"""The places that an ingest writes to: what may be replaced there, and what must not be touched."""

from __future__ import annotations

import json
from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.ingestion.work_dir import INSIDE
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import PROBE, Folder
from fewpass.storage.manifest import KEY
from fewpass.storage.schema import KEY as SCHEMA

#: Written first, stays: which plan this data set is made by, and what the manifest does not say.
MARKER = "ingest.json"
#: Everything of a data set; nothing else in the folder is ever deleted.
_OURS = ("X", "rows", "target", "weight", "columns", "zarr.json", SCHEMA)


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
        """Return what the marker says; nothing if there is none, or it cannot be read."""
        if not self.folder.exists(MARKER):
            return {}
        try:
            found = json.loads(self.folder.read(MARKER))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def require_free(self, *, overwrite: bool) -> None:
        """Refuse a place that holds something else.

        Raises
        ------
        BadInput
            If there is a data set and `overwrite` is not set, or any other file.
        """
        if self.folder.exists(KEY):
            # Of two data sets, one can be finished when the other was cut short.
            if not overwrite and self.finished() is None:
                raise BadInput(
                    f"{self.folder.url} holds a data set made by another plan or of other sources. "
                    "Choose another place, or say `overwrite=true`."
                )
            return
        if self.folder.exists(MARKER):
            return
        keys = (key for key in self.folder.list() if key.partition("/")[0] not in (INSIDE, PROBE))
        foreign = next(keys, None)
        if foreign is not None:
            raise BadInput(
                f"{self.folder.url} holds other files, such as {foreign}. Choose an empty folder."
            )

    def clear(self) -> None:
        """Remove the data set that is there, its manifest first, whole or not."""
        # Without a digest the marker says: this place is ours. It may not say that the data set
        # still there is made by the new plan.
        self.folder.write(MARKER, b"{}")
        self.folder.delete(KEY)
        for name in _OURS:
            self.folder.delete_tree(name)
            self.folder.delete(name)
        self.mark({})

    def mark(self, facts: dict[str, Any]) -> None:
        """Write the marker, with `facts` beside the digest."""
        self.folder.write(MARKER, json.dumps({"plan_digest": self.digest, **facts}).encode())
