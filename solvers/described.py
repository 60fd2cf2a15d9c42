"""Pydantic models whose field descriptions are the strings below the fields."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from fewpass.solvers.bad_input import BadInput, refusal, within_bounds


class Described(BaseModel):
    """Base class of settings: frozen, unknown fields refused, every field described.

    Numbers outside the range of useful arithmetic (inf, nan, 1e308, 1e-320) are refused everywhere.

    The string below a field is its description, as with pydantic's `use_attribute_docstrings`.
    That option tokenizes the module again for every class, which would take 70 of the 800 CPU
    milliseconds from the start of `fewpass train` to its first row.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)

    def __init__(self, **settings: Any) -> None:
        """Validate the settings; BadInput names the one that is wrong."""
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise BadInput(refusal(error, type(self))) from None

    @classmethod
    def usual(cls) -> Self:
        """Return the settings by default, as a model's default: no validator is built for it."""
        return cls.model_construct()

    #: pydantic's own mark: a model inside another one is made without a call of `__init__`.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @field_validator("*")
    @classmethod
    def _within_bounds(cls, value: Any) -> Any:
        return within_bounds(value)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        texts = _said(cls.__module__).get(cls.__qualname__, {})
        for name, text in texts.items():
            if name in cls.model_fields and cls.model_fields[name].description is None:
                cls.model_fields[name].description = text


@cache
def _said(module: str) -> dict[str, dict[str, str]]:
    """Return the strings below the fields of a module's classes; none without its source."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return {}
    body = ast.parse(source).body
    return {each.name: dict(_texts(each)) for each in body if isinstance(each, ast.ClassDef)}


def _texts(made: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(made.body, made.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)
