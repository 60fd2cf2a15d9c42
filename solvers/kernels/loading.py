"""Kernels that lie compiled on disk, checked before they run, loaded without the compiler.

numba first imports all that it can compile, with SciPy's linear algebra, and every installed
package that extends it: half a second of a processor and more.  Machine code that is there needs
none of it, only numba's runtime.  numba's own cache takes what it finds for what it wrote, and has
an index that processes overwrite for each other; here every kernel and its types are one file,
whose bytes are checked (kernel_files.py), and what cannot be used is compiled anew and replaced.
"""

from __future__ import annotations

import hashlib
import io
import logging
import pickle
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numba import types
from numba.core import caching, environment, serialize, sigutils
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys

from fewpass.solvers.kernels.kernel_files import (
    SUFFIX,
    damaged_kernels,
    read_kernel,
    why,
    write_kernel,
)

_log = logging.getLogger(__name__)

_REBUILD = (environment._rebuild_env.__module__, environment._rebuild_env.__name__)
MOST_NAMED = 3  # files, in one sentence

_told: set[Path] = set()  # files that a warning has named, folders that it said cannot be written


class _MachineCode(pickle.Unpickler):
    """Reads what numba kept of a compiled kernel."""

    def find_class(self, module: str, name: str) -> Any:
        """Import what is named, but for the environments of compiled functions."""
        if (module, name) == _REBUILD:
            return _environment
        return super().find_class(module, name)


def _environment(module: str, constants: Sequence[Any], name: str) -> Any:
    """Return a function's environment, without importing numba's own module that it stands in.

    Its globals are for what the interpreter is asked for, its constants for errors that are raised.
    """
    known = environment.lookup_environment(name)
    if known is not None or module in sys.modules or not module.startswith("numba."):
        return environment._rebuild_env(module, constants, name)
    made = environment.Environment({"__name__": module})
    made.consts[:], made.env_name = constants, name
    environment.Environment._memo[name] = made
    return made


class KernelsOnDisk(caching.NullCache):  # type: ignore[misc]
    """Where numba looks for a kernel before it compiles it, and leaves it afterwards.

    Parameters
    ----------
    function
        The kernel's body.
    folder
        Named by what its sources are: nothing in it is stale.
    """

    def __init__(self, function: Any, folder: Path) -> None:
        self._function, self._folder = function, folder

    @property
    def cache_path(self) -> str:
        """The folder, as numba asks for it."""
        return str(self._folder)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the kernel for these types as it lies on disk; None where it must be compiled."""
        rtsys.initialize(context)
        path = self._path(signature, context.codegen())
        try:
            kept = _MachineCode(io.BytesIO(read_kernel(path))).load()
            found = CompileResult._rebuild(context, *kept)
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, the sources are there
            _tell_damaged(path, error)
            return None
        return found if found.signature.args == _arguments(signature) else None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a kernel; one that cannot be kept is compiled by every process."""
        if compiled.lifted or compiled.library.has_dynamic_globals:
            warnings.warn(
                f"{self._function.__qualname__} is compiled by every process: it leans on an "
                "address or a large array of this one. Give it that as an argument.",
                stacklevel=2,
            )
            return
        try:
            content = serialize.dumps(compiled._reduce())
            write_kernel(self._path(signature, compiled.library.codegen), content)
        except OSError as error:
            if self._folder not in _told:
                _log.warning(
                    "Compiled kernels cannot be kept in %s (%s), so every command compiles them. "
                    "Make room there, or set XDG_CACHE_HOME to a folder that can be written.",
                    self._folder, why(error),
                )  # fmt: skip
            _told.add(self._folder)

    def _path(self, signature: Any, codegen: Any) -> Path:
        """Return the file of the kernel for these types, on this processor."""
        function, arguments = self._function, _arguments(signature)
        closed = tuple(cell.cell_contents for cell in function.__closure__ or ())
        told = (
            function.__qualname__, function.__code__.co_firstlineno, sys.version_info[:2],
            arguments, list(_classes(arguments)), codegen.magic_tuple(),
        )  # fmt: skip
        digest = hashlib.sha256(repr(told).encode())
        digest.update(function.__code__.co_code)
        digest.update(serialize.dumps(closed) if closed else b"")
        name = f"{function.__module__}.{function.__name__}.{digest.hexdigest()[:24]}{SUFFIX}"
        return self._folder / name


def _arguments(signature: Any) -> tuple[Any, ...]:
    arguments, _ = sigutils.normalize_signature(signature)
    return tuple(arguments)


def _classes(kinds: Sequence[Any]) -> Iterator[str]:
    """Yield where the classes of named tuples stand: two may have one name."""
    for kind in kinds:
        if isinstance(kind, types.BaseNamedTuple):
            yield f"{kind.instance_class.__module__}.{kind.instance_class.__qualname__}"
        if isinstance(kind, types.BaseTuple):
            yield from _classes(kind.types)


def _tell_damaged(path: Path, error: Exception) -> None:
    """Say which kernels of a folder will be compiled anew, once for all that are damaged now."""
    if path in _told:
        return
    found = {path.name: why(error)} | damaged_kernels(path.parent)
    _told.update(path.parent / name for name in found)
    named = "; ".join(f"{name}: {what}" for name, what in list(found.items())[:MOST_NAMED])
    more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    _log.warning(
        "Compiled kernels in %s cannot be used as they are (%s%s). What is needed of them is "
        "compiled anew and replaced; results are the same.",
        path.parent, named, more,
    )  # fmt: skip


def load_without_compiler(kernel: Any, folder: Path) -> None:
    """Have a kernel looked for in a folder, without what numba imports to compile one.

    One that is not there is compiled as ever, but for the packages that extend numba: nothing in
    ours is theirs.
    """
    kernel._cache = KernelsOnDisk(kernel.py_func, folder)
    kernel._compilation_chain_init_hook = lambda: None
