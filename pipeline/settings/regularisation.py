"""lam in any of its forms: a number, a multiple of 1/n, or several of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import core_schema

from fewpass.pipeline.errors import BadInput
from fewpass.solvers.bad_input import LARGEST, SMALLEST, beyond_bounds, shown


@dataclass(frozen=True)
class Lam:
    """Strengths of regularisation, parsed once.

    Attributes
    ----------
    written
        As the user gave them; what plans are stored with.
    factors
        For each the number, and whether it is divided by the number of rows.
    """

    written: float | str
    factors: tuple[tuple[float, bool], ...]

    @classmethod
    def of(cls, written: Any) -> Lam:
        """Read 0.1, "0.1", "10/n" or "1e-3,1/n"; BadInput when it is something else."""
        if isinstance(written, Lam):
            return written
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

    def values(self, n_rows: int) -> tuple[float, ...]:
        """Return their values for `n_rows` rows."""
        return tuple(number / n_rows if divided else number for number, divided in self.factors)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.of, serialization=core_schema.plain_serializer_function_ser_schema(_written)
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}


def _written(lam: Lam) -> float | str:
    return lam.written


def _factor(text: str, written: float | str) -> tuple[float, bool]:
    head, slash, tail = text.partition("/")
    try:
        number = float(head) if slash and tail.strip() == "n" else float(text)
    except ValueError:
        number = 0.0
    if not number > 0.0 or beyond_bounds(number):
        raise _unreadable(written)
    return number, bool(slash)


def _unreadable(written: Any) -> BadInput:
    return BadInput(
        f"lam is {shown(written)}. Give a number between {SMALLEST:g} and {LARGEST:g}, or a "
        'multiple of 1/n like "10/n".'
    )
