"""Which rows are stored dense that come as sparse ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.scaling import FEWEST_ROWS, MOST_ROWS, resolved
from fewpass.pipeline.settings.ingest_plan import ScalingKind
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.ingest.lost_digits import note_on_lost_digits
from fewpass.pipeline.tables.readers.filled import FilledSource, filled, first_rows
from fewpass.pipeline.tables.readers.source import Source, add_notes
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import SparseTable, cut

#: Share of the cells that must be there before rows are stored dense without being asked for.
MOSTLY_THERE = 0.5

Layout = Literal["auto", "dense", "sparse"]


def laid_out(
    open_: Callable[[SourceOptions], Source],
    options: SourceOptions,
    layout: Layout,
    scale: ScalingKind | Literal["auto"],
) -> Source:
    """Open a source, its sparse rows as dense ones where that is asked for or `auto` means it.

    Parameters
    ----------
    open_
        Opens it.
    options
        How it is read; without `n_features` dense rows are as wide as the first of them.
    layout
        `auto` stores rows dense where more than half of their cells are there and columns differ in
        size as `scale=auto` has it: only dense rows can be standardised.
    scale
        What was asked for.

    Raises
    ------
    BadInput
        When a table is to be sparse, or what it raises that opens the source.
    """
    found = _laid_out(open_, options, layout, scale)
    if found.schema is None or found.schema.encoding is None:
        lost = note_on_lost_digits(found, open_, options)
        if lost:
            add_notes(found, lost)
    return found


def _laid_out(
    open_: Callable[[SourceOptions], Source],
    options: SourceOptions,
    layout: Layout,
    scale: ScalingKind | Literal["auto"],
) -> Source:
    source = open_(options)
    encoded = source.schema is not None and source.schema.encoding is not None
    if encoded and layout != "auto":
        raise BadInput(
            "The columns of a table are encoded to the smaller of dense and sparse rows. Leave "
            "`layout` out."
        )
    if source.layout == "dense" and layout == "sparse":
        raise BadInput(
            "The source has a value in every cell, so its rows are dense. Leave `layout` out."
        )
    if source.layout == "dense" or layout == "sparse" or encoded:
        return source
    if layout == "auto" and scale != "auto":
        return source
    first, _ = first_rows(source)
    width = options.n_features or int(first.indices.max(initial=-1)) + 1
    if layout == "auto" and not _is_better_dense(first, width):
        return source
    return FilledSource(open_(options.model_copy(update={"n_features": width})), width)


def laid_out_like(like: Dataset, source: Source) -> Source:
    """Return a source that gives dense rows where those of a data set are dense."""
    if like.manifest.layout == "dense" and source.layout == "sparse":
        return FilledSource(source, like.n_features)
    return source


def _is_better_dense(first: SparseTable, width: int) -> bool:
    if first.n_rows < FEWEST_ROWS or first.data.size <= MOSTLY_THERE * first.n_rows * width:
        return False
    few = cut(first, 0, min(first.n_rows, MOST_ROWS))
    assert isinstance(few, SparseTable), "a part of sparse rows"
    return resolved("auto", filled(few, width), encoded=False) == "standard"
