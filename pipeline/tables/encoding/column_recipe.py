"""The interface of every kind of column: output columns, their names, and terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from fewpass.pipeline.tables.encoding.cells import Floats

if TYPE_CHECKING:
    from fewpass.pipeline.tables.encoding.terms import ColumnTerms

Codes = NDArray[np.int64]


#: Of everything that a recipe holds: what is read of a file must make numbers of cells.
OF_RECIPES = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
Deviation = Annotated[float, Field(gt=0.0)]
#: Omitted from JSON when None, so that stored recipes keep their bytes.
MissingAs = Annotated[float | None, Field(exclude_if=lambda number: number is None)]
#: What features are multiplied by; omitted when 1.
Factor = Annotated[float, Field(gt=0.0, exclude_if=lambda factor: factor == 1.0)]
LARGEST = float(np.finfo(np.float32).max)  # the largest feature


def require_sizes(what: str, *numbers: float) -> None:
    """Raise ValueError unless the features of a sample's own numbers are float32."""
    if any(not abs(number) <= LARGEST for number in numbers):
        raise ValueError(f"{what}: its mean and its deviation make no numbers of cells")


def require_ascending(what: str, numbers: Sequence[float], *, strictly: bool = False) -> None:
    """Raise ValueError unless numbers ascend."""
    steps = np.diff(numbers)
    if (steps <= 0.0).any() if strictly else (steps < 0.0).any():
        raise ValueError(f"{what} do not ascend")


class Slot(NamedTuple):
    """An entry of every row; those that are 0 are none."""

    column: Codes | int  # (n,) output columns; or one for all
    value: Floats  # (n,)


class ColumnRecipe(BaseModel):
    """The encoding of one column."""

    model_config = OF_RECIPES

    is_group: ClassVar[bool] = True
    """True where its features are one group of a penalty; words of a text and hashes are not."""

    name: str
    missing_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Of the sample's cells."""
    factor: Factor = 1.0
    """What its features are multiplied by: the l2 penalty charges those of a larger one less."""

    @property
    def outputs(self) -> list[str]:
        """Return the names of the output columns."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Return how many output columns there are."""
        return len(self.outputs)

    @property
    def n_slots(self) -> int:
        """Return about how many entries of a row the column has."""
        return 1

    @property
    def as_setting(self) -> str:
        """Return the kind as the setting `column` has it."""
        kind: str = getattr(self, "kind")  # noqa: B009 - every column has its own word
        return kind

    @property
    def wanted(self) -> str:
        """Return the noun and verb of expected cells, for messages."""
        return "a number was"

    @property
    def signs(self) -> NDArray[np.float64]:
        """Return the sign of each output column (width,) for the value that names it."""
        return np.ones(self.width)

    def signs_of(self, slots: Sequence[int], codes: Sequence[int]) -> NDArray[np.float64]:
        """Return the signs (width,) of hashes, the first of each slot; 1 where there is none."""
        signs = np.ones(self.width)
        for slot, code in zip(reversed(slots), reversed(codes), strict=True):
            signs[slot] = -1.0 if code < 0 else 1.0
        return signs

    @property
    def summary(self) -> str:
        """Return a phrase on the column's encoding."""
        raise NotImplementedError

    def described(self) -> ColumnTerms:
        """Return how a cell is read, and the entries that it has, as plain data."""
        raise NotImplementedError
