"""The additive part of a recipe: splines, pairs, and how they were chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import BaseModel, Field

from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.tables.encoding import terms
from fewpass.pipeline.tables.encoding.column_recipe import OF_RECIPES, ColumnRecipe
from fewpass.pipeline.tables.encoding.date_parts import Part
from fewpass.pipeline.tables.encoding.pair_tables import HatAxis, LevelAxis, PairTable
from fewpass.pipeline.tables.encoding.splines import Spline
from fewpass.pipeline.tables.encoding.variables import level_names, levels_among

ALIKE = 0.005  # shares of a loss that are hardly other ones


class TriedForm(BaseModel):
    """A form that was tried on held-out rows."""

    model_config = OF_RECIPES

    form: str
    """linear, splines, numbers as names, pairs, second round; all columns: the best with these."""
    features: int
    loss: float
    """Mean over the held-out rows, at the best lam tried, in the targets' own units."""
    lam: float
    """Of 1/n."""
    deviation: float = 0.0
    """Standard error of the difference of its loss from that of linear."""
    progressive: float | None = None
    """Mean loss of the sample's rows before they are learnt from, in one pass; None: not tried."""


class ChosenForm(BaseModel):
    """The choice of splines and pairs."""

    model_config = OF_RECIPES

    form: str
    rows: int
    """That the candidates learnt from."""
    held_out_rows: int
    held_out_by: str | None = None
    """A column of dates, the last rows by which are held out; None: rows drawn at random."""
    groups_of: Annotated[str | None, Field(exclude_if=lambda name: name is None)] = None
    """A column whose groups are held out as a whole; None: rows are."""
    agreed_by: Annotated[str | None, Field(exclude_if=lambda name: name is None)] = None
    """A column of dates by which it was better than linear at all times; None: none was asked."""
    candidates: tuple[TriedForm, ...] = ()
    """None: it was asked for."""
    smoothing: Annotated[float | None, Field(exclude_if=lambda share: share is None)] = None
    """Loss of held-out rows where each part has a strength of the penalty of its own, as a share of
    that by one strength for all; None: there is one."""
    looked_at: int = 0
    """Pairs whose interaction was measured."""
    measure: str
    """The loss that candidates were compared by, in words."""

    @property
    def figure(self) -> str:
        """Return the losses of the candidates in words: which loss, of which rows."""
        rows = f"{self.held_out_rows:,}"
        if self.held_out_by:
            rows = f"the last {rows} rows of the sample by {shown_name(self.held_out_by)}"
        elif self.held_out_rows > self.rows:
            rows += " rows of the sample, a fifth held out at a time"
        else:
            rows += " held-out rows of the sample"
        if self.groups_of:
            rows += f", those of one {shown_name(self.groups_of)} together"
        if self.agreed_by:
            rows += f", and of every fifth by {shown_name(self.agreed_by)}"
        return f"mean {self.measure} of {rows}"

    @property
    def strengths(self) -> str:
        """Return in a sentence whether each part has a strength of the penalty; "": none has."""
        if self.smoothing is None:
            return ""
        lose = f"held-out rows lose {self.smoothing:.3f} times what they do by one for all"
        if abs(self.smoothing - 1.0) < ALIKE:
            lose = "held-out rows lose about what they do by one for all"
        return f"Each column, curve and pair has a strength of the penalty of its own: {lose}."

    @property
    def loss(self) -> float:
        """Return the loss of the chosen form."""
        return self.best.loss

    @property
    def best(self) -> TriedForm:
        """Return the chosen form among those that were tried."""
        return next(one for one in self.candidates if one.form == self.form)


class Additive(BaseModel):
    """Splines and pairs next to the columns of a recipe."""

    model_config = OF_RECIPES

    splines: tuple[Spline, ...] = ()
    pairs: tuple[PairTable, ...] = ()
    rows: int = 0
    """Of the sample."""
    masses: tuple[tuple[float, ...], ...] = ()
    """Rows of the sample at every point of the grid of each variable, in the order of
    `shape_variables` (additive_shapes.py), the missing ones last."""
    chosen: ChosenForm | None = None

    @property
    def parts(self) -> tuple[Spline | PairTable, ...]:
        """Return the parts with output columns, in their order."""
        return (*self.splines, *self.pairs)


Columns = Mapping[str, ColumnRecipe]


def described_additive(additive: Additive, columns: Columns) -> Iterator[terms.ColumnTerms]:
    """Yield the terms of splines and pairs, each from its own first output column."""
    for spline in additive.splines:
        yield _of_spline(spline, columns)
    for pair in additive.pairs:
        yield _of_pair(pair, columns)


def _of_spline(spline: Spline, columns: Columns) -> terms.ColumnTerms:
    term = terms.HatsTerm(
        at=0, steps=steps_of(spline.column, spline.part, columns), knots=spline.knots,
        levels=spline.levels, alpha=spline.alpha, missing_as=spline.missing_as,
    )  # fmt: skip
    read = cell_of(spline.column, columns)
    return terms.ColumnTerms(columns=(spline.column,), read=read, terms=(term,))


def _of_pair(pair: PairTable, columns: Columns) -> terms.ColumnTerms:
    names = pair.a.column, pair.b.column
    a, b = cell_of(names[0], columns), cell_of(names[1], columns)
    term = terms.TableTerm(
        at=0, a=_axis(pair.a, columns), b=_axis(pair.b, columns),
        places=tuple(map(tuple, pair.places.tolist())), scale=pair.scale,
    )  # fmt: skip
    return terms.ColumnTerms(columns=names, read=terms.TwoCells(a=a, b=b), terms=(term,))


def cell_of(name: str, columns: Columns) -> terms.SingleCell:
    """Return how a column's cells are read, which is the same for all that it becomes."""
    read = columns[name].described().read
    assert isinstance(read, terms.NumberCell | terms.MomentCell | terms.WordCell), (
        "curves are not of lists"
    )
    return read


def steps_of(name: str, part: Part, columns: Columns) -> tuple[terms.Step, ...]:
    """Return the steps from a cell to a variable."""
    if part == "":
        return ()
    if part == "days":  # those of the column's own days, before they are standardised
        days = columns[name].described().terms[0]
        assert isinstance(days, terms.ValueTerm), "days come first"
        return days.steps[:-1]
    return (terms.DatePart(of=part),)


def _axis(
    axis: HatAxis | LevelAxis, columns: Columns
) -> terms.KnotAxis | terms.WordAxis | terms.CodeAxis:
    if isinstance(axis, HatAxis):
        steps = steps_of(axis.column, axis.part, columns)
        return terms.KnotAxis(steps=steps, knots=axis.knots, missing_as=axis.missing_as)
    if isinstance(columns[axis.column].described().terms[0], terms.WordTerm):
        return terms.WordAxis(values=axis.values)
    levels = levels_among(axis.values, level_names(columns[axis.column], axis.part))
    steps = steps_of(axis.column, axis.part, columns)
    return terms.CodeAxis(steps=steps, levels=tuple(levels.tolist()))
