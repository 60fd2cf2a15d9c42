"""Command lines of a command's own options, each with its value: read without cyclopts.

Most command lines are such, and cyclopts takes a tenth of a second to build its parser for the
eighty options of a training.  Whatever is not certain here (an abbreviation, a word that is no
option, a value of another kind) is left to it: then it reads all words, and says what is wrong.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal, NamedTuple, get_args, get_origin

from fewpass.flows.display.log_lines import VARIABLE
from fewpass.flows.listed_commands import EVERYDAY, LOOKING, OTHERS
from fewpass.flows.refusals import UsageError

PLACES = {
    place.partition(":")[2].replace("_", "-"): place for place in (*EVERYDAY, *LOOKING, *OTHERS)
}
SHORT = {"-q": "--quiet", "-v": "--verbose"}
_LONG = re.compile(r"[\"'](--[a-z-]+)[\"']")  # in an annotation
_LONG_ALONE = re.compile(r"--(?!help$|version$)[a-zA-Z][a-zA-Z0-9_-]*")
_NOTHING = ("none", "null")  # words for which cyclopts may read that nothing is given


class Uncertain(Exception):  # noqa: N818  it never leaves this module
    """What cyclopts has to read."""


class _NoSuch(Exception):  # noqa: N818  it never leaves this module
    """An option that the command does not have, and nothing else that is amiss."""


class Option(NamedTuple):
    """An option, and what it sets."""

    argument: str  # of the command's function
    field: str | None  # of the options that the argument holds
    kind: Any  # bool, int, float, str, choices, or a tuple of texts
    negative: str | None = None  # what sets it to no


def plainly_read(tokens: Sequence[str]) -> Callable[[], int] | None:
    """Return the call that a command line means; None where cyclopts has to read it.

    Raises
    ------
    UsageError
        When the command has no such option, and nothing else is amiss.
    """
    if not tokens or tokens[0] not in PLACES or VARIABLE in os.environ:
        return None
    module, _, name = PLACES[tokens[0]].partition(":")
    command = getattr(import_module(f"fewpass.flows.commands.{module}"), name)
    try:
        words, arguments = arguments_of(command, tokens[1:])
    except Uncertain:
        return None
    except _NoSuch as error:
        from fewpass.flows.wrong_options import no_such_option  # noqa: PLC0415 - it is seldom said

        names = every_name(inspect.signature(command).parameters.values())
        raise UsageError(no_such_option(str(error), tokens[0], names)) from None
    return partial(command, *words, **arguments)


def arguments_of(command: Any, tokens: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Return what a command's function is called with, in order and by name; Uncertain."""
    parameters = inspect.signature(command).parameters.values()
    options = dict(_options(parameters))
    words, values = _split(tokens, options, {*map(_plainly, every_name(parameters))})
    _require_places(parameters, words)
    grouped: dict[str, dict[str, Any]] = {}
    arguments: dict[str, Any] = {}
    for option, value in values:
        into = arguments if option.field is None else grouped.setdefault(option.argument, {})
        into[option.field or option.argument] = value
    defaults = {parameter.name: parameter.default for parameter in parameters}
    made = {name: type(defaults[name])(**given) for name, given in grouped.items()}
    return words, arguments | made


def _require_places(parameters: Any, words: Sequence[str]) -> None:
    """Leave it to cyclopts where words are too many or too few, or are no plain texts."""
    places = [p for p in parameters if p.kind is p.POSITIONAL_ONLY]
    more = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
    texts = all(p.annotation == "str" for p in places) and not more
    if not texts or len(words) != len(places):
        raise Uncertain


def _options(parameters: Any) -> Iterator[tuple[str, Option]]:
    """Yield the options that are read here, by what they are called."""
    for parameter in parameters:
        if parameter.default is False:
            called_so = _LONG.findall(parameter.annotation) or [_flag(parameter.name)]
            yield called_so[0], Option(parameter.name, None, bool)
        elif is_dataclass(parameter.default):
            yield from _options_of(parameter.name, parameter.default)


def _options_of(argument: str, default: Any) -> Iterator[tuple[str, Option]]:
    """Yield the options that a class holds: its own flags, and settings of plans."""
    from fewpass.flows.options import called, given_as, setting_of  # noqa: PLC0415 - it needs pydantic

    for field in fields(default):
        setting = setting_of(field)
        if setting is not None:
            kind, how = given_as(setting)
            option = Option(argument, field.name, kind, how.get("negative"))
            yield called((field.name,)), option
            if option.negative:
                yield option.negative, option
        elif field.default is False:
            yield _flag(field.name), Option(argument, field.name, bool)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def every_name(parameters: Any) -> list[str]:
    """Return what the options of a command are called, those that cyclopts reads among them."""
    names = [name for name, _ in _options(parameters)]
    for parameter in parameters:
        if is_dataclass(parameter.default):
            own = [(field.name, str(field.type)) for field in fields(parameter.default)]
        elif parameter.kind is parameter.KEYWORD_ONLY:
            own = [(parameter.name, str(parameter.annotation))]
        else:
            continue
        for name, hint in own:
            names += _LONG.findall(hint)
            names += [] if "named(" in hint else [_called(name)]
    return [*dict.fromkeys(names)]


def _called(name: str) -> str:
    from fewpass.flows.options import called  # noqa: PLC0415 - it needs pydantic

    return called((name,))


def _plainly(name: str) -> str:
    return name.lower().replace("_", "-")


def _split(
    tokens: Sequence[str], options: dict[str, Option], names: set[str]
) -> tuple[list[str], list[tuple[Option, Any]]]:
    """Return the words without options, and each option with its value."""
    words: list[str] = []
    wrong: list[str] = []
    values: list[tuple[Option, Any]] = []
    rest = iter(tokens)
    for token in rest:
        if not token.startswith("-"):
            words.append(token)
            continue
        name, equals, text = SHORT.get(token, token).partition("=")
        option = options.get(name)
        if option is None and _LONG_ALONE.fullmatch(name) and _plainly(name) not in names:
            wrong.append(name)
            continue
        if option is None or any(option == other for other, _ in values):
            raise Uncertain
        if option.kind is bool:
            if equals:
                raise Uncertain
            values.append((option, name != option.negative))
        else:
            values.append((option, _value(option.kind, text if equals else next(rest, ""))))
    if wrong:
        raise _NoSuch(wrong[0])
    return words, values


def _value(kind: Any, text: str) -> Any:
    """Return the value that a text means."""
    if get_origin(kind) is Literal and text in get_args(kind):
        return text
    if not text or text[0] in "-{[" or text.lower() in _NOTHING:
        raise Uncertain
    if kind is str:
        return text
    try:
        if kind is int and text.isascii() and text.isdecimal():
            return int(text)
        if kind is float and text.isascii() and "_" not in text:
            return float(text)
    except ValueError:
        pass
    raise Uncertain
