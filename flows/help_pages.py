"""The pages of help: of all commands, and of each with the options of every day, or with all."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from fewpass.flows import usage_errors
from fewpass.flows.beginning import beginning
from fewpass.flows.display.printing import printable
from fewpass.flows.listed_commands import (
    COMMANDS,
    GROUPS,
    HELP_FLAGS,
    STORES,
    command_named,
    function_of,
    texts_about,
)

if TYPE_CHECKING:
    from fewpass.flows.declared_options import Option

ABOUT = (
    "Linear and additive models on data larger than memory, in a few passes, each with a "
    "certificate of how good it is."
)
ABOUT_STORE = "Models of a store: list, publish, take, abandon, clean."
LEFT, NARROW = 28, 18  # columns of options, and of commands
NARROWEST, WIDEST = 50, 100  # of a page
ALL = "all"
ENDS = (
    "fewpass COMMAND --help shows the options of every day, --help all the rest. "
    "fewpass --install-completion has the Tab key complete them."
)
DEFAULT = re.compile(r" \[default: [^]]*\]")
FEW = 3  # choices that are listed in a line
#: What a value is called, where it is no choice.
VALUES = {int: "N", float: "X"}


def page_asked_for(tokens: Sequence[str]) -> str:
    """Return the page of help that a command line asks for; UsageError for no command."""
    flag = next((k for k, word in enumerate(tokens) if word in HELP_FLAGS), len(tokens))
    named = [word for word in tokens if word not in HELP_FLAGS]
    command = command_named(named)
    if command is not None:
        behind = tokens[flag + 1 :] if flag else named[len(command.split()) :]
        return page(command, "".join(behind[:1]).lstrip("-"))
    if not named:
        return overview() if tokens else printable(beginning(Path()))
    inner = {name: place for name, place in COMMANDS.items() if name.startswith(f"{named[0]} ")}
    if inner and not named[1:]:
        return commands_in({STORES: [*inner]})
    raise usage_errors.no_command(" ".join(named[:2] if inner else named[:1]), [*COMMANDS])


def overview() -> str:
    """Return the page of all commands."""
    groups = {title: [*group] for title, group in GROUPS.items() if title != STORES}
    groups[[*groups][-1]].append("store")
    return "\n".join(["Usage: fewpass COMMAND", "", *_wrapped(ABOUT), "", commands_in(groups)])


def commands_in(groups: dict[str, list[str]]) -> str:
    """Return the list of the commands of groups, each with what it is for."""
    lines: list[str] = []
    for title, commands in groups.items():
        rows = (
            (words, ABOUT_STORE if words == "store" else texts_about(words).paragraphs[0])
            for words in commands
        )
        lines += [f"{title}:", *_listed(rows, NARROW), ""]
    return "\n".join([*lines, *_wrapped(ENDS), ""])


def page(words: str, asked: str) -> str:
    """Return a command's page: what it does, its arguments, and its options in a line each.

    Parameters
    ----------
    asked
        "all" for all options, the name of one for all about it, "" for those of every day.
    """
    from fewpass.flows.command_line import every_name  # noqa: PLC0415 - it needs pydantic
    from fewpass.flows.declared_options import options_of  # noqa: PLC0415

    options, texts = [*options_of(function_of(words))], texts_about(words).parameters
    named = {name.lstrip("-"): option for option in options for name in every_name(option)}
    if asked in named:
        return "\n".join(_all_about(named[asked], texts))
    if asked not in ("", ALL):
        raise usage_errors.no_option(f"--{asked}", words, [f"--{name}" for name in named])
    lines = [*introduced(words)]
    for title, members in titled(o for o in options if o.everyday or asked == ALL):
        rows = ((spelled(option), in_a_line(option, texts)) for option in members)
        lines += [f"{title}:", *_listed(rows), ""]
    left = sum(not option.everyday for option in options)
    more = f"{left} more with --help all; " if left and asked != ALL else ""
    return "\n".join([*lines, *_wrapped(f"{more}--help NAME shows all about an option."), ""])


def introduced(words: str) -> Iterator[str]:
    """Yield how a command is written, what it does, and its arguments."""
    from fewpass.flows.command_line import usage_of  # noqa: PLC0415 - it needs pydantic

    usage = usage_of(function_of(words))
    yield from (f"Usage: fewpass {words} {usage}".rstrip() + " [OPTIONS]", "")
    paragraphs, places = about(words)
    for part in paragraphs:
        yield from (*_wrapped(part), "")
    if places:
        yield from ("Arguments:", *_listed(places, NARROW), "")


def about(words: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Return what a command does, and each argument with what it is, as a command line has them."""
    from fewpass.flows.declared_options import arguments_of  # noqa: PLC0415 - it needs pydantic
    from fewpass.flows.flags import in_flags  # noqa: PLC0415 - not for the overview

    texts, places = texts_about(words), [*arguments_of(function_of(words))]
    shown = {f"`{place.parameter.name}`": place.name.rstrip(".") for place in places}

    def written(text: str) -> str:
        named = re.sub("`[a-z_]+`", lambda match: shown.get(match[0], match[0]), text)
        return in_flags(named).replace("`", "")

    listed = [(place.name, written(texts.parameters[place.parameter.name])) for place in places]
    return [written(text) for text in texts.paragraphs], listed


