"""Pydantic models whose field descriptions are the strings below the fields."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from fewpass.solvers.bad_input import BadInput, refusal, within_bounds


class Described(BaseModel):
    """Base class of settings: frozen, unknown fields refused, every field described.

    Numbers outside the range of useful arithmetic (inf, nan, 1e308, 1e-320) are refused everywhere.

    The string below a field is its description, as with pydantic's `use_attribute_docstrings`.
    That option tokenizes the module again for every class, which would take 70 of the 800 CPU
    milliseconds from the start of `fewpass train` to its first row.  Here descriptions are read
    when somebody asks (`described_fields`, a JSON schema).
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

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch(cls, value: Any, about: ValidationInfo) -> Any:
        """Refuse true and false where only numbers are meant; pydantic takes them for 1 and 0."""
        if isinstance(value, bool):
            kinds = kinds_in(cls.model_fields[str(about.field_name)].annotation)
            if not kinds.isdisjoint((int, float)) and bool not in kinds:
                raise ValueError(f"Input should be a number{' or text' * (str in kinds)}")
        return value

    @field_validator("*")
    @classmethod
    def _within_bounds(cls, value: Any) -> Any:
        return within_bounds(value)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        made = handler(schema)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for name, field in described_fields(cls).items():
            if field.description and name in properties:
                properties[name].setdefault("description", field.description)
        return made


def kinds_in(hint: Any) -> set[Any]:
    """Return a type with all that it is made of."""
    return {hint}.union(*map(kinds_in, get_args(hint)))


def described_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model, each with its description."""
    for name, field in model.model_fields.items():
        if field.description is None:
            home = next(each for each in model.__mro__ if name in inspect.get_annotations(each))
            field.description = (
                texts_below_fields(home.__module__).get(home.__qualname__, {}).get(name)
            )
    return model.model_fields


@cache
def texts_below_fields(module: str) -> dict[str, dict[str, str]]:
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
