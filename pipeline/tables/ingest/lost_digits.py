"""Columns whose numbers differ by less than float32 can tell: all of them become one number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.source import HashesNames, Source
from fewpass.storage.table import DenseTable, Table

Vector = NDArray[np.float64]

#: Raw bytes of the first rows that are looked at.
_LOOK_BYTES = 1 << 18
MOST_NAMED = 5
#: Below, float32 holds every whole number.
_LARGE = float(1 << 24)


def note_on_lost_digits(
    source: Source, open_: Callable[[SourceOptions], Source], options: SourceOptions
) -> tuple[str, ...]:
    """Say which columns float32 makes next to constant, by the first rows; nothing if none.

    Parameters
    ----------
    source
        Of plain numbers.
    open_
        Opens it with other options.
    options
        That it was opened with.
    """
    if options.dtype != "float32":
        return ()
    try:
        lost = _lost(_first(source), lambda: _first(open_(_exactly(options))))
    except BadInput:  # which is told when all rows are read
        return ()
    if not lost.size:
        return ()
    helps = "Store them with `dtype=float64`"
    if isinstance(source, HashesNames):
        helps = "Subtract from them what they have in common"
    elif source.schema is not None and source.schema.names is not None:
        helps += ", or encode the columns (`encode=always`)"
    told = ", ".join(_titles(source, lost[:MOST_NAMED].tolist()))
    more = ", ..." if lost.size > MOST_NAMED else ""
    said = (
        f"The numbers of {told}{more} differ by less than float32 can tell, which makes them next "
        f"to constant. {helps}."
    )
    return (said,)


def _titles(source: Source, columns: list[int]) -> Iterator[str]:
    """Yield what to call columns."""
    names: Any = {}
    if isinstance(source, HashesNames):
        names = source.hashed_names()
    elif source.schema is not None and source.schema.feature_names is not None:
        names = dict(enumerate(source.schema.feature_names))
    for k in columns:
        yield shown_name(names[k]) if k in names else f"column {k} (counted from 0)"


def _exactly(options: SourceOptions) -> SourceOptions:
    return options.model_copy(update={"dtype": "float64"})


def _first(source: Source) -> Table | None:
    piece = next(iter(source.pieces(_LOOK_BYTES)), None)
    return None if piece is None else source.parse(piece).table


def _lost(rounded: Table | None, exact: Callable[[], Table | None]) -> NDArray[np.int64]:
    """Return the columns of numbers that are not all the same, and next to that when rounded."""
    none = np.zeros(0, np.int64)
    if rounded is None:
        return none
    columns, largest, deviation = _spread(rounded)
    few = columns[(largest >= _LARGE) & (deviation <= _step(largest))]
    if not few.size or (table := exact()) is None:
        return none
    columns, largest, deviation = _spread(table)
    varies = (deviation > 0.0) & (deviation <= _step(largest)) & (largest >= _LARGE)
    return np.intersect1d(columns[varies], few)


def _step(largest: Vector) -> Vector:
    """Return how far numbers (m,) of float32 are apart."""
    return np.spacing(largest.astype(np.float32)).astype(np.float64)


def _spread(table: Table) -> tuple[NDArray[np.int64], Vector, Vector]:
    """Return columns (m,), and of the values of each the largest and the deviation."""
    if isinstance(table, DenseTable):
        X = table.X.astype(np.float64)
        return np.arange(X.shape[1]), np.abs(X).max(axis=0, initial=0.0), _deviation(X)
    columns, places = np.unique(table.indices, return_inverse=True)
    values, largest = table.data.astype(np.float64), np.zeros(len(columns))
    np.maximum.at(largest, places, np.abs(values))
    near = values - values[np.unique(places, return_index=True)[1]][places]
    counts = np.maximum(np.bincount(places, minlength=len(columns)), 1)
    mean = np.bincount(places, near, minlength=len(columns)) / counts
    squares = np.bincount(places, (near - mean[places]) ** 2, minlength=len(columns))
    return columns.astype(np.int64), largest, np.sqrt(squares / counts)


def _deviation(X: Any) -> Vector:
    found: Vector = (X - X[:1]).std(axis=0) if len(X) else np.zeros(X.shape[1])
    return found
