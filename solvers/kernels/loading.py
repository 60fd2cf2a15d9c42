"""Compiled kernels on disk, checked before they run.

numba's own cache trusts its files, and has an index that processes overwrite for each other; here
every kernel and the kinds of its arguments are one file with a checksum (kernel_files.py), in the
package or in the user's cache, and an unusable file is compiled again and replaced.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

from fewpass.solvers.kernels.argument_kinds import Kinds, classes_of, in_words
from fewpass.solvers.kernels.kernel_files import (
    PACKAGED,
    SUFFIX,
    cache_folder,
    damaged_kernels,
    read_kernel,
    why,
    write_kernel,
)
from fewpass.solvers.kernels.kernel_sources import digest_of_sources, modules_of
from fewpass.solvers.kernels.levels import compiled_for
from fewpass.solvers.kernels.machine_code import MachineCode, Unlinked, linked

_log = logging.getLogger(__name__)

MOST_NAMED = 3  # files, in one message

Made = TypeVar("Made")

_users_folder = cache(cache_folder)
_warned: set[Path] = set()  # files and folders with a warning already
loaded: set[Path] = set()  # files, by this process


class KernelsOnDisk:
    """Files of one kernel, for each kind of arguments.

    Parameters
    ----------
    function
        The kernel's body.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property
    def folder(self) -> Path:
        """The user's; kernels of the package are looked for first."""
        return _users_folder()

    def has_any(self) -> bool:
        """Say whether the kernel is on disk, for whatever kinds."""
        name = self._name()
        return name is not None and any(any(at.glob(f"{name}.*{SUFFIX}")) for at in self._folders())

    def path(self, kinds: Kinds) -> Path | None:
        """Return where the user's kernel for these kinds belongs; None: it cannot be stored."""
        name = self._file(kinds)
        return None if name is None else self.folder / name

    def has(self, kinds: Kinds) -> bool:
        """Say whether there is a file for these kinds."""
        name = self._file(kinds)
        return name is not None and any((at / name).exists() for at in self._folders())

    def load(self, kinds: Kinds) -> Callable[..., Any] | None:
        """Return the machine code for these kinds as a function; None if it must be compiled."""
        return self._loaded(kinds, lambda code, _: linked(MachineCode(*code)))

    def load_for_compiler(self, kinds: Kinds, make: Callable[[bytes, bytes], Made]) -> Made | None:
        """Return what is made of the code and numba's pickle, to compile another kernel with."""
        return self._loaded(kinds, lambda made, pickled: make(MachineCode(*made).code, pickled))

    def save(self, kinds: Kinds, made: MachineCode, pickled: bytes) -> None:
        """Store a kernel as machine code, and what else numba needs to take it up again."""
        if (path := self.path(kinds)) is None:
            return
        try:
            write_kernel(path, pickle.dumps((tuple(made), pickled)))
        except OSError as error:
            if self.folder not in _warned:
                _log.warning(
                    "Compiled kernels cannot be kept in %s (%s), so every command compiles them. "
                    "Make room there, or set XDG_CACHE_HOME to a folder that can be written.",
                    self.folder, why(error),
                )  # fmt: skip
            _warned.add(self.folder)

    def _folders(self) -> tuple[Path, Path]:
        return PACKAGED / compiled_for()[1], self.folder

    def _loaded(self, kinds: Kinds, make: Callable[[Any, bytes], Made]) -> Made | None:
        """Return what is made of a file of the package or of the user; None if there is none."""
        name = self._file(kinds)
        if name is None:
            return None
        faults: dict[Path, Exception] = {}
        for path in (at / name for at in self._folders()):
            try:
                made = make(*pickle.loads(read_kernel(path)))
            except (FileNotFoundError, Unlinked):
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, the sources are there
                faults[path] = error
                continue
            loaded.add(path)
            return made
        for path, fault in faults.items():
            _tell_damaged(path, fault, self.folder)
        return None

    def _name(self) -> str | None:
        """Return what the names of the files for all kinds begin with; None: unknown sources."""
        function = self._function
        sources = digest_of_sources([function.__module__])
        return sources and f"{function.__module__}.{function.__name__}.{sources[:12]}"

    def _file(self, kinds: Kinds) -> str | None:
        """Return the name of the file for these kinds; None where the sources are unknown."""
        function, classes = self._function, list(classes_of(kinds))
        closed = tuple(cell.cell_contents for cell in function.__closure__ or ())
        try:
            values = pickle.dumps(closed)
        except (pickle.PicklingError, AttributeError, TypeError):  # functions without a place
            return None
        modules = {function.__module__, *modules_of(closed), *modules_of(classes)}
        name, sources = self._name(), digest_of_sources(modules)
        if name is None or sources is None:
            return None
        code = function.__code__
        key = (
            name, sources, function.__qualname__, code.co_firstlineno, code.co_code, code.co_names,
            [one for one in code.co_consts if not isinstance(one, CodeType)], in_words(kinds),
        )  # fmt: skip
        digest = hashlib.sha256(repr(key).encode())
        digest.update(values)
        return f"{name}.{digest.hexdigest()[:24]}{SUFFIX}"


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
