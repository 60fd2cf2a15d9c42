"""What is said of an option that a command does not have."""

from __future__ import annotations

from collections.abc import Iterable

from fewpass.flows.options import called
from fewpass.pipeline.settings.flat_settings import OTHER_NAMES, nearest


def no_such_option(word: str, command: str, names: Iterable[str]) -> str:
    """Return a sentence, with the option among `names` that is meant, or where they are listed."""
    there = [*names]
    options = {called((name,)): called((name,)) for name in OTHER_NAMES} | {n: n for n in there}
    near = nearest(word, {name: option for name, option in options.items() if option in there})
    said = f"{command} has no option {word}." if command else f"There is no option {word}."
    return f"{said} Did you mean {near}?" if near else f"{said} {advice(command)}"


def advice(command: str) -> str:
    """Say where options are listed."""
    return f"{' '.join(('fewpass', *command.split(), '--help'))} shows what there is."
