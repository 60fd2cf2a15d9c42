"""An additive model as plain objects: what every column, and every pair, adds to a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.additive_shapes import (
    ColumnCurve,
    Function,
    LevelSteps,
    Shapes,
    Surface,
    deviation_of,
    title_of,
)
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.date_parts import SECONDS_OF_DAY
from fewpass.pipeline.tables.encoding.pair_tables import HatAxis, LevelAxis


@dataclass(frozen=True, eq=False)
class ColumnFunction:
    """Amount that a column adds to the score, at some of its values.

    Attributes
    ----------
    name : str
        The column's, or that of a part of a date, such as "day weekday".
    column, part : str
        The column, and what of it; "" is all.
    kind : {"curve", "levels"}
        A curve is linear between its points, and constant beyond.
    points : list (n,)
        Numbers, dates (datetime64) or words; the last is None, for missing cells.
    contributions : ndarray (n,)
        What is added there.
    rows : ndarray (n,)
        Rows of the sample there: the density.
    importance, share : float
        Standard deviation of what it adds to the sample's rows, and its share of all variances.
    """

    name: str
    column: str
    part: str
    kind: str
    points: list[Any]
    contributions: Floats
    rows: Floats
    importance: float
    share: float

    def to_pandas(self) -> Any:
        """Return a pandas frame of a row for each point; BadInput if pandas is not installed."""
        columns = {"at": self.points, "adds": self.contributions, "rows": self.rows}
        return _pandas().DataFrame(columns)


@dataclass(frozen=True, eq=False)
class PairFunction:
    """Amount that two columns add to the score beyond what each adds alone: a grid.

    Attributes
    ----------
    name, a, b : str
        Of the pair, and of its columns.
    points_a, points_b : list (A,), (B,)
        Numbers, between which it is linear, or words; the last is None, for missing cells.
    contributions : ndarray (A, B)
        What is added there.
    rows : ndarray (A, B)
        Rows of the sample there.  Where there are none, nothing was learnt.
    importance, share : float
        As of a column.
    selection : dict
        Figures by which the pair was taken; none of one that was asked for.
    """

    name: str
    a: str
    b: str
    points_a: list[Any]
    points_b: list[Any]
    contributions: Floats
    rows: Floats
    importance: float
    share: float
    selection: dict[str, Any]

    def to_pandas(self) -> Any:
        """Return the grid as a pandas frame, a down; BadInput if pandas is not installed."""
        pd = _pandas()
        down = pd.Index(self.points_a, name=self.a)
        return pd.DataFrame(self.contributions, down, pd.Index(self.points_b, name=self.b))


@dataclass(frozen=True, eq=False, repr=False)
class ModelShapes:
    """The functions of an additive model: its score is `constant` plus all of them.

    `shapes["hour"]` is a column's, `shapes["hour", "day"]` a pair's, in any order.

    Attributes
    ----------
    constant : float
        The score next to all functions, which are centred over the sample.
    columns : list of ColumnFunction
        name, column, part, kind, points, contributions, rows, importance, share.  The last of
        points, contributions and rows is that of missing cells.
    pairs : list of PairFunction
        name, a, b, points_a, points_b, contributions and rows (A, B), importance, share.
    rest : list of str
        Columns that are no functions, such as text, whose weights are their own.
    importances : list
        name, kind, importance and share of every function, the largest first.
    """

    constant: float
    columns: list[ColumnFunction]
    pairs: list[PairFunction]
    rest: list[str]
    importances: list[ShapeImportance]

    @classmethod
    def of(cls, shapes: Shapes) -> ModelShapes:
        """Return the functions as plain objects."""
        own = iter(in_their_order([shapes]))
        return cls(
            shapes.constant,
            [_column(one, next(own)) for one in shapes.columns],
            [_pair(one, next(own)) for one in shapes.pairs],
            [name for name, _ in shapes.rest], importances([shapes]),
        )  # fmt: skip

    def __repr__(self) -> str:
        columns, pairs = ([one.name for one in each] for each in (self.columns, self.pairs))
        return f"ModelShapes(constant={self.constant:.6g}, columns={columns}, pairs={pairs})"

    def __getitem__(self, name: str | tuple[str, str]) -> ColumnFunction | PairFunction:
        """Return a function by its name, or that of a pair by those of its columns."""
        every: list[ColumnFunction | PairFunction] = [*self.columns, *self.pairs]
        for one in every:
            if name == one.name or (isinstance(one, PairFunction) and _is_of(one, name)):
                return one
        names = ", ".join(repr(one.name) for one in self.importances[:20])
        raise KeyError(f"There is no function {name!r}. There are {names}.")

    def data(self) -> dict[str, Any]:
        """Return all as `fewpass explain RUN --json` writes it (`additive`), dates as text."""
        columns, pairs = [*map(_plain, self.columns)], [*map(_plain, self.pairs)]
        return {"constant": self.constant, "columns": columns, "pairs": pairs, "rest": self.rest}

    def to_pandas(self) -> Any:
        """Return `importances` as a pandas frame; BadInput if pandas is not installed."""
        return _pandas().DataFrame(self.importances)


def _plain(function: ColumnFunction | PairFunction) -> dict[str, Any]:
    each = ((one.name, getattr(function, one.name)) for one in fields(function))
    return {name: _listed(value) for name, value in each}


def _listed(value: Any) -> Any:
    """Return what JSON has words for."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [str(one) if isinstance(one, np.datetime64) else one for one in value]
    return value


