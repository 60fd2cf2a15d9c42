"""Purify surfaces: subtract the functions of single columns."""

from __future__ import annotations

import numpy as np

from fewpass.pipeline.tables.encoding.cells import Floats

MOST_SWEEPS, CONVERGED = 200, 1e-13  # of purification


def purified(values: Floats, masses: Floats) -> tuple[Floats, Floats, Floats]:
    """Return a table (A, B) without weighted means of rows and columns, and these: (A,), (B,)."""
    rows, columns = np.zeros(len(values)), np.zeros(values.shape[1])
    by_row, by_column = masses.sum(axis=1), masses.sum(axis=0)
    scale = max(float(np.abs(values).max(initial=0.0)), 1e-300)
    for _ in range(MOST_SWEEPS):
        r = (masses * values).sum(axis=1) / np.where(by_row > 0.0, by_row, 1.0)
        values = values - r[:, None]
        c = (masses * values).sum(axis=0) / np.where(by_column > 0.0, by_column, 1.0)
        values, rows, columns = values - c, rows + r, columns + c
        if max(np.abs(r).max(), np.abs(c).max()) <= CONVERGED * scale:
            break
    return values, rows, columns
