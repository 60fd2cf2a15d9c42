"""The source of an ingest's plan, read like the data set that it follows."""

from __future__ import annotations

from typing import Any, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_options import SourceOptions, unusual
from fewpass.pipeline.tables.ingest.layout import laid_out, laid_out_like
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.held_out_rows import split_asked
from fewpass.pipeline.tables.readers.seen_files import SeenFiles
from fewpass.pipeline.tables.readers.source import Source
from fewpass.storage.column_schema import Schema
from fewpass.storage.dataset import Dataset
from fewpass.storage.hashed_names import HashedNames
from fewpass.storage.manifest import TakenFile


def source_of(plan: IngestPlan, like: Dataset | None, seen: SeenFiles | None = None) -> Source:
    """Open the files that a plan names; their columns are those of `like`, where it is given.

    Those among `seen` are left out; NothingNew where none is left.
    """
    retained = retained_names(plan, like)
    options = plan.options
    dropped = [name for name in retained if name not in options.drop]
    if dropped and like is None:
        options = options.model_copy(update={"drop": (*options.drop, *dropped)})
    if like is not None:
        if options.n_features not in (None, like.n_features):
            raise BadInput(
                f"`n_features={options.n_features}` is given, but the data set given as `like` has "
                f"{like.n_features}. Leave it out."
            )
        options = options.model_copy(update={"n_features": like.n_features})
    expected = Expected(
        like.schema if like else None,
        f"the data set {plan.like}",
        plan.budget,
        split=split_asked(plan, plan.seed),
        task=plan.task,
        held_out=plan.test_fraction,
        seed=plan.seed,
        passed=retained,
        may_curve=plan.scale == "auto",
        seen=seen,
    )

    def opened(how: SourceOptions) -> Source:
        return open_source(plan.sources, how, plan.storage_options, expected)

    if like is not None:
        return laid_out_like(like, opened(options))
    return laid_out(opened, options, plan.layout, plan.scale)


def retained_names(plan: IngestPlan, like: Dataset | None) -> tuple[str, ...]:
    """Return the columns that are kept as they are written: those of `like`, where it is given."""
    if like is None:
        return plan.keep
    if plan.keep and plan.keep != like.manifest.retained:
        raise BadInput(
            f"`keep` names {', '.join(plan.keep)}, and the data set given as `like` keeps "
            f"{', '.join(like.manifest.retained) or 'no column'}. Leave it out."
        )
    return like.manifest.retained


class FirstLook(NamedTuple):
    """The kinds of a table's columns by its first rows."""

    kinds: dict[str, str]  # by column, as the setting `column` has it; none where rows are numbers
    notes: tuple[str, ...]  # warnings and advice


def first_look(plan: IngestPlan) -> FirstLook:
    """Look at the first rows; raises BadInput where `ingest` does, before it has read all rows."""
    like = Dataset.open(plan.like, plan.storage_options) if plan.like else None
    counted = plan.options.model_copy(update={"idf": "sample"})  # kinds do not depend on it
    source = source_of(plan.model_copy(update={"options": counted}), like)
    return FirstLook(source.kinds, source.notes)


def in_dtype_of(like: Dataset | None, plan: IngestPlan) -> IngestPlan:
    """Store features in the type of `like`'s where no other was asked for."""
    usual = plan.options.dtype == SourceOptions.model_fields["dtype"].default
    if like is None or not usual:
        return plan
    options = plan.options.model_copy(update={"dtype": like.manifest.dtype})
    return plan.model_copy(update={"options": options})


def schema_of(source: Source, options: SourceOptions) -> Schema | None:
    """Return the columns, and how they were read, as data sets and runs store both."""
    if source.schema is None:
        return None
    reading = source.schema.reading | unusual(options)
    return source.schema.model_copy(update={"reading": reading})


def hashed_names_of(source: Source) -> HashedNames:
    """Return names of columns that names are hashed to; empty where no names are.

    To be asked before rows are read: standard input has its beginning until then.
    """
    return source.hashed_names()


def stamps(source: Source) -> list[Any]:
    """Name, size and version of every file: the time of change, or what the store says."""
    return [file.stamp for file in source.files]


def taken_of(source: Source) -> list[TakenFile]:
    """Return the records by which an append recognises files."""
    return [taken for file in source.files if (taken := file.taken())]


def total_bytes(source: Source) -> int | None:
    """Return the bytes of all files as stored; None where a store does not say."""
    sizes = [file.bytes for file in source.files]
    return None if None in sizes else sum(size for size in sizes if size)


def raw_bytes(source: Source) -> int | None:
    """Return the bytes that are parsed; None where files are compressed."""
    packed = source.packed or any(file.packed for file in source.files)
    return None if packed else total_bytes(source)
