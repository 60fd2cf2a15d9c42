"""The steps of an ingest: rows are mapped, then written; gone on with after a kill.

An append has the same, with other places to write to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

from fewpass.pipeline.tables.ingest.ingest_job import IngestJob
from fewpass.pipeline.tables.ingest.mapped_source import MappedSource
from fewpass.pipeline.tables.ingest.mapping import RowMapper
from fewpass.pipeline.tables.ingest.piece_map import TRAINING
from fewpass.pipeline.tables.ingest.progress import IngestProgress, Progress
from fewpass.pipeline.tables.ingest.reading import raw_bytes
from fewpass.pipeline.tables.ingest.work_dir import MAPPED
from fewpass.pipeline.tables.ingest.writing import (
    ChunkMaker,
    GroupWriter,
    StoredAs,
    UnfilledChunk,
    WrittenRows,
)
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import KEY, Layout
from fewpass.storage.part_files import READ_AGAIN, DamagedPart
from fewpass.storage.writer import DatasetWriter

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor

Made = TypeVar("Made")
Steps = Generator[IngestProgress, None, Made]
#: What the groups of rows are called in records, by `TRAINING` and `TEST`.
ROWS_OF: Final = ("training", "test")


def run_to_the_end(steps: Steps[Made], progress: Progress) -> Made:
    """Do all steps, and report how far they are; return what they make."""
    with closing(steps):
        while True:
            try:
                progress(next(steps))
            except StopIteration as end:
                made: Made = end.value
                return made


def opening_of(
    executor: Executor | AbstractContextManager[Executor | None] | None,
) -> AbstractContextManager[Executor | None]:
    """Return what opens a cluster where something is to be done; nothing, where it is open."""
    return executor if isinstance(executor, AbstractContextManager) else nullcontext(executor)


def gone_on(
    job: IngestJob, write: Callable[[MappedSource], Steps[list[Dataset]]]
) -> Steps[tuple[list[Dataset], str | None]]:
    """Go on where an earlier call was cut short, or begin anew where that left damaged rows.

    Returns
    -------
    tuple
        What `write` makes of the rows, and what was damaged of those that an earlier call left.
    """
    damaged = None
    try:
        mapped = _resumed(job)
        if mapped is not None:
            return (yield from write(mapped)), None
    except DamagedPart as error:  # left so by an earlier process; of our own it is an error
        damaged = str(error).removesuffix(f" {READ_AGAIN}")
    job.begin_anew(keep_spans=damaged is None and not _is_replacing(job))
    for target in job.targets:
        target.folder.delete_partials()
        target.clear()
    mapped = yield from _mapped(job)
    return (yield from write(mapped)), damaged


def _is_replacing(job: IngestJob) -> bool:
    """Return whether a set that is there is to be made anew, whatever an earlier call has left."""
    return job.plan.overwrite and job.targets[TRAINING].folder.exists(KEY)


def _resumed(job: IngestJob) -> MappedSource | None:
    """Return the rows that an earlier call had read to files; None where there are none."""
    state = job.work_dir.recorded(MAPPED)
    if state is None or state.get("of") != job.identity:
        return None
    if _is_replacing(job):
        return None
    try:
        return MappedSource.from_state(job.plan, job.part_folder, job.identity, state["mapped"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        record = job.work_dir.path / f"{MAPPED}.json"
        raise DamagedPart(f"{record} is no record of rows ({error!r}). {READ_AGAIN}") from error


def _mapped(job: IngestJob) -> Steps[MappedSource]:
    """Give every row a key, and put it into a part, in memory or in a file."""
    job.ticker.begin_partition(raw_bytes(job.source), job.source.estimated_bytes())
    mapper = RowMapper(job)
    if job.executor is not None and mapper.is_divisible:
        mapped = yield from mapper.map_on(job.executor)
    else:
        mapped = yield from mapper.map(job.threads)
    job.target_map(mapped.counts)  # refuses bad labels before phase 2
    state = mapped.state()
    if state is not None:
        job.work_dir.record(MAPPED, {"of": job.identity, "mapped": state})
    return mapped


def written(
    job: IngestJob, mapped: MappedSource, number: int, writer: DatasetWriter, stored: StoredAs,
    chunk_bytes: int, unfilled: UnfilledChunk | None = None,
) -> Steps[WrittenRows]:  # fmt: skip
    """Write the training rows, or the test rows, as chunks.

    Parameters
    ----------
    number
        `TRAINING` or `TEST`.
    writer, stored
        Where to, and what rows become.
    chunk_bytes
        Decoded bytes of a chunk.
    unfilled
        Rows that stand in the first chunk with them.
    """
    maker = ChunkMaker(writer, stored, job.work_dir, ROWS_OF[number], unfilled)
    group = GroupWriter(maker, mapped.parts, number, chunk_bytes, job.plan.budget)
    if job.executor is None:
        return (yield from group.write(job.threads, job.ticker.wrote))
    mend = partial(RowMapper(job._replace(threshold=mapped.threshold)).mend, job.executor)
    return (yield from group.write_on(job.executor, job.ticker.wrote, mend))


class RowForm(NamedTuple):
    """Properties that rows of a data set have in common, as its manifest calls them."""

    layout: Layout
    n_features: int
    dtype: Literal["float32", "float64"]
    has_weight: bool
    has_offset: bool
    codes: int | None
    retained: tuple[str, ...]


def form_of(job: IngestJob, mapped: MappedSource) -> RowForm:
    """Return what the rows have in common once they are stored."""
    kind = mapped.parts.kind
    layout, dtype = kind.layout, kind.dtype
    if job.expansion is not None:
        layout, dtype = "sparse", job.plan.options.dtype
    of_rows = (kind.has_weight, kind.has_offset, job.codes, job.retained)
    return RowForm(layout, mapped.n_features, dtype, *of_rows)


def decoded_bytes(job: IngestJob, mapped: MappedSource, number: int) -> int:
    """Return the bytes of the training rows, or of the test rows, decoded and expanded."""
    kind, n_rows, n_bytes = mapped.parts.kind, *mapped.parts.size(number)
    if job.expansion is None:
        return n_bytes
    of_rows = 8 * (1 + kind.has_weight + kind.has_offset) + kind.retained_bytes
    return n_rows * (job.expansion.row_bytes(job.plan.options.dtype) + of_rows)
