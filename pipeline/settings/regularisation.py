"""lam in any of its forms: a number, a multiple of 1/n, a share of the largest, or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import GetJsonSchemaHandler
from pydantic_core import core_schema

from fewpass.pipeline.errors import BadInput
from fewpass.solvers.bad_input import LARGEST, SMALLEST, beyond_bounds, shown


class Factor(NamedTuple):
    """One value of lam: a number, and what it is a share of."""

    number: float
    unit: str = ""  # "/n": of 1/n; "max": of the smallest lam that makes all weights 0


UNITS = ("/n", "max")
AUTO = "auto"  # the word for a lam that held-out rows choose
PATH = "path"  # the word for PATH_LENGTH values from the largest to PATH_END of it
PATH_LENGTH, PATH_END = 20, 0.01
_POSITIVE = r"\s*\+?(?=[0.]*[1-9])(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"
#: Text that may be a lam, for forms that are checked elsewhere.
PATTERN = rf"^({AUTO}|{PATH}|{_POSITIVE}(/\s*n|m\s*ax)?\s*(,{_POSITIVE}(/\s*n|m\s*ax)?\s*)*)$"


@dataclass(frozen=True)
class Lam:
    """Strengths of regularisation, parsed once.

    Attributes
    ----------
    written
        As the user gave them; what plans are stored with.
    factors
        For each the number and its unit.
    """

    written: float | str
    factors: tuple[Factor, ...]

    @classmethod
    def of(cls, written: Any) -> Lam:
        """Read 0.1, "10/n", ".1max", "1e-3,1/n" or "auto"; BadInput when it is something else."""
        if isinstance(written, Lam):
            return written
        if written == AUTO:
            return cls(AUTO, (Factor(1.0, "/n"),))  # 1/n is what all begin with
        if written == PATH:
            return cls(PATH, tuple(Factor(share, "max") for share in shares_of_path()))
        written = written.item() if hasattr(written, "item") else written  # of NumPy
        if not isinstance(written, int | float | str) or isinstance(written, bool):
            raise _unreadable(written)
        if isinstance(written, int) and beyond_bounds(written):
            raise _unreadable(written)  # of thousands of digits, maybe
        factors = tuple(_factor(one, written) for one in str(written).split(","))
        if len(set(factors)) < len(factors):
            raise BadInput(f'lam is "{written}", with the same value twice. Leave one out.')
        return cls(written, factors)

    def __str__(self) -> str:
        return str(self.written)

    @property
    def is_auto(self) -> bool:
        """True if held-out rows are to choose it; until they have, it counts as 1/n."""
        return self.written == AUTO

    @property
    def each(self) -> tuple[Lam, ...]:
        """Its values, one by one."""
        if len(self.factors) == 1:
            return (self,)
        return tuple(Lam(f"{factor.number!r}{factor.unit}", (factor,)) for factor in self.factors)

    def has(self, unit: str) -> bool:
        """Return whether a value is a share of this."""
        return any(factor.unit == unit for factor in self.factors)

    def values(self, n_rows: float) -> tuple[float, ...]:
        """Return their values for `n_rows` rows; BadInput where one is a share of the largest."""
        if self.has("max"):
            raise BadInput(
                f'lam is "{self.written}", a share of the smallest that makes all weights 0, which '
                "a pass over all rows finds. Give a number here."
            )
        return tuple(
            _value(factor, n_rows) if factor.unit else factor.number for factor in self.factors
        )

    def resolved(self, unit: str, number: float) -> Lam:
        """Return the same with values of one unit as numbers: `number` rows, or the largest lam."""
        if not self.has(unit):
            return self
        numbers = [
            Factor(_value(factor, number)) if factor.unit == unit else factor
            for factor in self.factors
        ]
        texts = [f"{each!r}{own}" for each, own in dict.fromkeys(numbers)]
        return Lam.of(
            float(texts[0]) if len(texts) == 1 and not numbers[0].unit else ",".join(texts)
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> core_schema.CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(lambda lam: lam.written)
        return core_schema.no_info_plain_validator_function(cls.of, serialization=written)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        number = {"type": "number", "minimum": SMALLEST, "maximum": LARGEST}
        return {"anyOf": [number, {"type": "string", "pattern": PATTERN}]}


def shares_of_path() -> list[float]:
    """Return the values of a path as shares of the largest lam, at equal ratios."""
    last = PATH_LENGTH - 1
    return [float(f"{PATH_END ** (k / last):.4g}") for k in range(PATH_LENGTH)]


def _value(factor: Factor, of: float) -> float:
    return factor.number / of if factor.unit == "/n" else factor.number * of


def _factor(text: str, written: float | str) -> Factor:
    for unit in UNITS:
        head, mark, tail = text.partition(unit[0])
        if mark and mark + tail.strip() == unit:
            return Factor(_number(head, written), unit)
    return Factor(_number(text, written))


def _number(text: str, written: float | str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number > 0.0 or beyond_bounds(number):
        raise _unreadable(written)
    return number


def _unreadable(written: Any) -> BadInput:
    return BadInput(
        f"lam is {shown(written)}. Give a number between {SMALLEST:g} and {LARGEST:g}, a "
        'multiple of 1/n like "10/n", or, with an l1 penalty, a share of the largest like ".1max", '
        f'or "{PATH}" for {PATH_LENGTH} of them.'
    )
