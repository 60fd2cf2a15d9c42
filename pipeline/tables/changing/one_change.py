"""One change of a data set at a time: who makes it, where it writes, and what it leaves.

All of the new generation is written and durable before the manifest is replaced, which is the one
step that readers see; whatever kills a change before leaves the old generation, and the next change
removes what was written of a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.change_plans import ChangePlan
from fewpass.pipeline.tables.ingest.target import IngestTarget
from fewpass.pipeline.tables.ingest.work_dir import WorkDir, work_dir_path
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY, place_of_generation
from fewpass.storage.set_generations import prune_generations
from fewpass.storage.writer import DatasetWriter


@contextmanager
def changing(plan: ChangePlan) -> Iterator[WorkDir]:
    """Keep other changes and ingests out of a data set; removes what a killed one left.

    Raises
    ------
    NotADataset
        There is no data set.
    BusyPlace
        Another process is changing it.
    PermissionError
        Nothing can be written there.
    """
    folder = Folder(plan.dataset, plan.storage_options)
    Dataset.open(folder)
    folder.require_writable()
    work_dir = WorkDir(work_dir_path(folder, None))
    with work_dir.owned():
        _require_whole(work_dir, folder)
        prune_generations(folder, Dataset.open(folder).manifest)
        try:
            yield work_dir
        except BadInput:
            work_dir.remove()
            raise
        work_dir.remove()


def marker_of(dataset: Dataset) -> dict[str, Any]:
    """Return what the ingest of a data set noted of itself."""
    return IngestTarget(dataset.folder, "").marker()


def plan_of_ingest(dataset: Dataset) -> dict[str, Any]:
    """Return the plan that a data set was ingested by, as JSON; nothing if it is not known."""
    plan = marker_of(dataset).get("plan")
    return plan if isinstance(plan, dict) else {}


def held_out_by(dataset: Dataset, storage_options: dict[str, Any] | None = None) -> Dataset | None:
    """Return the data set of the test rows that an ingest held out; None without any.

    Raises
    ------
    BadInput
        It is not where the ingest put it.
    """
    plan = plan_of_ingest(dataset)
    if not plan.get("test_fraction") or marker_of(dataset).get("rows") == "test":
        return None
    url = str(plan.get("test_dataset") or f"{dataset.folder.url}-test")
    if Folder(url, storage_options).url == dataset.folder.url:
        return None  # of an earlier version, which did not note which rows these are
    if not Folder(url, storage_options).exists(KEY):
        raise BadInput(
            f"{dataset.folder.url} was ingested with test rows, and {url}, where they are, is not "
            "there. Put it back, or ingest all files anew."
        )
    return Dataset.open(url, storage_options)


def _require_whole(work_dir: WorkDir, folder: Folder) -> None:
    """Refuse a data set that an ingest is to replace and has not finished."""
    if work_dir.folder.exists("partition.json") and folder.exists(KEY):
        work_dir.clear()  # of an ingest that was killed after its data set was complete


def staging_of(dataset: Dataset) -> tuple[Folder, Folder]:
    """Return where an append ingests new rows, and test rows among them."""
    folder = dataset.folder
    names = (f"{folder.url}.appending", f"{folder.url}.appending-test")
    one, two = (Folder(name, folder.storage_options) for name in names)
    return one, two


class NextGeneration(NamedTuple):
    """A generation in the making.

    Attributes
    ----------
    before
        The present one.
    folder
        Where it is written.
    """

    before: Dataset
    folder: Folder

    @classmethod
    def after(cls, before: Dataset) -> NextGeneration:
        """Return the one after the present generation, of which nothing is there yet."""
        place = place_of_generation(before.manifest.generation + 1)
        before.folder.delete_tree(place)
        return cls(before, before.folder.child(place))

    def writer(self, n_rows: int) -> DatasetWriter:
        """Return what writes its chunks."""
        manifest = self.before.manifest
        return DatasetWriter(
            self.folder, manifest.layout, manifest.n_features, n_rows, manifest.chunk_rows,
            manifest.dtype, manifest.has_weight, manifest.has_offset, manifest.codes,
            manifest.retained,
        )  # fmt: skip
