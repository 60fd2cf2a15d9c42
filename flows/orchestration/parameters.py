"""A flow's parameters, of `-p NAME=VALUE`, and their texts.

A parameter is a setting of the flow's request.  NAME is its path, such as `plan.solver.kind`; where
no other parameter has that name, the plan's own name may be left out: `solver.kind`.  A plan, or a
part of it, can be given whole: `plan={"dataset": "d", "passes": 3}`, `solver={"kind": "sgd"}`; the
name of a choice alone is its kind: `solver=sgd`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import MaxLen
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from fewpass.flows.options import REPEATED, members_of
from fewpass.flows.orchestration.requests import Request, flow_name
from fewpass.flows.settings import toml_value
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.flat_settings import (
    COLUMNS,
    MISSING,
    PYTHON_ALONE,
    Setting,
    column_position,
    default_of,
    every_setting,
    nearest,
)
from fewpass.pipeline.settings.method_kinds import KINDS, OfRegistry, settings_class
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.solvers.bad_input import inner_model, refusal
from fewpass.solvers.described import described_fields, kinds_in
from fewpass.solvers.registry import METHODS
from fewpass.storage.addresses import require_no_secrets

HELP = " Add --help to see the parameters."
METHOD_WORD: Any = Literal[*KINDS]
_KINDS = {int: "number", float: "number", str: "text", bool: "true, false",
          tuple: "text, again for more", Lam: "number, text"}  # fmt: skip


# -- the parameters of a flow ---------------------------------------------------------------------


class Named(NamedTuple):
    """One parameter as it can be given."""

    path: str
    hint: Any
    default: Any  # MISSING: it must be given
    about: str


def described(request: Request, methods: Iterable[str] = METHODS) -> list[Named]:
    """Return every parameter of a flow, with the settings of some methods, which are imported.

    What must be given comes first.
    """
    kinds = [settings_class(kind) for kind in methods]
    every = [named for setting in every_setting(request) for named in _named(setting, kinds)]
    return sorted(every, key=lambda named: named.default is not MISSING)


def _named(setting: Setting, kinds: list[type[BaseModel]]) -> Iterator[Named]:
    path = ".".join(setting.path)
    if OfRegistry in setting.field.metadata:
        yield Named(f"{path}.kind", METHOD_WORD, setting.default.kind, setting.help)
        yield from _of_methods(path, kinds)
    elif setting.name not in PYTHON_ALONE and not _takes_nothing(setting.field):
        yield Named(path, setting.field.annotation, setting.default, setting.help)


def _of_methods(path: str, kinds: Iterable[type[BaseModel]]) -> Iterator[Named]:
    """Yield the settings of some methods, each name once."""
    of: dict[str, list[tuple[str, FieldInfo]]] = {}
    for fields in map(described_fields, kinds):
        for name, field in fields.items():
            of.setdefault(name, []).append((fields["kind"].default, field))
    for name, each in of.items():
        if name != "kind":
            hint: Any = Union[*(field.annotation for _, field in each)]
            yield Named(f"{path}.{name}", hint, default_of(each[0][1]), _about(each))


def _about(each: Iterable[tuple[str, FieldInfo]]) -> str:
    """Say what a setting is: where methods differ, to each of them, with its own default."""
    said: dict[tuple[str, Any], list[str]] = {}
    for kind, field in each:
        about, default = " ".join((field.description or "").split()), default_of(field)
        of_its_own = "" if default is None else f" [default: {default}]"
        said.setdefault((about, of_its_own), []).append(kind)
    if len(said) == 1:
        return next(iter(said))[0]
    return " ".join(f"{', '.join(k)}: {a.rstrip('.')}{own}." for (a, own), k in said.items())


def _takes_nothing(field: FieldInfo) -> bool:
    """Return whether a field is there for others: what a refresh finds, credentials."""
    longest = [one.max_length for one in field.metadata if isinstance(one, MaxLen)]
    return 0 in longest or get_args(field.annotation) == ("",)


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


def short_name(path: str, parameters: list[Named]) -> str:
    """Return the shortest name that means this parameter."""
    parts = path.split(".")
    for k in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[k:])
        # A method's settings keep their family's name.
        if parts[k - 1] != "solver" and [n.path for n in _outermost(name, parameters)] == [path]:
            return name
    return path


def _matches(name: str, parameters: list[Named]) -> list[Named]:
    """Return the parameters of a name, else those of the end of a path."""
    return [n for n in parameters if n.path == name] or [
        n for n in parameters if n.path.endswith(f".{name}")
    ]


def _outermost(name: str, parameters: list[Named]) -> list[Named]:
    """Return those of a name that lie least deep."""
    matches = _matches(name, parameters)
    depth = min((n.path.count(".") for n in matches), default=0)
    return [n for n in matches if n.path.count(".") == depth]


# -- what is given --------------------------------------------------------------------------------


def assigned(request: Request, words: Iterable[str]) -> dict[str, Any]:
    """Turn NAME=VALUE words into a flow's validated parameters.

    Raises
    ------
    BadInput
        A word that is no assignment, a name that the flow does not have, a value that does not fit.
    BadAddress
        An address with a password, a token or a query: Prefect keeps parameters.
    """
    values = values_of(request, words)
    valid = validated(request, values, HELP)
    return {name: valid[name] for name in values}


def values_of(request: Request, words: Iterable[str]) -> dict[str, Any]:
    """Turn NAME=VALUE words into a flow's parameters, as plain values.

    A plan may be given whole, as JSON, and what stands in it one by one: what comes later wins.
    """
    words = list(words)
    parameters = _parameters_for(request, words)
    values: dict[str, Any] = {}
    given: set[str] = set()  # lists begin anew with the first word of theirs
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip()
        if not equals:
            raise BadInput(f'-p was given "{word}". Write -p NAME=VALUE.')
        whole = _whole(name, parameters)
        if whole is not None and text.lstrip().startswith("{"):
            *folders, last = whole.split(".")
            _folder(values, folders)[last] = _object(name, text)
            continue
        meant = _resolved(flow_name(request), name if whole is None else f"{name}.kind", parameters)
        _put(values, meant, _value(meant, text), anew=meant.path not in given)
        given.add(meant.path)
    _complete(values, parameters)
    return values


def _parameters_for(request: Request, words: list[str]) -> list[Named]:
    """Return the parameters that words may mean; methods are imported where one may be theirs."""
    plain = described(request, methods=())
    names = [word.partition("=")[0].strip() for word in words]
    are_plain = all(_matches(name, plain) or _whole(name, plain) is not None for name in names)
    return plain if are_plain else described(request)


def validated(request: Request, values: Mapping[str, Any], more: str = "") -> dict[str, Any]:
    """Return all of a flow's parameters; BadInput or BadAddress for wrong ones."""
    try:
        parameters = dict(request.model_validate(_filled_in(request, values)))
    except ValidationError as error:
        raise BadInput(refusal(error, request, ".".join, more)) from error
    require_no_secrets_in(parameters)
    return parameters


