"""A plan's method: settings of any class in the registry, recognised by its word `kind`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union

from pydantic import BaseModel, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError, core_schema

from fewpass.pipeline.errors import did_you_mean
from fewpass.solvers.bad_input import expected, shown
from fewpass.solvers.described import Described
from fewpass.solvers.registry import METHODS, method_class

if TYPE_CHECKING:
    from fewpass.solvers.protocol import Solver


class Auto(Described):
    """The method is chosen from what is asked for and what ingest measured (planning/auto.py)."""

    kind: Literal["auto"] = "auto"
    goal: ClassVar[None] = None  # that of the method that is chosen


KINDS = ("auto", *METHODS)


def kind_of(solver: Any) -> str:
    """Return the word of a method, given as a model, as settings, as the word, or not at all."""
    if isinstance(solver, dict):
        return str(solver.get("kind"))
    return solver if isinstance(solver, str) else str(getattr(solver, "kind", "auto"))


def settings_class(kind: str) -> type[BaseModel]:
    """Return the class of a method's settings; PydanticCustomError when there is no such method."""
    if kind == "auto":
        return Auto
    if kind not in METHODS:
        raise PydanticCustomError(
            "method",
            "solver: there is no method {kind}.{near} Methods are {known}.",
            {
                "kind": f'"{kind}"',
                "near": did_you_mean(kind, KINDS),
                "known": ", ".join(KINDS),
            },
        )
    kind_of_settings: type[BaseModel] = method_class(kind)
    return kind_of_settings


def every_class() -> list[type[BaseModel]]:
    """Return the settings of all methods; imports them all."""
    return [settings_class(kind) for kind in KINDS]


def _read(solver: Any) -> Any:
    """Return validated settings of a method; PydanticCustomError says which one is wrong."""
    if isinstance(solver, BaseModel) and solver.__class__ is settings_class(kind_of(solver)):
        return solver
    if not isinstance(solver, dict | str):
        raise PydanticCustomError("method", "a method is settings with a word `kind`, or the word")
    values = {"kind": solver} if isinstance(solver, str) else solver
    kind = settings_class(kind_of(values))
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _refused(error, kind) from error


def _refused(error: ValidationError, kind: type[BaseModel]) -> PydanticCustomError:
    """Name the first setting that is wrong, what it is and all that it could be."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else "the method"
    if first["type"] == "extra_forbidden":
        context = {"name": name, "near": did_you_mean(name, kind.model_fields)}
        return PydanticCustomError("no_method_setting", "{name} is no setting.{near}", context)
    about = dict.fromkeys(expected(e) for e in error.errors() if e["loc"][:1] == first["loc"][:1])
    context = {"name": name, "found": shown(first["input"]), "expected": ", or ".join(about)}
    return PydanticCustomError("method_setting", "{name} is {found}, but {expected}", context)


def with_better(solver: Any, loss: Any) -> Any:
    """Return a method that is asked for by its name alone with what suits a loss better."""
    kind = kind_of(solver)
    if kind not in METHODS or not isinstance(loss, str):
        return solver
    better = method_class(kind).better.get(loss, {})
    given = solver.keys() if isinstance(solver, dict) else getattr(solver, "model_fields_set", ())
    return solver if not better or set(given) - {"kind"} else {"kind": kind, **better}


class OfRegistry:
    """Has pydantic read, write and describe a field as settings of a registered method."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _read,
            serialization=core_schema.plain_serializer_function_ser_schema(BaseModel.model_dump),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        every: Any = Union[tuple(every_class())]  # noqa: UP007 - classes known only now
        described = handler(TypeAdapter(every).core_schema)
        for arm in described["anyOf"]:
            handler.resolve_ref_schema(arm)["required"] = ["kind"]
        return {"anyOf": [*described["anyOf"], {"type": "string", "enum": list(KINDS)}]}


if TYPE_CHECKING:
    Method = Solver
    AnyMethod = Solver | Auto
else:
    Method = AnyMethod = Annotated[Any, OfRegistry]
