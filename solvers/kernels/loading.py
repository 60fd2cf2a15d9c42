"""Compiled kernels on disk, checked before they run, and loaded without the compiler.

The compiler of numba first imports its whole library, SciPy's linear algebra, and every installed
package that extends numba: half a second of CPU time and more.  Compiled machine code only needs
numba's runtime.  numba's own cache trusts its files, and has an index that processes overwrite for
each other; here every kernel and its types are one file with a checksum (kernel_files.py), and an
unusable file is compiled again and replaced.
"""

from __future__ import annotations

import hashlib
import io
import logging
import pickle
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core import caching, environment, serialize, sigutils

from fewpass.solvers.kernels.kernel_files import (
    SUFFIX,
    damaged_kernels,
    read_kernel,
    why,
    write_kernel,
)
from fewpass.solvers.kernels.machine_code import Stored, initialize_runtime, parts_of, rebuilt

_log = logging.getLogger(__name__)

_REBUILD = (environment._rebuild_env.__module__, environment._rebuild_env.__name__)
MOST_NAMED = 3  # files, in one message

_warned: set[Path] = set()  # files and folders with a warning already


class _MachineCode(pickle.Unpickler):
    """Reads numba's pickle of a compiled kernel."""

    def find_class(self, module: str, name: str) -> Any:
        """Import the named object, except environments of compiled functions."""
        if (module, name) == _REBUILD:
            return _environment
        return super().find_class(module, name)


def _environment(module: str, constants: Sequence[Any], name: str) -> Any:
    """Return a function's environment without importing the module of the function.

    Its globals are used by calls of the interpreter, its constants by raised errors.
    """
    loaded = environment.lookup_environment(name)
    if loaded is not None or module in sys.modules or not module.startswith("numba."):
        return environment._rebuild_env(module, constants, name)
    made = environment.Environment({"__name__": module})
    made.consts[:], made.env_name = constants, name
    environment.Environment._memo[name] = made
    return made


class KernelsOnDisk(caching.NullCache):  # type: ignore[misc]
    """numba's cache of a kernel: read before it compiles, written afterwards.

    Parameters
    ----------
    function
        The kernel's body.
    folder
        Named by a digest of the sources, so that nothing in it is stale.
    """

    def __init__(self, function: Any, folder: Path) -> None:
        self._function, self._folder = function, folder

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def has_any(self) -> bool:
        """Say whether the kernel is on disk, for whatever types."""
        name = f"{self._function.__module__}.{self._function.__name__}"
        return any(self._folder.glob(f"{name}.*{SUFFIX}"))

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the kernel for these types from disk; None if it must be compiled."""
        processor = _processor(context.codegen())
        self._initialize(context, processor)
        path = self._path(signature, processor)
        try:
            result = rebuilt(context, _MachineCode(io.BytesIO(read_kernel(path))).load())
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, the sources are there
            _tell_damaged(path, error)
            return None
        return result if result.signature.args == _arguments(signature) else None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Store a kernel; one that cannot be stored is compiled by every process."""
        if compiled.lifted or compiled.library.has_dynamic_globals:
            warnings.warn(
                f"{self._function.__qualname__} is compiled by every process: it leans on an "
                "address or a large array of this one. Give it that as an argument.",
                stacklevel=2,
            )
            return
        path = self._path(signature, _processor(compiled.library.codegen))
        self._write(path, serialize.dumps(parts_of(compiled)))

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_kernel(path, content)
        except OSError as error:
            if self._folder not in _warned:
                _log.warning(
                    "Compiled kernels cannot be kept in %s (%s), so every command compiles them. "
                    "Make room there, or set XDG_CACHE_HOME to a folder that can be written.",
                    self._folder, why(error),
                )  # fmt: skip
            _warned.add(self._folder)

    def _initialize(self, context: Any, processor: tuple[str, ...]) -> None:
        """Load numba's runtime, once per process: the same for the kernels of all packages."""
        key = (numba.__version__, sys.version_info[:2], processor)
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        path = self._folder.parent / f"runtime.{digest}{SUFFIX}"

        def load() -> Stored:
            try:
                stored: Stored = pickle.loads(read_kernel(path))
            except FileNotFoundError:
                raise
            except Exception as error:
                _tell_damaged(path, error)
                raise OSError(str(error)) from error
            return stored

        initialize_runtime(context, load, lambda made: self._write(path, pickle.dumps(made)))

    def _path(self, signature: Any, processor: tuple[str, ...]) -> Path:
        """Return the path of the kernel for these types on this processor."""
        function, arguments = self._function, _arguments(signature)
        closed = tuple(cell.cell_contents for cell in function.__closure__ or ())
        key = (
            function.__qualname__, function.__code__.co_firstlineno, sys.version_info[:2],
            arguments, list(_classes(arguments)), processor,
        )  # fmt: skip
        digest = hashlib.sha256(repr(key).encode())
        digest.update(function.__code__.co_code)
        digest.update(serialize.dumps(closed) if closed else b"")
        name = f"{function.__module__}.{function.__name__}.{digest.hexdigest()[:24]}{SUFFIX}"
        return self._folder / name


@cache
def _processor(codegen: Any) -> tuple[str, ...]:
    """Return what machine code is made for."""
    made: tuple[str, ...] = codegen.magic_tuple()
    return made


def _arguments(signature: Any) -> tuple[Any, ...]:
    arguments, _ = sigutils.normalize_signature(signature)
    return tuple(arguments)


def _classes(kinds: Sequence[Any]) -> Iterator[str]:
    """Yield the full names of the classes of named tuples: two may have one name."""
    for kind in kinds:
        if isinstance(kind, types.BaseNamedTuple):
            yield f"{kind.instance_class.__module__}.{kind.instance_class.__qualname__}"
        if isinstance(kind, types.BaseTuple):
            yield from _classes(kind.types)


def _tell_damaged(path: Path, error: Exception) -> None:
    """Warn of all damaged kernels of a folder, which will be compiled again."""
    if path in _warned:
        return
    faults = {path.name: why(error)} | damaged_kernels(path.parent)
    _warned.update(path.parent / name for name in faults)
    named = "; ".join(f"{name}: {what}" for name, what in list(faults.items())[:MOST_NAMED])
    more = f"; and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else ""
    _log.warning(
        "Compiled kernels in %s cannot be used as they are (%s%s). What is needed of them is "
        "compiled anew and replaced; results are the same.",
        path.parent, named, more,
    )  # fmt: skip


def load_without_compiler(kernel: Any, folder: Path) -> None:
    """Make a kernel load from a folder without importing numba's compiler.

    A missing one is compiled as usual, but without the packages that extend numba, which our
    kernels do not use.
    """
    kernel._cache = KernelsOnDisk(kernel.py_func, folder)
    kernel._compilation_chain_init_hook = lambda: None


def is_on_disk(kernel: Any) -> bool:
    """Say whether a kernel of a folder is there, for whatever types."""
    cached: KernelsOnDisk = kernel._cache
    return cached.has_any()
