"""The description of a recipe as plain data: how cells are read, and the terms of each column.

A cell is read as a number, a moment, a word or a list; each term puts values into output columns,
a number behind steps.  Files are encoded by it (apply_terms.py), and exports and predictions of
single rows are made of it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, computed_field

from fewpass.pipeline.tables.encoding.cells import (
    NOT_FINITE,
    NOTHING,
    SHAPES,
    Written,
    are_flags,
)
from fewpass.pipeline.tables.encoding.column_recipe import OF_RECIPES, Factor, MissingAs
from fewpass.pipeline.tables.encoding.moments import no_date_in
from fewpass.pipeline.tables.encoding.text import Grams

At = Annotated[int, Field(ge=0)]


class _Plain(BaseModel):
    model_config = OF_RECIPES


class NumberCell(_Plain):
    """A number; missing where it is not finite."""

    cell: Literal["number"] = "number"
    written: Written = "plain"
    """As text: 1234.5 (plain), 1.234,5 (comma), $1,234.5 (units), 11:47 in seconds (clock)."""
    missing: tuple[str, ...] = ()
    """Words that stand for a missing number."""
    takes_words: bool = False
    """True where cells that are no numbers are missing, and not bad."""
    required: bool = False
    """True where rows without it are refused."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def shape(self) -> str:
        """Return the pattern of text that is such a number: no other text is."""
        return SHAPES[self.written]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def nothing(self) -> str:
        """Return the pattern of other text that is missing; all else is a word."""
        return f"{NOTHING}|{NOT_FINITE}" if self.written == "plain" else NOTHING


