"""Texts about verbs: the docstring of a verb's function for Python, which a command adds to.

Docstrings are read from the text of their modules: nothing is imported for a page of help.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import fewpass

ROOM = Path(__file__).parents[1]
_SECTION = re.compile(r"\n\n(\w+)\n-+\n")


class Texts(NamedTuple):
    """Texts of a function, in paragraphs, and of each of its parameters."""

    paragraphs: tuple[str, ...]
    parameters: dict[str, str]


def texts_in_python(function: str) -> Texts:
    """Return the texts about a function that `fewpass` offers; none of another name."""
    home = fewpass.HOMES.get(function)
    return Texts((), {}) if home is None else _texts(f"pipeline/{home.replace('.', '/')}", function)


def texts_of_command(module: str, function: str) -> Texts:
    """Return the texts about a command: of the function of its name in Python, then its own.

    A command's own first paragraph stands for itself where Python has no such function.
    """
    python, own = texts_in_python(function), _texts(f"flows/commands/{module}", function)
    added = own.paragraphs[1:] if python.paragraphs else own.paragraphs
    return Texts((*python.paragraphs, *added), python.parameters | own.parameters)


@cache
def _texts(module: str, function: str) -> Texts:
    """Return the texts in the docstring of a module's function; none where it has none."""
    source = (ROOM / f"{module}.py").read_text(encoding="utf-8")
    docstring = re.search(rf'(?ms)^def {function}\(.*?^    """(.*?)"""', source)
    about, *sections = _SECTION.split(dedent(f"    {docstring[1]}") if docstring else "")
    bodies = dict(zip(sections[::2], sections[1::2], strict=True))
    parts = re.split(r"^(?=\S)", bodies.get("Parameters", ""), flags=re.MULTILINE)
    split = (part.partition("\n") for part in parts if part.strip())
    return Texts(
        tuple(" ".join(part.split()) for part in about.split("\n\n") if part.strip()),
        {name.strip("* "): " ".join(text.split()) for name, _, text in split},
    )
