"""The rows of a piece that are learnt from: those of a weight above 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.source import ParsedRows
from fewpass.storage.table import take


def counting(parsed: ParsedRows) -> ParsedRows:
    """Leave out rows of weight 0, as if they were not there, and labels that no row has."""
    weight = parsed.table.weight
    if weight is not None and not weight.all():
        parsed = _without(parsed, np.flatnonzero(weight == 0.0))
    left_out = parsed.n_skipped or parsed.n_weightless
    return _with_own_labels(parsed, parsed.labels) if left_out and parsed.labels else parsed


def _without(parsed: ParsedRows, gone: NDArray[np.int64]) -> ParsedRows:
    rows, among = np.delete(np.arange(parsed.table.n_rows), gone), parsed.among
    if among is not None:
        among = among.without(among.good[gone])
        among = among if parsed.labels is None else among._replace(target=_coded(among.target)[1])
    return parsed._replace(
        table=take(parsed.table, rows), n_weightless=len(gone), among=among,
        texts=None if parsed.texts is None else parsed.texts.subset(rows),
        split=None if parsed.split is None else parsed.split[rows],
        passed=tuple(cells.take(rows) for cells in parsed.passed),
    )  # fmt: skip


def _with_own_labels(parsed: ParsedRows, labels: tuple[str, ...]) -> ParsedRows:
    used, codes = _coded(parsed.table.target)
    own = tuple(labels[k] for k in used.astype(np.int64).tolist())
    return parsed._replace(table=parsed.table._replace(target=codes), labels=own)


def _coded(target: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the codes that rows (n,) have in the order in which they come, and their places there.

    Held-out rows are drawn by that order. A missing target stays NaN.
    """
    used, first, kind = np.unique(target, return_index=True, return_inverse=True)
    order = np.argsort(first[~np.isnan(used)])
    places = np.full(len(used), np.nan)
    places[order] = np.arange(len(order))
    return used[order], places[kind]