class MomentCell(_Plain):
    """A date or a time, as seconds since 1970; missing in the years 1 and 9999."""

    cell: Literal["moment"] = "moment"
    form: str | None = None
    """Of text, for `strptime`, several with a bar between; None: ISO 8601.  s, ms, us, ns: of
    numbers."""
    missing: tuple[str, ...] = ()
    """Words that stand for a missing moment."""
    standins: tuple[float, ...] = ()
    """Moments that do."""
    first_year: int | None = None
    """Of the hundred that years of two digits are of; None: 1969, as `strptime` has it."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def nothing(self) -> str:
        """Return the pattern of other missing text, such as a 30 February; all else is bad."""
        return no_date_in(self.form)


class WordCell(_Plain):
    """A word, or a text; missing where it is empty."""

    cell: Literal["word"] = "word"
    missing: tuple[str, ...] = ()
    """Words that stand for a missing one."""


class PairCell(_Plain):
    """The words of two columns, with something between; missing where one is."""

    cell: Literal["pair"] = "pair"
    between: str
    missing: tuple[str, ...] = ()
    """Words that stand for a missing one, in either column."""


class ListCell(_Plain):
    """A list of words, a list of numbers, or names with a number each."""

    cell: Literal["words", "numbers", "map"]


SingleCell = Annotated[NumberCell | MomentCell | WordCell, Field(discriminator="cell")]


class TwoCells(_Plain):
    """The cells of two columns, each read by itself."""

    cell: Literal["two"] = "two"
    a: SingleCell
    b: SingleCell


Cell = Annotated[
    NumberCell | MomentCell | WordCell | PairCell | ListCell | TwoCells, Field(discriminator="cell")
]


class Clip(_Plain):
    """At least `low`, at most `high`."""

    step: Literal["clip"] = "clip"
    low: float
    high: float


class LogOfOneMore(_Plain):
    """log(1 + x)."""

    step: Literal["log1p"] = "log1p"


class Standardise(_Plain):
    """(x - mean) / deviation."""

    step: Literal["standardise"] = "standardise"
    mean: float
    deviation: float


class Interpolate(_Plain):
    """Straight lines between points (x, y), whose x ascend; beyond, the first and the last y."""

    step: Literal["interpolate"] = "interpolate"
    x: tuple[float, ...]
    y: tuple[float, ...]


class AtMost(_Plain):
    """1 up to a bound, 0 beyond."""

    step: Literal["at_most"] = "at_most"
    bound: float


class InYears(_Plain):
    """A moment from `first` to `last`: earlier and later ones move by whole years, if it has any.

    A year has 365.25 days.
    """

    step: Literal["in_years"] = "in_years"
    first: float
    last: float


class DatePart(_Plain):
    """Weekday (0 is Monday), month or hour of a moment, from 0; its day of the year, from 1.

    The time of day is hours since midnight, and no whole number.
    """

    step: Literal["part"] = "part"
    of: Literal["weekday", "month", "hour", "day of the year", "time of day"]


class Range(_Plain):
    """The number of edges that a number is not below."""

    step: Literal["range"] = "range"
    edges: tuple[float, ...]


Step = Annotated[
    Clip | LogOfOneMore | Standardise | Interpolate | AtMost | InYears | DatePart | Range,
    Field(discriminator="step"),
]


class ValueTerm(_Plain):
    """The number, behind its steps, in one output column; 0 where it is missing."""

    term: Literal["value"] = "value"
    at: At
    steps: tuple[Step, ...] = ()


class MissingTerm(_Plain):
    """1 in an output column where the cell is missing."""

    term: Literal["missing"] = "missing"
    at: At


class CodeTerm(_Plain):
    """1 in the output column `at` + the number behind its steps; nothing where it is missing."""

    term: Literal["code"] = "code"
    at: At
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    width: At


class WordTerm(_Plain):
    """1 in the output column of the word; behind these that of other words, and of missing ones."""

    term: Literal["word"] = "word"
    at: At
    values: tuple[str, ...]

    @property
    def any_case(self) -> bool:
        """Return whether words are alike in any case: those that are true and false."""
        return are_flags(self.values)


class HashTerm(_Plain):
    """The sign of MurmurHash3(prefix + word) in the output column `at` + abs(hash) mod 2^bits.

    A missing word has 1 behind these.
    """

    term: Literal["hash"] = "hash"
    at: At
    prefix: str
    bits: At


class TextTerm(_Plain):
    """Words and pairs of words, or runs of characters, hashed to 2^bits columns and weighted."""

    term: Literal["text"] = "text"
    at: At
    bits: At
    grams: Grams
    idf: str
    """Of every column, a byte each in sixteenths; zlib, base64."""


class TagsTerm(_Plain):
    """1 in the column of each word of a list; words that have none have the last together."""

    term: Literal["tags"] = "tags"
    at: At
    values: tuple[str, ...]


class VectorTerm(_Plain):
    """(x - mean) / deviation of every number of a list; a missing list has 1 behind these."""

    term: Literal["vector"] = "vector"
    at: At
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


class MapTerm(_Plain):
    """The number of each name, times its scale; names that have no column count in the last."""

    term: Literal["map"] = "map"
    at: At
    names: tuple[str, ...]
    scale: tuple[float, ...]


class HatsTerm(_Plain):
    """A curve: the features of `fewpass.pipeline.tables.encoding.splines`.

    A missing number counts as `missing_as`; where there is no such number, it has no features.
    u goes from 0 to 1, by equal steps from knot to knot.  In `at` is u - 1/2; of every level j from
    1 on, in `at` + 2^(j-1) + i, is 2^(-alpha j) max(0, 1 - abs(2^j u - (2 i + 1))).
    """

    term: Literal["hats"] = "hats"
    at: At
    steps: tuple[Step, ...] = ()
    knots: tuple[float, ...]
    levels: At
    alpha: float
    missing_as: MissingAs = None
    """Behind the steps."""


class KnotAxis(_Plain):
    """A number between two of some knots: two levels, with shares that sum to 1.

    A missing one counts as `missing_as`; where there is no such number, it has the level behind
    those of the knots, usually without an output column.
    """

    axis: Literal["knots"] = "knots"
    steps: tuple[Step, ...] = ()
    knots: tuple[float, ...]
    missing_as: MissingAs = None
    """Behind the steps."""


class WordAxis(_Plain):
    """A word among some; others have the level behind these, and missing ones the next."""

    axis: Literal["words"] = "words"
    values: tuple[str, ...]

    @property
    def any_case(self) -> bool:
        """Return whether words are alike in any case."""
        return are_flags(self.values)


class CodeAxis(_Plain):
    """A code, as a part of a date is one; the last level is that of missing ones."""

    axis: Literal["codes"] = "codes"
    steps: tuple[Step, ...]
    levels: tuple[int, ...]
    """Of each code, and last of missing ones."""


Axis = Annotated[KnotAxis | WordAxis | CodeAxis, Field(discriminator="axis")]


class TableTerm(_Plain):
    """`scale` times the shares of two cells' levels, in the output column of both."""

    term: Literal["table"] = "table"
    at: At
    a: Axis
    b: Axis
    places: tuple[tuple[int, ...], ...]
    """Behind `at`, of each level of a and of b; -1: there is none."""
    scale: float


NumberTerm = ValueTerm | MissingTerm | CodeTerm
Term = Annotated[
    NumberTerm
    | WordTerm
    | HashTerm
    | TextTerm
    | TagsTerm
    | VectorTerm
    | MapTerm
    | HatsTerm
    | TableTerm,
    Field(discriminator="term"),
]


class ColumnTerms(_Plain):
    """One column of a table, or two: crossed, or as a function of both."""

    columns: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)]
    """Their names."""
    read: Cell
    terms: tuple[Term, ...]
    factor: Factor = 1.0
    """What all their values are multiplied by."""

    def behind(self, first: int, factor: float) -> ColumnTerms:
        """Return a copy whose output columns begin at `first`, and whose values have a factor."""
        moved = tuple(t.model_copy(update={"at": t.at + first}) for t in self.terms)
        return self.model_copy(update={"terms": moved, "factor": factor})

    def where_missing(self, words: tuple[str, ...]) -> ColumnTerms:
        """Return a copy that takes words for missing ones, where it reads any."""
        return self.model_copy(update={"read": where_missing(self.read, words)})


def where_missing(read: Any, words: tuple[str, ...]) -> Any:
    """Return how a cell is read where words stand for a missing one; of numbers they do not."""
    if isinstance(read, WordCell | PairCell):
        return read.model_copy(update={"missing": words})
    if isinstance(read, TwoCells):
        both = {own: where_missing(getattr(read, own), words) for own in "ab"}
        return read.model_copy(update=both)
    return read
