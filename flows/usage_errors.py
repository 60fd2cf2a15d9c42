"""Sentences about command lines that ask for nothing that there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from fewpass.flows.listed_commands import MERGED
from fewpass.flows.refusals import UsageError

_KINDS = {int: "a whole number", float: "a number"}


def no_command(word: str, names: Sequence[str]) -> UsageError:
    """Return an error about a command that there is not, with the one that is meant."""
    near = get_close_matches(word, names, n=1)
    hint = f"Did you mean {near[0]}?" if near else "fewpass --help lists them all."
    if word in MERGED:
        hint = f"Write fewpass {MERGED[word]} instead."
    named = f"option {word}" if word.startswith("-") else f'command "{word}"'
    return UsageError(f"There is no {named}. {hint}")


def no_option(word: str, command: str, names: Iterable[str]) -> UsageError:
    """Return an error about an option that a command has not, with the one that is meant."""
    from fewpass.flows.options import FIXED, called  # noqa: PLC0415 - it needs pydantic
    from fewpass.pipeline.settings.flat_settings import OTHER_NAMES, nearest  # noqa: PLC0415

    word, there = word.partition("=")[0], [*names]
    options = {called((name,)): called((name,)) for name in OTHER_NAMES} | {n: n for n in there}
    near = nearest(word, {name: option for name, option in options.items() if option in there})
    hint = f"Did you mean {near}?" if near else advice(command)
    reads = called(("by_position",)) in there
    if reads and word.replace("--no-", "--") in {called((name,)) for name in FIXED}:
        hint = f"It was decided when the model or the data set was made. Leave {word} out."
    return UsageError(f"{command} has no option {word}. {hint}")


def no_value(name: str) -> UsageError:
    """Return an error about an option without its value."""
    return UsageError(
        f"{name} needs a value after it. One that begins with a hyphen is written {name}=-x."
    )


def needless_value(name: str) -> UsageError:
    """Return an error about a value of an option that takes none."""
    return UsageError(f"{name} takes no value. Give it alone.")


def given_twice(name: str) -> UsageError:
    """Return an error about an option that is there more than once."""
    return UsageError(f"{name} is given more than once. Give it once.")


def missing(name: str, command: str, places: str) -> UsageError:
    """Return an error about an argument, or an option, that must be given."""
    said = f"needs {name}." if name.startswith("-") else f"takes {places}, and {name} is missing."
    return UsageError(f"{command} {said} {advice(command)}")


def too_much(word: str, command: str, places: str) -> UsageError:
    """Return an error about a word that no argument takes."""
    said = f"{command} takes {places or 'options alone'}, and {word!r} is too much."
    return UsageError(f"{said} {advice(command)}")


def no_such_number(name: str, kind: type, text: str, bounds: str, command: str) -> UsageError:
    """Return an error about a value that is no number, or none within the bounds."""
    return UsageError(f"{name} takes {_KINDS[kind]}{bounds}, not {text!r}. {advice(command)}")


def no_choice(name: str, kind: Any, text: str, command: str) -> UsageError:
    """Return an error about a word that is none of a few, with the one that is meant."""
    words = [str(word) for word in get_args(kind)]
    near = get_close_matches(text, words, n=1)
    meant = f'Did you mean "{near[0]}"? ' if near else ""
    every = ", ".join(f'"{word}"' for word in words)
    return UsageError(
        f'Invalid value "{text}" for {name}. {meant}Choose from: {every}. {advice(command)}'
    )


def advice(command: str) -> str:
    """Say where options are listed."""
    return f"fewpass {command} --help shows what there is."
