"""Compiled kernels on disk, checked before they run, and loaded without the compiler.

The compiler of numba first imports its whole library, SciPy's linear algebra, and every installed
package that extends numba: half a second of CPU time and more.  Compiled machine code only needs
numba's runtime.  numba's own cache trusts its files, and has an index that processes overwrite for
each other; here every kernel and its types are one file with a checksum (kernel_files.py), in the
package or in the user's cache, and an unusable file is compiled again and replaced.
"""

from __future__ import annotations

import hashlib
import io
import logging
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

from numba import types
from numba.core import caching, environment, serialize, sigutils

from fewpass.solvers.kernels.kernel_files import (
    PACKAGED,
    SUFFIX,
    damaged_kernels,
    read_kernel,
    why,
    write_kernel,
)
from fewpass.solvers.kernels.kernel_sources import digest_of_sources, modules_of
from fewpass.solvers.kernels.levels import compiled_for, compiled_with, compiling_for_level
from fewpass.solvers.kernels.machine_code import initialize_runtime, parts_of, rebuilt

_log = logging.getLogger(__name__)

_REBUILD = (environment._rebuild_env.__module__, environment._rebuild_env.__name__)
MOST_NAMED = 3  # files, in one message

Made = TypeVar("Made")

_warned: set[Path] = set()  # files and folders with a warning already
loaded: set[Path] = set()  # files, by this process


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
        Of this user; kernels of the package are looked for first.
    """

    def __init__(self, function: Any, folder: Path) -> None:
        self._function, self._folder = function, folder

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def has_any(self) -> bool:
        """Say whether the kernel is on disk, for whatever types."""
        name = self._name()
        return name is not None and any(any(at.glob(f"{name}.*{SUFFIX}")) for at in self._folders())

    def path(self, signature: Any) -> Path | None:
        """Return where the user's kernel for these types belongs; None: it cannot be stored."""
        name = self._file(signature)
        return None if name is None else self._folder / name

    def has(self, signature: Any) -> bool:
        """Say whether there is a file for these types."""
        name = self._file(signature)
        return name is not None and any((at / name).exists() for at in self._folders())

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the kernel for these types from disk; None if it must be compiled."""
        runtime = f"runtime.{hashlib.sha256(compiled_with().encode()).hexdigest()[:24]}{SUFFIX}"
        initialize_runtime(
            context,
            lambda: self._loaded(runtime, pickle.loads),
            lambda made: self._write(self._folder / runtime, pickle.dumps(made)),
        )
        name = self._file(signature)
        if name is None:
            return None

        def made(content: bytes) -> Any:
            return rebuilt(context, _MachineCode(io.BytesIO(content)).load())

        result = self._loaded(name, made)
        return result if result and result.signature.args == _arguments(signature) else None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Store a kernel; one that cannot be stored is compiled by every process."""
        if compiled.lifted or compiled.library.has_dynamic_globals:
            warnings.warn(
                f"{self._function.__qualname__} is compiled by every process: it leans on an "
                "address or a large array of this one. Give it that as an argument.",
                stacklevel=2,
            )
            return
        if path := self.path(signature):
            self._write(path, serialize.dumps(parts_of(compiled)))

    def _folders(self) -> tuple[Path, Path]:
        return PACKAGED / compiled_for()[1], self._folder

    def _loaded(self, name: str, make: Callable[[bytes], Made]) -> Made | None:
        """Return what is made of a file of the package or of the user; None if there is none."""
        faults: dict[Path, Exception] = {}
        for path in (at / name for at in self._folders()):
            try:
                made = make(read_kernel(path))
            except FileNotFoundError:
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, the sources are there
                faults[path] = error
                continue
            loaded.add(path)
            return made
        for path, fault in faults.items():
            _tell_damaged(path, fault, self._folder)
        return None

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

    def _name(self) -> str | None:
        """Return what the names of the files for all types begin with; None: unknown sources."""
        function = self._function
        sources = digest_of_sources([function.__module__])
        return sources and f"{function.__module__}.{function.__name__}.{sources[:12]}"

    def _file(self, signature: Any) -> str | None:
        """Return the name of the file for these types; None where the sources are unknown."""
        function, arguments = self._function, _arguments(signature)
        closed = tuple(cell.cell_contents for cell in function.__closure__ or ())
        classes = list(_classes(arguments))
        modules = {function.__module__, *modules_of(closed), *modules_of(classes)}
        name, sources = self._name(), digest_of_sources(modules)
        if name is None or sources is None:
            return None
        code = function.__code__
        key = (
            name, sources, function.__qualname__, code.co_firstlineno, code.co_code, code.co_names,
            [one for one in code.co_consts if not isinstance(one, CodeType)],
            arguments, [(one.__module__, one.__qualname__) for one in classes],
        )  # fmt: skip
        digest = hashlib.sha256(repr(key).encode())
        digest.update(serialize.dumps(closed) if closed else b"")
        return f"{name}.{digest.hexdigest()[:24]}{SUFFIX}"


def _arguments(signature: Any) -> tuple[Any, ...]:
    arguments, _ = sigutils.normalize_signature(signature)
    return tuple(arguments)


def _classes(kinds: Sequence[Any]) -> Iterator[type]:
    """Yield the classes of named tuples: two may have one name."""
    for kind in kinds:
        if isinstance(kind, types.BaseNamedTuple):
            yield kind.instance_class
        if isinstance(kind, types.BaseTuple):
            yield from _classes(kind.types)


def _tell_damaged(path: Path, error: Exception, into: Path) -> None:
    """Warn of all damaged kernels of a folder, which will be compiled again."""
    if path in _warned:
        return
    faults = {path.name: why(error)} | damaged_kernels(path.parent)
    _warned.update(path.parent / name for name in faults)
    named = "; ".join(f"{name}: {what}" for name, what in list(faults.items())[:MOST_NAMED])
    more = f"; and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else ""
    _log.warning(
        "Compiled kernels in %s cannot be used as they are (%s%s). What is needed of them is "
        "compiled anew, into %s; results are the same.",
        path.parent, named, more, into,
    )  # fmt: skip


def load_without_compiler(kernel: Any, folder: Path) -> None:
    """Make a kernel load from a folder without importing numba's compiler.

    A missing one is compiled for the level of this processor, without the packages that extend
    numba, which our kernels do not use.
    """
    kernel._cache = KernelsOnDisk(kernel.py_func, folder)
    kernel._compilation_chain_init_hook = lambda: None
    compile_or_load = kernel.compile

    def for_level(signature: Any) -> Any:
        with compiling_for_level(kernel.targetctx):
            return compile_or_load(signature)

    kernel.compile = for_level


def on_disk(kernel: Any) -> KernelsOnDisk:
    """Return where a kernel is stored."""
    files: KernelsOnDisk = kernel._cache
    return files
