"""Sources of a kernel: its module, and all modules that anything in that comes from.

numba compiles a kernel of what its names stand for, and of what those names' functions name in
turn.  A name stands for something of its own module, or for what that imports: so the modules that
can be reached from one to the next are all that counts, each with its text and with the numbers in
it, which may have been imported.  Verbs (dispatch.py) have bodies next to themselves or next to
the type that these are for, and types of arguments count as names do.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
import time
from collections.abc import Container, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from fewpass.solvers.kernels.levels import compiled_with

#: What tells numba of all that; a process that compiles nothing does not import it.
_COMPILER = tuple(sorted((Path(__file__).parent / "compiler").glob("*.py")))
_time_of_start = cache(time.time)  # no constant, as other numbers of modules are
_time_of_start()
_LIBRARIES = {"numba", "numpy", *sys.stdlib_module_names}
_STANDARD = Path(sysconfig.get_path("stdlib"))
_INSTALLED = {"site-packages", "dist-packages"}
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), np.generic)


class _Source(NamedTuple):
    """A module."""

    digest: bytes  # of its text and its constants
    uses: frozenset[str]  # other modules


def digest_of_sources(modules: Iterable[str]) -> str | None:
    """Return the hex digest of some modules, of all that they use, and of what compiles them.

    None where the text of one cannot be read: it has no file, or another since this process began.
    """
    return _digest(frozenset(modules))


def modules_of(values: Iterable[Any]) -> set[str]:
    """Return the names of the modules that values come from, of this package and the caller's."""
    return {one for value in values for one in _leaves(value) if isinstance(one, str)}


@cache
def _digest(modules: frozenset[str]) -> str | None:
    digest = hashlib.sha256(compiled_with().encode() + _compilers_text())
    if not all(map(_is_as_at_start, _COMPILER)):
        return None
    own = {"fewpass", *(name.partition(".")[0] for name in modules)} - _LIBRARIES
    todo = [name for name in modules if _counts(name, own)]
    reached: dict[str, bytes] = {}
    while todo:
        name = todo.pop()
        source = _source(name)
        if source is None:
            return None
        reached[name] = source.digest
        todo += [one for one in source.uses - reached.keys() if _counts(one, own)]
    for name, text in sorted(reached.items()):
        digest.update(name.encode() + text)
    return digest.hexdigest()


@cache
def _compilers_text() -> bytes:
    return b"".join(path.read_bytes() for path in _COMPILER)


def _counts(name: str, own: Container[str]) -> bool:
    """Return whether a module is read: one of the own packages, or of none that is installed."""
    return name.partition(".")[0] in own or not _is_installed(name)


@cache
def _is_installed(name: str) -> bool:
    path = _path(name)
    return path is None or _STANDARD in path.parents or not _INSTALLED.isdisjoint(path.parts)


def _path(name: str) -> Path | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    return Path(file) if file else None


def _is_as_at_start(path: Path) -> bool:
    return path.stat().st_ctime <= _time_of_start()


@cache
def _source(name: str) -> _Source | None:
    path, module = _path(name), sys.modules.get(name)
    if not (module and path and path.is_file() and _is_as_at_start(path)):
        return None
    digest, uses = hashlib.sha256(path.read_bytes()), set()
    for variable, value in sorted(vars(module).items()):
        if variable.startswith("__") or _is_part_of(value, module):
            continue
        for one in _leaves(value):
            if isinstance(one, bytes):
                digest.update(variable.encode() + one)
            else:
                uses.add(one)
    return _Source(digest.digest(), frozenset(uses & sys.modules.keys()))


def _is_part_of(value: object, module: ModuleType) -> bool:
    """Return whether a value is a module of a package: its import says nothing of its use."""
    return isinstance(value, ModuleType) and value.__name__.startswith(f"{module.__name__}.")


def _leaves(value: Any) -> Iterator[bytes | str]:
    """Yield what a value consists of: constants, as bytes, and names of modules."""
    if isinstance(value, _CONSTANTS):
        yield f"{type(value).__name__} {value!r};".encode()
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} ".encode() + value.tobytes()
    elif isinstance(value, ModuleType):
        yield value.__name__
    elif isinstance(value, type):
        yield from (base.__module__ for base in value.__mro__)
    elif isinstance(value, tuple):
        yield from _leaves(type(value))
        for one in value:
            yield from _leaves(one)
    elif isinstance(value, partial):
        yield from _leaves((value.func, value.args, *value.keywords.values()))
    else:
        yield str(getattr(value, "__module__", None))
