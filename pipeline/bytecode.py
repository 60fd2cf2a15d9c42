"""Bytecode of imported modules on disk, also where the environment says that none is to be written.

An image is often built, and run, with PYTHONDONTWRITEBYTECODE: then every command compiles some
thousand modules anew, for one to two seconds of CPU time.
"""

from __future__ import annotations

import py_compile
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType


def keep_bytecode() -> int:
    """Write the bytecode of this process's modules that has not been written; return how many.

    Folders that cannot be written are left as they are.
    """
    written = 0
    for source, target in {_places(module) for module in [*sys.modules.values()]} - {("", "")}:
        if not Path(target).exists():
            with suppress(OSError, py_compile.PyCompileError):
                py_compile.compile(source, target, doraise=True)
                written += 1
    return written


def _places(module: ModuleType) -> tuple[str, str]:
    """Return a module's source and where its bytecode belongs; none of built-in ones."""
    spec = getattr(module, "__spec__", None)
    source, target = getattr(spec, "origin", None), getattr(spec, "cached", None)
    return (source, target) if source and target and source.endswith(".py") else ("", "")
