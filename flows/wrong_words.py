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

from fewpass.flows.wrong_options import advice, no_such_option

_KINDS = {int: "a whole number", float: "a number", bool: "yes or no"}


def explained(error: CycloptsError) -> str:
    """Return a sentence about what is wrong with a command line, and one of advice."""
    command = " ".join(error.command_chain or ())
    more = advice(command)
    if isinstance(error, UnknownOptionError):
        word = error.token.keyword or error.token.value
        names = [name for one in error.argument_collection for name in one.names]
        return no_such_option(word, command, [name for name in names if name[:2] == "--"])
    if isinstance(error, MissingArgumentError):
        return f"{_missing(error, command)} {more}"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        said = f"{command} takes {_places(error)}, and {error.unused_tokens[0]!r} is too much."
        return f"{said} {more}"
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} is given more than once. Give it once."
    if isinstance(error, CoercionError) and (kind := _kind_of(error)) and error.token:
        name = error.token.keyword or (error.argument.name if error.argument else "")
        return f"{name} takes {kind}, not {error.token.value!r}. {more}"
    return f"{error} {more}"


def _kind_of(error: CoercionError) -> str | None:
    """Say in words what should have been given, where there are words for it."""
    hint = error.target_type or (error.argument.hint if error.argument else None)
    return next((_KINDS[arm] for arm in (hint, *get_args(hint)) if arm in _KINDS), None)


def _missing(error: MissingArgumentError, command: str) -> str:
    name = error.keyword or (error.argument.name if error.argument else "")
    if name.startswith("-"):
        return f"{name} needs a value after it."
    return f"{command} takes {_places(error)}, and {name} is missing."


def _places(error: CycloptsError) -> str:
    """Return the arguments of a command, in its order: DATASET RUN."""
    options = error.app.assemble_argument_collection() if error.app else ()
    return " ".join(one.name for one in options if one.name[0] not in "-*") or "options alone"
