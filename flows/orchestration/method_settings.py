"""Names of the methods' settings, read from the text of their classes: importing them takes numba.

A class of settings is a pydantic model: its fields are the annotated names of its body, and those
of its bases.  What a request says wrong is refused by these names alone (parameters.py).
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from fewpass import solvers
from fewpass.solvers.registry import METHODS


def methods_with(setting: str) -> tuple[str, ...]:
    """Return the words of the methods that have a setting of this name."""
    return tuple(kind for kind in METHODS if setting in setting_names(kind))


def every_setting() -> list[str]:
    """Return the names of all methods' settings, each once."""
    return list(dict.fromkeys(name for kind in METHODS for name in setting_names(kind)))


@cache
def setting_names(kind: str) -> tuple[str, ...]:
    """Return the names of a method's settings, but for its word `kind`."""
    module, _, name = METHODS[kind].partition(":")
    return tuple(field for field in _fields(module, name) if field != "kind")


@cache
def _fields(module: str, name: str) -> tuple[str, ...]:
    """Return the fields of a class of ours and of its bases; none of a class of others."""
    if not module.startswith(f"{solvers.__name__}."):
        return ()
    text = _parsed(module)
    home = next((n for n in text.body if isinstance(n, ast.ClassDef) and n.name == name), None)
    homes = _imported_from(text)
    if home is None:
        return _fields(homes[name], name) if name in homes else ()
    bases = [base.id for base in home.bases if isinstance(base, ast.Name)]
    fields = [f for base in bases for f in _fields(homes.get(base, module), base)]
    fields += [field for field in map(_field_of, home.body) if field is not None]
    return tuple(dict.fromkeys(fields))


@cache
def _parsed(module: str) -> ast.Module:
    inside = module.removeprefix(f"{solvers.__name__}.").split(".")
    at = Path(solvers.__path__[0]).joinpath(*inside)
    source = at / "__init__.py" if at.is_dir() else at.with_suffix(".py")
    return ast.parse(source.read_text(encoding="utf-8"))


def _imported_from(text: ast.Module) -> dict[str, str]:
    """Return every name that a module imports, and from where."""
    lines = [line for line in text.body if isinstance(line, ast.ImportFrom)]
    return {alias.name: line.module or "" for line in lines for alias in line.names}


def _field_of(line: ast.stmt) -> str | None:
    """Return the name of the field that a line of a class makes."""
    if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
        return None
    return None if ast.unparse(line.annotation).startswith("ClassVar") else line.target.id
