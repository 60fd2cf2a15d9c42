"""What parameters a flow has, plans taken apart: names, types, defaults, and what is said of them.

A flow's parameters are pydantic plans.  A name is a path such as `plan.solver.kind`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fewpass.pipeline.settings.methods import KINDS, OfRegistry, settings_class
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.solvers.registry import METHODS

Request = Callable[..., Any]  # one of fewpass.flows.orchestration.signatures
MISSING = inspect.Parameter.empty
METHOD_WORD: Any = Literal[*KINDS]
_KINDS = {int: "number", float: "number", str: "text", bool: "true, false",
          tuple: "text, again for more", Lam: "number, text"}  # fmt: skip


class Named(NamedTuple):
    """One parameter as it can be given."""

    path: str
    hint: Any
    default: Any  # MISSING: it must be given
    about: str


def described(request: Request, *, methods: Iterable[str] = METHODS) -> list[Named]:
    """Return every parameter of a flow, plans taken apart.

    Parameters
    ----------
    request
        One of `fewpass.flows.orchestration.signatures`.
    methods
        Words of the methods whose settings are told, too; their classes are imported for that.
    """
    signature = inspect.signature(request, eval_str=True)
    found: list[Named] = []
    for name, parameter in signature.parameters.items():
        kind = parameter.annotation
        if _is_model(kind):
            given = None if parameter.default is MISSING else parameter.default
            found += _fields(name, kind, given, tuple(methods))
        else:
            about = _documented(request.__doc__ or "", name)
            found.append(Named(name, kind, parameter.default, about))
    return found


def _fields(
    prefix: str, kind: type[BaseModel], given: BaseModel | None, methods: tuple[str, ...]
) -> Iterator[Named]:
    for name, field in kind.model_fields.items():
        path = f"{prefix}.{name}"
        default = _default(field) if given is None else getattr(given, name)
        if OfRegistry in field.metadata:
            yield Named(f"{path}.kind", METHOD_WORD, default.kind, field.description or "")
            yield from _settings(path, [settings_class(kind) for kind in methods])
            continue
        members = _models(field)
        if len(members) == 1:
            inner = default if default is not MISSING else None
            for found in _fields(path, members[0], inner, methods):
                # What may be left out as a whole requires nothing.
                spared = found.default is MISSING and default is None
                yield found._replace(default=None) if spared else found
        elif members:
            yield from _union(path, members, default, field)
        elif name not in ("storage_options", "label_required"):
            yield Named(path, field.annotation, default, field.description or "")


def _union(
    path: str, members: list[type[BaseModel]], default: Any, field: FieldInfo
) -> Iterator[Named]:
    """Take a choice of settings apart: its kinds, then the settings of each."""
    kinds = [member.model_fields["kind"].default for member in members]
    yield Named(f"{path}.kind", Literal[*kinds], default.kind, field.description or "")
    yield from _settings(path, members)


def _settings(path: str, members: list[type[BaseModel]]) -> Iterator[Named]:
    """Return the settings of several classes, each name once."""
    told: dict[str, Named] = {}
    for member in members:
        for name, inner in member.model_fields.items():
            if name != "kind" and name not in told:
                told[name] = Named(
                    f"{path}.{name}", inner.annotation, _default(inner), inner.description or ""
                )
    yield from told.values()


def outermost(matches: list[Named]) -> int:
    """Return how deep the outermost of them lies."""
    return min(n.path.count(".") for n in matches)


def short_name(path: str, known: list[Named]) -> str:
    """Return the shortest name that means this parameter."""
    parts = path.split(".")
    for k in range(len(parts) - 1, 0, -1):
        if parts[k - 1] == "solver":  # a method's settings keep their family's name
            continue
        name = ".".join(parts[k:])
        matches = [n for n in known if n.path == name or n.path.endswith(f".{name}")]
        shallow = [n for n in matches if n.path.count(".") == outermost(matches)]
        if [n.path for n in shallow] == [path]:
            return name
    return path


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _models(field: FieldInfo) -> list[type[BaseModel]]:
    return [m for m in members_of(field.annotation) if _is_model(m)]


def members_of(hint: Any) -> list[Any]:
    """Return the alternatives of a union, annotations taken off."""
    if get_origin(hint) is Annotated:
        return members_of(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [m for arm in get_args(hint) for m in members_of(arm)]
    return [hint]


def _default(field: FieldInfo) -> Any:
    return MISSING if field.is_required() else field.get_default(call_default_factory=True)


def choices(hint: Any) -> str:
    """Write down what a parameter takes."""
    words: list[str] = []
    for member in members_of(hint):
        kind = get_origin(member) or member
        if kind is Literal:
            words += [str(word) for word in get_args(member)]
        elif kind is not type(None):
            words.append(_KINDS.get(kind, "value"))
    return ", ".join(dict.fromkeys(words))


def _documented(docstring: str, name: str) -> str:
    """Return what a numpydoc docstring says of a parameter, on one line."""
    lines = inspect.cleandoc(docstring).splitlines()
    if name not in lines:
        return ""
    said = []
    for line in lines[lines.index(name) + 1 :]:
        if not line.startswith("    "):
            break
        said.append(line.strip())
    return " ".join(said)
