"""From `-p NAME=VALUE` to a flow's parameters.

A flow's parameters are pydantic plans.  NAME is a path such as `plan.solver.kind`; where no other
parameter has that name, the plan's own name may be left out: `solver.kind`.  A plan, or a part of
it, can be given whole: `plan={"dataset": "d", "passes": 3}`, `solver={"kind": "sgd"}`; the name of
a choice alone is its kind: `solver=sgd`.
"""

from __future__ import annotations

import copy
import inspect
import json
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError, create_model

from fewpass.flows.options import REPEATED
from fewpass.flows.orchestration.method_settings import every_setting, methods_with
from fewpass.flows.orchestration.named import (
    METHOD_WORD,
    MISSING,
    Named,
    Request,
    described,
    members_of,
    outermost,
    short_name,
)
from fewpass.flows.settings import column_position
from fewpass.pipeline.errors import BadInput
from fewpass.solvers.bad_input import refusal
from fewpass.solvers.described import Described
from fewpass.solvers.registry import METHODS
from fewpass.storage.addresses import require_no_secrets

HELP = " Add --help to see the parameters."
COLUMNS = ("label", "weight", "drop")  # a whole number is a position there


def assigned(request: Request, words: Iterable[str]) -> dict[str, Any]:
    """Turn NAME=VALUE words into a flow's validated parameters.

    Raises
    ------
    BadInput
        A word that is no assignment, a name that the flow does not have, a value that does not fit.
    BadAddress
        An address with a password, a token or a query: Prefect keeps parameters.
    """
    values = values_of(request, words, {})
    found = validated(request, values, HELP)
    return {name: found[name] for name in values}


def values_of(request: Request, words: Iterable[str], before: Mapping[str, Any]) -> dict[str, Any]:
    """Turn NAME=VALUE words into a flow's parameters, on top of those that it has; as plain values.

    A plan may be given whole, as JSON, and what stands in it one by one: what comes later wins.
    """
    words = list(words)
    known = _known_for(request, words)
    values: dict[str, Any] = copy.deepcopy(dict(before))
    given: set[str] = set()  # lists begin anew with the first word of theirs
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise BadInput(f'-p was given "{word}". Write -p NAME=VALUE.')
        whole = _whole(name.strip(), known)
        if whole is not None and text.lstrip().startswith("{"):
            _put_whole(values, whole, _object(name, text))
            continue
        of_kind = f"{name.strip()}.kind" if whole is not None else name.strip()
        found = _resolved(request.__name__, of_kind, known)
        _put(values, found, _value(found, text), anew=found.path not in given)
        given.add(found.path)
    _complete(values, known)
    return values


def _known_for(request: Request, words: list[str]) -> list[Named]:
    """Return the parameters that words may mean; a method is imported where a word is its setting.

    Where some word has no meaning at all, methods' settings are there by name alone: enough to
    refuse it, and to say what may have been meant.
    """
    plain = described(request, methods=())
    by_name = plain + _settings_by_name(plain)
    names = [word.partition("=")[0].strip() for word in words]
    strange = [n for n in names if not _matches(n, plain) and _whole(n, plain) is None]
    if not strange or not all(_matches(name, by_name) for name in strange):
        return by_name if strange else plain
    of_methods = {kind for name in strange for kind in methods_with(name.rpartition(".")[2])}
    return described(request, methods=[kind for kind in METHODS if kind in of_methods])


def _settings_by_name(known: list[Named]) -> list[Named]:
    folders = [n.path.removesuffix("kind") for n in known if n.hint == METHOD_WORD]
    return [Named(f"{f}{name}", Any, MISSING, "") for f in folders for name in every_setting()]


def validated(request: Request, values: dict[str, Any], more: str = "") -> dict[str, Any]:
    """Return all of a flow's parameters; BadInput or BadAddress for wrong ones."""
    kind = _model_of(request)
    try:
        found = kind.model_validate(values)
    except ValidationError as error:
        raise BadInput(refusal(error, kind, ".".join, more)) from error
    parameters = dict(found)
    require_no_secrets_in(parameters)
    return parameters


def _model_of(request: Request) -> type[BaseModel]:
    """Make a pydantic model of a flow's parameters."""
    fields: dict[str, Any] = {
        name: (p.annotation, ... if p.default is MISSING else p.default)
        for name, p in inspect.signature(request, eval_str=True).parameters.items()
    }
    return create_model(request.__name__, __base__=Described, **fields)