def _filled_in(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what somebody filled in: forms send null for a field that nobody did.

    A null stays where it is a value, and under a name that is none, which is refused.
    """
    made: dict[str, Any] = {}
    for name, value in values.items():
        hint = model.model_fields[name].annotation if name in model.model_fields else None
        if value is None and hint is not None and type(None) not in kinds_in(hint):
            continue
        part = inner_model(hint)
        made[name] = _filled_in(part, value) if part and isinstance(value, Mapping) else value
    return made


def _whole(name: str, parameters: list[Named]) -> str | None:
    """Return the path of the settings that a name means as a whole; None where it means one."""
    if _matches(name, parameters):
        return None
    folders = {n.path[:k] for n in parameters for k, letter in enumerate(n.path) if letter == "."}
    return min((f for f in folders if f == name or f.endswith(f".{name}")), key=len, default=None)


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise BadInput(
            f"-p {name} is no JSON object ({error}). Write it like {name}='{{\"passes\": 3}}'."
        ) from error
    return values


def require_no_secrets_in(value: Any) -> None:
    """Refuse parameters among which an address carries a secret; BadAddress says how else."""
    if isinstance(value, str):
        require_no_secrets(value)
    elif isinstance(value, BaseModel | Mapping):
        for inner in dict(value).values():
            require_no_secrets_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            require_no_secrets_in(inner)


def _resolved(flow: str, name: str, parameters: list[Named]) -> Named:
    """Find the parameter of a name, or of the end of a path that begins with a plan."""
    shallow = _outermost(name, parameters)
    if not shallow:
        near = _near(name, parameters)
        meant = f"Did you mean {near}? " if near else ""
        raise BadInput(
            f'The flow {flow} has no parameter "{name}". {meant}prefect run {flow} --help lists '
            "all."
        )
    if len(shallow) > 1:
        paths = " or ".join(n.path for n in shallow)
        raise BadInput(f'"{name}" may mean {paths} in the flow {flow}. Say which.')
    return shallow[0]


def _near(name: str, parameters: list[Named]) -> str | None:
    """Return the name that is nearest to a wrong one, as short as it may be given."""
    names = {short_name(n.path, parameters) for n in parameters}
    ends = {n.rpartition(".")[2]: n for n in names}
    kinds = (n.removesuffix(".kind") for n in names if n.endswith(".kind"))
    ends |= {n.rpartition(".")[2]: n for n in kinds}  # solver=sgd
    return nearest(name.rpartition(".")[2], ends)


def _value(named: Named, text: str) -> Any:
    """Read a value: text stays text where text is meant, the rest is TOML or a word."""
    if named.path.rpartition(".")[2] in COLUMNS:
        return column_position(text)
    if text == "null":
        return None
    members = {get_origin(m) or m for m in members_of(named.hint)}
    if str in members:
        return text
    if tuple in members:  # a list, or one of it, such as the glob [ab]*.csv
        value = toml_value(text) if text.startswith("[") else text
        return tuple(value) if isinstance(value, list) else (value,)
    if int in members and text.isdecimal():
        return int(text)  # 000007 is no TOML
    return toml_value(text)


def _put(values: dict[str, Any], named: Named, value: Any, *, anew: bool) -> None:
    *folders, name = named.path.split(".")
    values = _folder(values, folders)
    if not anew and isinstance(values.get(name), tuple):
        value = values[name] + (value if isinstance(value, tuple) else (value,))
    elif name in REPEATED and not isinstance(value, Mapping | tuple):
        value = (value,)
    values[name] = value


def _folder(values: dict[str, Any], folders: list[str]) -> dict[str, Any]:
    """Return the part of values at a path; a new one where there is none."""
    for folder in folders:
        if not isinstance(values.get(folder), dict):
            values[folder] = {}
        values = values[folder]
    return values


def _complete(values: dict[str, Any], parameters: list[Named]) -> None:
    """Settings of a method given without naming it are the default method's."""
    for named in parameters:
        *folders, name = named.path.split(".")
        if name != "kind":
            continue
        inner: Any = values
        for folder in folders:
            inner = inner.get(folder) or {} if isinstance(inner, dict) else {}
        if inner and isinstance(inner, dict):
            inner.setdefault("kind", named.default)
