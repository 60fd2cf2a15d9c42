"""Rows that come as numbers already (Parquet, NPY, NPZ): checked like those from text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.label_texts import LabelTexts
from fewpass.pipeline.tables.readers.rejection import Fault, without_bad_rows
from fewpass.pipeline.tables.readers.source import LARGEST, ParsedRows, Piece, numbered
from fewpass.storage.table import MOST_WEIGHT, DenseTable, SparseTable, Table, are_weights

_FILL = "Count missing values as zeros (`missing=zero`),"


class Targets(NamedTuple):
    """Targets of some rows: numbers, or codes into `labels`; NaN where there is none."""

    values: NDArray[np.float64]  # (n,)
    labels: tuple[str, ...] | None
    texts: LabelTexts | None = None  # see `ParsedRows`


def refuse_text_settings(options: SourceOptions, kind: str) -> None:
    """Refuse settings that only make sense for text."""
    for setting in ("delimiter", "header", "zero_based"):
        if getattr(options, setting) not in {None, False}:
            raise BadInput(f"`{setting}` is a setting for text, but this is {kind}. Leave it out.")


def narrowed(values: NDArray[np.generic], dtype: str) -> NDArray[np.floating]:
    """Own copy of the numbers as `dtype`; what is too large for it becomes infinite."""
    with np.errstate(over="ignore"):
        return np.array(values, dtype, order="C")


def checked(
    piece: Piece,
    table: Table,
    targets: Targets | None,
    titles: Sequence[str],
    options: SourceOptions,
) -> ParsedRows:
    """Refuse or drop the bad rows of a table, and hand on the rest.

    Parameters
    ----------
    piece
        Where the rows are from.
    table
        Owned by the caller: missing features are overwritten by zeros if the options say so.
    targets
        What the table's targets are; None: numbers.
    titles
        (d,) columns as messages call them; unused for sparse rows.
    options
        How to read the source.

    Raises
    ------
    BadInput
        The first bad row, unless the options say to skip such rows.
    """
    labels, texts = (targets.labels, targets.texts) if targets else (None, None)
    faults = [*faults_of_features(table, titles, options), *_of_target(table, options)]
    where = numbered(piece, table.n_rows)
    good = without_bad_rows(
        table, faults, piece.file, options.on_bad_row, "row", where, texts=texts
    )
    return ParsedRows(
        good.table, labels, _widest(good.table), good.skipped, good.n_skipped,
        texts=good.texts,
    )  # fmt: skip


def _widest(table: Table) -> int:
    if isinstance(table, DenseTable):
        return int(table.X.shape[1]) - 1
    return int(table.indices.max(initial=-1))


def faults_of_features(
    table: Table, titles: Sequence[str], options: SourceOptions
) -> Iterator[Fault]:
    """Yield faults of values, after missing ones became zeros where the options say so."""
    values = table.X if isinstance(table, DenseTable) else table.data
    if options.missing == "zero":
        values[np.isnan(values)] = 0.0
    largest = LARGEST[options.dtype]
    if are_usual(values, largest).all():
        return
    if isinstance(table, SparseTable):
        yield _in_sparse(table, options)
        return
    for k in np.flatnonzero(~are_usual(table.X, largest).all(axis=0)).tolist():
        column = table.X[:, k]
        yield Fault(np.isnan(column), f"the value in {titles[k]} is missing", _FILL)
        fact = f"the value in {titles[k]} is not finite in {options.dtype}, or too large to square"
        yield Fault(np.abs(column) > largest, fact, "Correct it,")


def are_usual(values: NDArray[np.floating], largest: float) -> NDArray[np.bool_]:
    """Say which numbers are finite, and no larger than `largest`."""
    usual: NDArray[np.bool_] = np.abs(values) <= largest
    return usual


def _in_sparse(table: SparseTable, options: SourceOptions) -> Fault:
    entries = np.flatnonzero(~are_usual(table.data, LARGEST[options.dtype]))
    rows = np.zeros(table.n_rows, np.bool_)
    rows[np.searchsorted(table.indptr, entries, side="right") - 1] = True
    column = int(table.indices[entries[0]])
    fact = (
        f"a value is missing or not finite in {options.dtype}, or too large to square (first in "
        f"column {column})"
    )
    return Fault(rows, fact, "Correct it,")


def _of_target(table: Table, options: SourceOptions) -> Iterator[Fault]:
    fact = "the target is not finite, a number was expected"
    yield Fault(np.isinf(table.target), fact, "Correct it,")
    if options.label_required:
        yield Fault(np.isnan(table.target), "the target is missing", "Fill it in,")
    if table.weight is not None:
        fact = f"the weight is negative, missing or above {MOST_WEIGHT:g}"
        yield Fault(~are_weights(table.weight), fact, "Give weights of at least 0,")
