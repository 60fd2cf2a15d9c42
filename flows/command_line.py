"""Command lines as calls of the commands' functions, whose names and types say what they take."""

from __future__ import annotations

import re
from argparse import SUPPRESS, ArgumentError, ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from inspect import Parameter, signature
from typing import Any, Literal, get_args, get_origin

from fewpass.flows import usage_errors
from fewpass.flows.declared_options import Argument, Option, arguments_of, options_of
from fewpass.flows.options import OptionForm
from fewpass.flows.settings import require_fits
from fewpass.solvers.bad_input import MOST_WHOLE

STANDARD_INPUT = "stdin://"
ADDITIVE, FORMS = "--additive", ("splines", "additive")
Texts = list[tuple[Option, list[Any]]]  # what options are given


def call_of(words: str, command: Callable[..., int], tokens: Sequence[str]) -> Callable[[], int]:
    """Return the call that a command line means; UsageError where it means none.

    Parameters
    ----------
    words
        The words of the command.
    tokens
        What comes after them.
    """
    options = [*options_of(command)]
    end = tokens.index("--") if "--" in tokens else len(tokens)
    texts, rest = _split(options, spelled_out(tokens[:end]))
    if strange := next((word for word in rest if re.match(r"-+[^-\d.]", word)), None):
        raise usage_errors.no_option(strange, words, [n for o in options for n in every_name(o)])
    keywords = _keywords(words, command, texts)
    arguments = _placed(words, [*arguments_of(command)], [*rest, *tokens[end + 1 :]])
    required = [option.names for option in options if option.default is Parameter.empty]
    if lacking := [names for names in required if names not in [o.names for o, _ in texts]]:
        raise usage_errors.missing(lacking[0][0], words, "")
    return partial(command, *arguments, **keywords)


def spelled_out(tokens: Sequence[str]) -> list[str]:
    """Return the words of a command line, `--additive [splines]` as `--encode` has it."""
    words: list[str] = []
    for k, word in enumerate(tokens):
        name, _, value = word.partition("=")
        following = tokens[k + 1] if k + 1 < len(tokens) else ""
        if word in FORMS and k and tokens[k - 1] == ADDITIVE:
            continue
        if name != ADDITIVE:
            words.append(word)
        else:
            words += ["--encode", value or (following if following in FORMS else FORMS[-1])]
    return words


def every_name(option: Option) -> list[str]:
    """Return what an option is called, the one that says no included."""
    return [*option.names, *([option.negative] if option.negative else [])]


def usage_of(command: Callable[..., int]) -> str:
    """Return the arguments of a command, in its order, and options that it must be given."""
    names = [a.name if a.required else f"[{a.name}]" for a in arguments_of(command)]
    options = (o for o in options_of(command) if o.default is Parameter.empty)
    return " ".join([*names, *(f"{option.names[0]} TEXT" for option in options)])


def _split(options: Sequence[Option], tokens: Sequence[str]) -> tuple[Texts, list[str]]:
    """Return what every option is given, and all other words."""
    try:
        given, rest = _parser(options).parse_known_args(tokens)
    except ArgumentError as error:
        name = (error.argument_name or "").partition("/")[0]
        needless = error.message.startswith("ignored")
        raise (usage_errors.needless_value if needless else usage_errors.no_value)(name) from None
    return [(options[int(number)], texts) for number, texts in vars(given).items()], rest


def _parser(options: Sequence[Option]) -> ArgumentParser:
    """Return a parser of options alone: values are read, and places counted, with better advice."""
    parser = ArgumentParser(
        add_help=False, allow_abbrev=False, exit_on_error=False, argument_default=SUPPRESS
    )
    for number, option in enumerate(options):
        if option.kind is not bool:
            parser.add_argument(*option.names, dest=str(number), action="append")
            continue
        for names, value in ((option.names, True), ((option.negative,), False)):
            if names[0] is not None:
                parser.add_argument(
                    *names, dest=str(number), action="append_const", const=value
                )  # fmt: skip
    return parser


def _keywords(words: str, command: Callable[..., int], texts: Texts) -> dict[str, Any]:
    """Return what a command is called with by name; classes of options are made of their fields."""
    grouped: dict[str, dict[str, Any]] = {}
    keywords: dict[str, Any] = {}
    values = [(option, _value(words, option, given)) for option, given in texts]
    require_fits({o.setting.name: (o.setting, value) for o, value in values if o.setting})
    for option, value in values:
        into = keywords if option.field is None else grouped.setdefault(option.argument, {})
        into[option.field or option.argument] = value
    return keywords | {
        name: type(parameter.default)(**grouped[name])
        for name, parameter in signature(command).parameters.items()
        if name in grouped
    }


def _value(words: str, option: Option, given: list[Any]) -> Any:
    name = option.names[0]
    if not option.many and len(given) > 1:
        raise usage_errors.given_twice(name)
    if option.kind is bool:
        return given[0]
    values = [_read(words, name, option.kind, option.form, text) for text in given]
    return tuple(values) if option.many else values[0]


def _placed(words: str, places: Sequence[Argument], texts: Sequence[str]) -> Iterator[Any]:
    """Yield the values of the arguments; UsageError where they are too few or too many."""
    usage, left = " ".join(place.name for place in places), [*texts]
    for k, place in enumerate(places, 1):
        if place.required and not left:
            raise usage_errors.missing(place.name, words, usage)
        count = max(1, len(left) - len(places[k:])) if place.many else 1
        taken, left = left[:count], left[count:]
        meant = [STANDARD_INPUT if text == "-" else text for text in taken]
        values = [_read(words, place.name, place.kind, place.form, text) for text in meant]
        yield from [tuple(values)] if place.many else values
    if left:
        raise usage_errors.too_much(left[0], words, usage)


def _read(words: str, name: str, kind: Any, form: OptionForm, text: str) -> Any:
    """Return the value that a text means, as its type and bounds ask for."""
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise usage_errors.no_choice(name, kind, text, words)
        return text
    if kind not in (int, float):
        return kind(text)
    try:
        number = as_whole(text) if kind is int else _as_number(text)
        if (form.least is None or number >= form.least) and (
            form.most is None or number <= form.most
        ):
            return number
    except ValueError:
        pass
    raise usage_errors.no_such_number(name, kind, text, _bounds(form), words)


def as_whole(text: str) -> int:
    """Read a whole number, also as 1e3; ValueError for all else, of which `int` may make some."""
    if re.fullmatch(r"[+-]?[0-9]{1,40}", text):
        return int(text)
    number = _as_number(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)


def _as_number(text: str) -> float:
    if "_" in text:  # which Python leaves out
        raise ValueError(text)
    return float(text)


def _bounds(form: OptionForm) -> str:
    if form.least is None:
        return ""
    most = "" if form.most in (None, MOST_WHOLE) else f" and at most {form.most}"
    return f" of at least {form.least}{most}"
