"""Strengths of pairs: how much two columns tell together that both alone do not, a number each.

With g how the scores of rows should change, and h how surely, sum both over the rows of every cell
of two columns: G, H.  What columns alone can take is subtracted,

    R <- R - H (sum of R over rows / sum of H over rows),    the same over columns, three times

and what is left is a gain where it is more than chance leaves:

    gain  = sum of R^2 / (H + 1)
    df    = S(H) - S(H's row sums) - S(H's column sums) + S(H's sum),    S(v) = sum v / (v + 1)
    score = sum over classes of gain / phi - df,    z = score / sqrt(2 df)

with phi the mean g^2 of numbers, and max(1/2, sum g^2 / sum h) of labels.  A pair is taken where
its steps R / (H + 1) by every second row go with g of the other rows, and the other way round, by
two standard deviations: noise of many values does not.  docs/methods.md, section 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.additive.cell_sums import halves_agree, measure_tables
from fewpass.pipeline.tables.additive.knots import knots_of
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.variables import Variable
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows

BINS, LEVELS = 16, 64  # of numbers, and of the most frequent values of categories
FINER_LEVELS = 256  # of categories in pairs that the second round takes again
LEAST_PHI = 0.5
SIGNIFICANT = 3.0  # z
AGREED = 2.0  # deviations by which halves must agree

Codes = NDArray[np.int64]


class Binned(NamedTuple):
    """A variable in cells."""

    codes: Codes  # (n,)
    size: int


class Interaction(NamedTuple):
    """A pair of variables, and what it tells."""

    a: Variable
    b: Variable
    score: float
    z: float
    df: float


def binned_number(values: Floats) -> Binned:
    """Return the quantile cell of every number; the last is the missing ones'."""
    present = values[~np.isnan(values)]
    edges = np.asarray(knots_of(present, BINS)[1:]) if len(present) else np.zeros(0)
    codes = np.searchsorted(edges, values, side="right")
    return Binned(np.where(np.isnan(values), len(edges) + 1, codes), len(edges) + 2)


def binned_level(codes: Codes, n_levels: int, most: int) -> Binned:
    """Return the `most` frequent levels, one for all others between them and the missing ones'."""
    counts = np.bincount(codes, minlength=n_levels)
    frequent = np.argsort(-counts[:-1], kind="stable")[:most]
    own = np.full(n_levels, len(frequent))
    own[frequent] = np.arange(len(frequent))
    own[-1] = len(frequent) + 1
    return Binned(own[codes], len(frequent) + 2)


class VariablesInCells(NamedTuple):
    """Variables in cells."""

    usual: dict[Variable, Binned]
    finer: dict[Variable, Binned]  # more values of categories, for pairs that were taken before

    @classmethod
    def of(
        cls, variables: VariablesOfRows, numbers: Sequence[Variable], categories: Sequence[Variable]
    ) -> VariablesInCells:
        """Return all variables of rows."""
        usual = {variable: binned_number(variables.numbers(variable)) for variable in numbers}
        finer = dict(usual)
        for variable in categories:
            levels = variables.levels(variable)
            for cells, most in ((usual, LEVELS), (finer, FINER_LEVELS)):
                cells[variable] = binned_level(levels.codes, len(levels.names), most)
        return cls(usual, finer)

    def some(self, rows: Codes) -> VariablesInCells:
        """Return those of some rows."""
        usual, finer = (
            {variable: Binned(one.codes[rows], one.size) for variable, one in cells.items()}
            for cells in self
        )
        return VariablesInCells(usual, finer)

    def pair(self, of: tuple[Variable, Variable], *, finer: bool) -> tuple[Binned, Binned]:
        """Return the cells of two variables."""
        cells = self.finer if finer else self.usual
        return cells[of[0]], cells[of[1]]


def interactions(
    cells: dict[Variable, Binned], pairs: Sequence[tuple[Variable, Variable]], g: Floats,
    h: Floats, *, numbers: bool,
) -> list[Interaction]:  # fmt: skip
    """Return the interactions of pairs; g and h are (classes, n), h is 1 for numbers."""
    phis, place = phis_of(g, h, numbers=numbers), {one: k for k, one in enumerate(cells)}
    places = np.array([(place[a], place[b]) for a, b in pairs], np.int64).reshape(-1, 2)
    measured = _measured([*cells.values()], places, g, h, phis)
    return [Interaction(a, b, *of) for (a, b), of in zip(pairs, measured, strict=True)]


def phis_of(g: Floats, h: Floats, *, numbers: bool) -> Floats:
    """Return phi of every class."""
    least = 1e-30 if numbers else LEAST_PHI
    sums = zip(g, h, strict=True)
    return np.array([max(least, (a * a).sum() / max(b.sum(), 1e-30)) for a, b in sums])


class CellsMeasured(NamedTuple):
    """Figures of what a table tells beyond chance."""

    score: float
    z: float
    df: float


def of_levels(values: Binned, g: Floats, h: Floats, phis: Floats) -> CellsMeasured:
    """Return what a variable in cells tells, all of it."""
    places = np.array([[0, 1]])
    return next(_measured([alone(values), values], places, g, h, phis, centred=False))


def alone(values: Binned) -> Binned:
    """Return one cell for all rows."""
    return Binned(np.zeros(len(values.codes), np.int64), 1)


def _measured(
    cells: Sequence[Binned], places: Codes, g: Floats, h: Floats, phis: Floats, *,
    centred: bool = True,
) -> Iterator[CellsMeasured]:  # fmt: skip
    """Yield what the tables of cells tell; centred: beyond each of the two alone."""
    codes = np.array([one.codes for one in cells], np.int32).reshape(len(cells), g.shape[1])
    sizes, sums = np.array([one.size for one in cells]), np.empty((len(places), 2))
    measure_tables(codes, sizes, places, g, h, phis, centred, sums)
    for score, df in sums:
        z = score / math.sqrt(2.0 * df) if df > 0.0 else 0.0
        yield CellsMeasured(float(score), float(z), float(df))


def holds(
    one: Binned, other: Binned, g: Floats, h: Floats, phis: Floats, *, centred: bool = True
) -> bool:
    """Return whether both halves of the rows agree on a pair.

    That is, whether g of a half goes with the step of the other, by more than chance.
    """
    codes, sums = np.array([one.codes, other.codes], np.int32), np.empty(2)
    halves_agree(codes, one.size, other.size, g, h, phis, centred, sums)
    both, variance = sums.tolist()
    return bool(both > AGREED * math.sqrt(variance))


def ranked(measured: Sequence[Interaction]) -> list[Interaction]:
    """Return the significant pairs, those of the highest scores first."""
    significant = [one for one in measured if one.z > SIGNIFICANT]
    return sorted(significant, key=lambda one: (-one.score, one.a, one.b))
