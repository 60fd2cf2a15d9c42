"""Sentences about words on the command line that a command does not take."""

from __future__ import annotations

from typing import get_args

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from fewpass.flows.options import called
from fewpass.pipeline.settings.flat_settings import OTHER_NAMES, nearest

_KINDS = {int: "a whole number", float: "a number", bool: "yes or no"}


def explained(error: CycloptsError) -> str:
    """Return a sentence about what is wrong with a command line, and one of advice."""
    command = " ".join(error.command_chain or ())
    advice = " ".join(("fewpass", *(error.command_chain or ()), "--help")) + " shows what there is."
    if isinstance(error, UnknownOptionError):
        return _unknown(error, command, advice)
    if isinstance(error, MissingArgumentError):
        return f"{_missing(error, command)} {advice}"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        said = f"{command} takes {_places(error)}, and {error.unused_tokens[0]!r} is too much."
        return f"{said} {advice}"
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} is given more than once. Give it once."
    if isinstance(error, CoercionError) and (kind := _kind_of(error)) and error.token:
        name = error.token.keyword or (error.argument.name if error.argument else "")
        return f"{name} takes {kind}, not {error.token.value!r}. {advice}"
    return f"{error} {advice}"


def _kind_of(error: CoercionError) -> str | None:
    """Say in words what should have been given, where there are words for it."""
    hint = error.target_type or (error.argument.hint if error.argument else None)
    return next((_KINDS[arm] for arm in (hint, *get_args(hint)) if arm in _KINDS), None)


def _unknown(error: UnknownOptionError, command: str, advice: str) -> str:
    word = error.token.keyword or error.token.value
    names = [name for one in error.argument_collection for name in one.names if name[:2] == "--"]
    options = {called((name,)): called((name,)) for name in OTHER_NAMES} | {n: n for n in names}
    near = nearest(word, {name: option for name, option in options.items() if option in names})
    said = f"{command} has no option {word}." if command else f"There is no option {word}."
    return f"{said} Did you mean {near}?" if near else f"{said} {advice}"


def _missing(error: MissingArgumentError, command: str) -> str:
    name = error.keyword or (error.argument.name if error.argument else "")
    if name.startswith("-"):
        return f"{name} needs a value after it."
    return f"{command} takes {_places(error)}, and {name} is missing."


def _places(error: CycloptsError) -> str:
    """Return the arguments of a command, in its order: DATASET RUN."""
    options = error.app.assemble_argument_collection() if error.app else ()
    return " ".join(one.name for one in options if one.name[0] not in "-*") or "options alone"