def _all_about(option: Option, texts: dict[str, str]) -> Iterator[str]:
    from fewpass.flows.declared_options import text_of  # noqa: PLC0415 - it needs pydantic

    yield from (spelled(option), *_wrapped(text_of(option, texts)))
    if words := choices(option):
        yield from _wrapped(f"Choices: {', '.join(words)}.")
    yield ""


def titled(options: Iterable[Option]) -> Iterator[tuple[str, list[Option]]]:
    """Yield the options by title: those of every day, then the rest in the order of the command."""
    groups: dict[str, list[Option]] = {}
    for option in sorted(options, key=lambda option: not option.everyday):
        groups.setdefault("Options" if option.everyday else option.title, []).append(option)
    yield from groups.items()


def in_a_line(option: Option, texts: dict[str, str]) -> str:
    """Return the first sentence about an option and its default, as far as a line goes."""
    from fewpass.flows.declared_options import text_of  # noqa: PLC0415 - it needs pydantic

    text, width = text_of(option, texts), _width() - LEFT
    said, default = first_sentence(DEFAULT.sub("", text)).rstrip("."), DEFAULT.search(text)
    for end in (r"[;:] | \(", ", "):
        if len(said) > width:
            said = re.split(end, said)[0]
    with_default = f"{said}{default[0]}" if default else said
    return textwrap.shorten(
        with_default if len(with_default) <= width else said, width, placeholder=" ..."
    )


def first_sentence(text: str) -> str:
    """Return a text up to its first full stop."""
    return re.split(r"(?<=[^.A-Z][.])\s+(?=[A-Z])", text)[0]


def spelled(option: Option) -> str:
    """Return how an option is written: --memory TEXT."""
    names = [*reversed(option.names[1:]), option.names[0]]
    names += [option.negative] if option.negative else []
    words = choices(option)
    value = "|".join(words) if 0 < len(words) <= FEW else VALUES.get(option.kind, "TEXT")
    return ", ".join(names) if option.kind is bool else f"{', '.join(names)} {value}"


def choices(option: Option) -> list[str]:
    """Return the words that an option takes; none where it takes others."""
    is_choice = get_origin(option.kind) is Literal
    return [str(word) for word in get_args(option.kind)] if is_choice else []


def _listed(rows: Iterable[tuple[str, str]], left: int = LEFT) -> Iterator[str]:
    """Yield lines of names, and texts to the right of them."""
    for name, text in rows:
        first, *more = _wrapped(text, left) or [""]
        if len(name) > left - 4:
            yield f"  {name}"
            yield f"{'':{left}}{first}"
        else:
            yield f"  {name:{left - 2}}{first}"
        yield from (f"{'':{left}}{line}" for line in more)


def _width() -> int:
    return max(min(shutil.get_terminal_size().columns, WIDEST), NARROWEST)


def _wrapped(text: str, left: int = 0) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), _width() - left, break_on_hyphens=False)
