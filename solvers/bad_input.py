"""Refused settings: the range of usable numbers, and messages that name a setting."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:  # so that importing the estimators does not import pydantic
    from pydantic import BaseModel, ValidationError

#: Integers up to here are exact in float64, the numbers of JSON.
MOST_WHOLE = 1 << 53
#: Products and squares of three numbers within these neither overflow nor underflow float64.
LARGEST, SMALLEST = 1e100, 1e-100
_SHOWN = 60  # most characters of a value in a sentence
#: Kinds of values in plain words, by the type of pydantic's error.
_KINDS = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "string": "text",
    "dict": "a table of names and values", "tuple": "a list", "model": "settings by name",
}  # fmt: skip
#: What pydantic's sentences begin with.
_SUBJECTS = {"Input", "String", "Tuple", "List", "Dictionary", "Set"}


class BadInput(ValueError):  # noqa: N818 - users read the message, not the name
    """Rows or settings that cannot be used; the message says where, what and what to do."""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return " Did you mean X?" with the most similar known word; "" without any."""
    near = get_close_matches(word, list(names), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def beyond_bounds(number: float) -> str | None:
    """Describe the range that a number is outside of; None for a usable number."""
    if isinstance(number, int):
        fits = abs(number) <= MOST_WHOLE
        return None if fits else f"should be at most {MOST_WHOLE:,} in size"
    if not math.isfinite(number):
        return "should be a finite number"
    if number and not SMALLEST <= abs(number) <= LARGEST:
        return f"should be between {SMALLEST:g} and {LARGEST:g} in size"
    return None


def within_bounds(value: Any) -> Any:
    """Return a setting's value; ValueError if it is, or contains, an unusable number."""
    for number in value.values() if isinstance(value, dict) else (value,):
        if isinstance(number, int | float) and (problem := beyond_bounds(number)):
            raise ValueError(f"Input {problem}")
    return value


def shown(value: Any) -> str:
    """Write a value for a message: shortened, and only its type for addresses."""
    plain = isinstance(value, float) and not math.isfinite(value)
    try:
        text = str(value) if plain else json.dumps(value, default=str, ensure_ascii=False)
    except (ValueError, TypeError):  # a whole number of thousands of digits; keys of any kind
        text = "://"
    if "://" in text:  # addresses may carry secrets; some values have no text
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


# -- what pydantic says ---------------------------------------------------------------------------

Path = tuple[str, ...]  # names of fields, from the outside in
_INNER = ("options", "source")  # parts of a plan whose fields are given as the plan's own


def plainly(path: Path) -> str:
    """Return a setting's name in Python; of a part its own."""
    return ".".join(name for name in path if name not in _INNER) or ".".join(path)


def refusal(
    error: ValidationError,
    kind: type[BaseModel],
    called: Callable[[Path], str] = plainly,
    more: str = "",
) -> str:
    """Return a message with the setting that is wrong, its value and the expected one.

    Parameters
    ----------
    error
        pydantic's error; its first problem is reported.
    kind
        The model that refused them.
    called
        Returns the name of a setting for the reader of the message, such as `--tol`.
    more
        Advice to append.
    """
    problems = error.errors()
    path = _path(kind, problems[0])
    about = [p for p in problems if _path(kind, p) == path]
    first, kinds = about[0], {p["type"] for p in about}
    if kinds & {"extra_forbidden", "no_method_setting"}:
        near = first.get("ctx", {}).get("near") or _meant(kind, path)
        return f'There is no setting "{called(path)}".{near}{more}'
    if "missing" in kinds:
        return f"{called(path)} must be given.{more}"
    expectations = list(dict.fromkeys(expected(p) for p in about))
    if not path or not expectations[0].startswith("it "):
        return expectations[0]
    value = first["ctx"]["found"] if first["type"] == "method_setting" else shown(first["input"])
    return f"{called(path)} is {value}, but {', or '.join(expectations)}.{more}"


def _path(kind: type[BaseModel], problem: Any) -> Path:
    """Return the path of fields to the wrong one, or to an unknown name."""
    path: list[str] = []
    at: type[BaseModel] | None = kind
    for part in problem["loc"]:
        if at is None or not isinstance(part, str):
            break
        path.append(part)
        at = inner_model(at.model_fields[part].annotation) if part in at.model_fields else None
    if "name" in problem.get("ctx", {}):  # of a method, whose settings check themselves
        path.append(problem["ctx"]["name"])
    return tuple(path)


def inner_model(hint: Any) -> type[BaseModel] | None:
    """Return the model class in a field's type, if there is one."""
    from pydantic import BaseModel  # noqa: PLC0415 - see above

    arms = [hint, *get_args(hint)]
    return next((a for a in arms if isinstance(a, type) and issubclass(a, BaseModel)), None)


def _meant(kind: type[BaseModel], path: Path) -> str:
    """Suggest a setting with the same beginning, or a similar name."""
    for part in path[:-1]:
        inner = (
            inner_model(kind.model_fields[part].annotation) if part in kind.model_fields else None
        )
        if inner is None:
            return ""
        kind = inner
    longer = [name for name in kind.model_fields if path[-1].startswith(name)]
    return did_you_mean(longer[0] if longer else path[-1], kind.model_fields)


def expected(problem: Any) -> str:
    """Describe the expected value of a setting, "it should be ...", from pydantic's problem."""
    if problem["type"] == "method_setting":
        return str(problem["ctx"]["expected"])
    kind = problem["type"].partition("_")[0]
    if kind in _KINDS and not problem["type"].endswith(("too_short", "too_long")):
        return f"it should be {_KINDS[kind]}"
    message: str = problem["msg"].removeprefix("Value error, ").partition(" after validation")[0]
    subject, verb, rest = message.partition(" should ")
    return f"it should {rest}" if verb and subject in _SUBJECTS else message