def _is_of(pair: PairFunction, names: str | Sequence[str]) -> bool:
    return not isinstance(names, str) and sorted(names) == sorted((pair.a, pair.b))


def _column(function: ColumnCurve | LevelSteps, own: ShapeImportance) -> ColumnFunction:
    variable = function.variable
    return ColumnFunction(
        variable.title, variable.column, variable.part, kind_of(function),
        [*_points(function), None], function.values, function.masses, own.importance, own.share,
    )  # fmt: skip


def _points(function: ColumnCurve | LevelSteps) -> Sequence[Any]:
    if isinstance(function, LevelSteps):
        return function.names[:-1]
    places = places_of(function)
    if function.origin is None:
        numbers: list[float] = places.tolist()
        return numbers
    return [np.datetime64(int(second), "s") for second in places]


def _pair(function: Surface, own: ShapeImportance) -> PairFunction:
    table = function.table
    one, other = (variable.title for variable in table.of)
    return PairFunction(
        function.title, one, other, [*axis_values(table.a), None], [*axis_values(table.b), None],
        function.values, function.masses, own.importance, own.share,
        table.selection.model_dump() if table.selection else {},
    )  # fmt: skip


def _pandas() -> Any:
    try:
        import pandas as pd  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise BadInput("to_pandas needs pandas. Install it: pip install pandas.") from error
    return pd


# -- figures of functions ------------------------------------------------------------------------


class ShapeImportance(NamedTuple):
    """Importance of a function: how much it moves scores."""

    name: str
    kind: str  # curve, levels or pair
    importance: float  # standard deviation over the sample, in units of the score
    share: float  # of the sum of all functions' variances


def importances(each: Sequence[Shapes]) -> list[ShapeImportance]:
    """Return what every function moves the scores of all classes, the largest first."""
    return sorted(in_their_order(each), key=lambda one: (-one.importance, one.name))


def in_their_order(each: Sequence[Shapes]) -> list[ShapeImportance]:
    """Return the same function by function: the root of the mean square over classes."""
    deviations = np.array([[deviation_of(one) for one in shapes.functions] for shapes in each])
    squares = np.square(deviations).mean(axis=0)
    total = max(float(squares.sum()), 1e-300)
    return [
        ShapeImportance(title_of(one), kind_of(one), float(np.sqrt(square)), float(square) / total)
        for one, square in zip(each[0].functions, squares, strict=True)
    ]


def kind_of(function: Function) -> str:
    """Return what a function is drawn as."""
    if isinstance(function, Surface):
        return "pair"
    return "curve" if isinstance(function, ColumnCurve) else "levels"


def axis_values(axis: HatAxis | LevelAxis) -> Sequence[Any]:
    """Return the levels of an axis but the missing one: numbers or words."""
    return [*axis.knots] if isinstance(axis, HatAxis) else [*axis.names[:-1]]


def places_of(curve: ColumnCurve) -> Floats:
    """Return the points of a curve: of days those in seconds since 1970."""
    if curve.origin is None:
        return curve.grid
    seconds: Floats = curve.origin + curve.grid * SECONDS_OF_DAY
    return seconds