def _whole(name: str, known: list[Named]) -> str | None:
    """Return the path of the settings that a name means as a whole; None where it means one."""
    folders = {n.path[:k] for n in known for k, letter in enumerate(n.path) if letter == "."}
    if any(n.path == name or n.path.endswith(f".{name}") for n in known):
        return None
    found = [f for f in folders if f == name or f.endswith(f".{name}")]
    return min(found, key=len) if found else None


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise BadInput(
            f"-p {name} is no JSON object ({error}). Write it like {name}='{{\"passes\": 3}}'."
        ) from error
    return found


def _put_whole(values: dict[str, Any], path: str, given: dict[str, Any]) -> None:
    *folders, name = path.split(".")
    for folder in folders:
        values = values.setdefault(folder, {})
    values[name] = given


def require_no_secrets_in(value: Any) -> None:
    """Refuse parameters among which an address carries a secret; BadAddress says how else."""
    if isinstance(value, str):
        require_no_secrets(value)
    elif isinstance(value, BaseModel):
        require_no_secrets_in(dict(value))
    elif isinstance(value, Mapping):
        for inner in value.values():
            require_no_secrets_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            require_no_secrets_in(inner)


def _resolved(flow: str, name: str, known: list[Named]) -> Named:
    """Find the parameter of a name, or of the end of a path that begins with a plan."""
    matches = _matches(name, known)
    if not matches:
        raise BadInput(f'The flow {flow} has no parameter "{name}". {_advice(flow, name, known)}')
    shallow = [n for n in matches if n.path.count(".") == outermost(matches)]
    if len(shallow) > 1:
        paths = " or ".join(n.path for n in shallow)
        raise BadInput(f'"{name}" may mean {paths} in the flow {flow}. Say which.')
    return shallow[0]


def _matches(name: str, known: list[Named]) -> list[Named]:
    """Return the parameters of a name, else those of the end of a path."""
    return [n for n in known if n.path == name] or [n for n in known if n.path.endswith(f".{name}")]


def _near(name: str, known: list[Named]) -> list[str]:
    """Return the names that are nearest to a wrong one."""
    names = {short_name(n.path, known) for n in known}
    ends = {n.rpartition(".")[2]: n for n in names}
    kinds = (n.removesuffix(".kind") for n in names if n.endswith(".kind"))
    ends |= {n.rpartition(".")[2]: n for n in kinds}  # solver=sgd
    near = get_close_matches(name.rpartition(".")[2], ends, n=3, cutoff=0.6)
    return list(dict.fromkeys(ends[n] for n in near))


def _advice(flow: str, name: str, known: list[Named]) -> str:
    meant = " or ".join(_near(name, known))
    see = f"prefect run {flow} --help lists all."
    return f"Did you mean {meant}? {see}" if meant else see


def _value(named: Named, text: str) -> Any:
    """Read a value: text stays text where text is meant, the rest is TOML or a word."""
    name = named.path.rpartition(".")[2]
    if name in COLUMNS:
        return column_position(text)
    if text == "null":
        return None
    members = {get_origin(m) or m for m in members_of(named.hint)}
    if str in members:
        return text
    if tuple in members and not text.startswith("["):
        return (text,)
    if int in members and text.isdecimal():
        text = str(int(text))  # 000007 is no TOML
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _put(values: dict[str, Any], named: Named, value: Any, *, anew: bool) -> None:
    *folders, name = named.path.split(".")
    for folder in folders:
        if not isinstance(values.get(folder), dict):  # where a deployment has none: null
            values[folder] = {}
        values = values[folder]
    if not anew and isinstance(values.get(name), tuple):
        value = values[name] + (value if isinstance(value, tuple) else (value,))
    elif name in REPEATED and not isinstance(value, Mapping | tuple):
        value = (value,)
    values[name] = value


def _complete(values: dict[str, Any], known: list[Named]) -> None:
    """Settings of a method given without naming it are the default method's."""
    for named in known:
        *folders, name = named.path.split(".")
        if name != "kind":
            continue
        inner: Any = values
        for folder in folders:
            inner = inner.get(folder) or {} if isinstance(inner, dict) else {}
        if inner and isinstance(inner, dict):
            inner.setdefault("kind", named.default)
