"""An ingest before rows are read: what is opened, and where it writes to."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.label_counts import LabelCounts
from fewpass.pipeline.tables.ingest.layout import require_scalable
from fewpass.pipeline.tables.ingest.progress import Ticker
from fewpass.pipeline.tables.ingest.reading import (
    in_dtype_of,
    retained_names,
    schema_of,
    source_of,
    stamps,
)
from fewpass.pipeline.tables.ingest.target import IngestTarget
from fewpass.pipeline.tables.ingest.target_map import TargetMap
from fewpass.pipeline.tables.ingest.work_dir import SPANS, WorkDir, work_dirs_of
from fewpass.pipeline.tables.readers.seen_files import SeenFiles
from fewpass.pipeline.tables.readers.source import Source
from fewpass.storage.column_schema import Schema
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal, unseal

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor
    from fewpass.pipeline.tables.encoding.expansion import Expansion

#: Of the records of mapped rows; another version's is not gone on with.
RECORD_VERSION = 11
#: Says which rows the spans are of that tasks have mapped.
OF_SPANS = f"{SPANS}/rows.json"


class IngestJob(NamedTuple):
    """Sources and settings of an ingest, and the places that it writes to."""

    plan: IngestPlan
    source: Source
    seen: SeenFiles
    like: Dataset | None  # the data set that it follows
    expansion: Expansion | None  # of the codes that rows are parsed to; None: they are values
    digest: str
    targets: list[IngestTarget]  # of training rows; of test rows, if there are any
    work_dirs: list[WorkDir]
    threshold: float | None
    threads: int
    ticker: Ticker
    executor: Executor | None = None  # of a cluster; None: threads of this process do all

    @property
    def work_dir(self) -> WorkDir:
        """Return the folder of the unfinished work."""
        return self.work_dirs[0]

    @property
    def part_folder(self) -> Folder:
        """Return the folder for parts of the rows that are not in memory."""
        return self.work_dir.folder if self.executor is None else self.shared_folder

    @property
    def shared_folder(self) -> Folder:
        """Return the folder for workers' parts: with a store's data set, in the store."""
        return self.work_dir.in_store or self.work_dir.folder

    def begin_anew(self, *, keep_spans: bool) -> None:
        """Remove the unfinished work, but spans that a cluster has mapped of these very rows."""
        keep = keep_spans and self.executor is not None and self._has_spans()
        self.work_dir.clear(keep=SPANS if keep else None)
        if self.executor is not None:
            self.shared_folder.write(OF_SPANS, seal({"of": self.identity}))

    def _has_spans(self) -> bool:
        with suppress(FileNotFoundError, ValueError):
            return bool(unseal(self.shared_folder.read(OF_SPANS))["of"] == self.identity)
        return False

    @property
    def retained(self) -> tuple[str, ...]:
        """Columns that are kept as they are written."""
        return retained_names(self.plan, self.like)

    @property
    def schema(self) -> Schema | None:
        """Columns, and how they were read."""
        return self.like.schema if self.like else schema_of(self.source, self.plan.options)

    @property
    def seed(self) -> tuple[int, ...]:
        """Seed of what is drawn among rows; each append draws by its generation, too."""
        if self.targets or self.like is None:
            return (self.plan.seed,)
        return self.plan.seed, self.like.manifest.generation + 1

    @property
    def codes(self) -> int | None:
        """Return the number of codes of a row; None where rows are stored as their values."""
        return None if self.expansion is None else self.expansion.n_codes

    @property
    def identity(self) -> str:
        """Return the digest of what parts depend on: memory decides on these, a recipe on rows."""
        schema = self.schema
        columns = "" if schema is None else hashlib.sha256(schema.written()).hexdigest()
        every = f"{RECORD_VERSION} {self.digest} {self.plan.memory} {columns}"
        return hashlib.sha256(every.encode()).hexdigest()

    def target_map(self, counts: LabelCounts) -> TargetMap:
        """Return what targets become; BadInput where they are bad labels."""
        return TargetMap(counts, self.like.manifest.targets if self.like else None)


def opened(
    plan: IngestPlan, source: Source | None, threshold: float | None, threads: int,
    ticker: Ticker,
) -> IngestJob:  # fmt: skip
    """Open what is read, and decide what does not depend on all rows."""
    like = Dataset.open(plan.like, plan.storage_options) if plan.like else None
    plan, seen = in_dtype_of(like, plan), SeenFiles()
    source = source or source_of(plan, like, seen)
    scale = like.manifest.scaling.kind if like else plan.scale
    require_scalable(scale, source)
    expansion = source.parse_codes() if scale in ("auto", "none") else None
    digest = plan.digest(stamps(source), like.manifest.fingerprint if like else "")
    urls = [url for url in (plan.dataset, plan.test_url) if url is not None]
    folders = [Folder(url, plan.storage_options) for url in urls]
    targets = [IngestTarget(folder, digest) for folder in folders]
    work_dirs = work_dirs_of(folders, plan.spill)
    return IngestJob(
        plan, source, seen, like, expansion, digest, targets, work_dirs, threshold, threads, ticker
    )
