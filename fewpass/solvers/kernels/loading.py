"""Kernels that lie compiled on disk, loaded without the compiler.

numba first imports all that it can compile, with SciPy's linear algebra, and every installed
package that extends it: half a second of a processor and more.  Machine code that is there needs
none of it, only numba's runtime.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from typing import Any

from numba.core import environment
from numba.core.runtime.nrt import rtsys

_REBUILD = (environment._rebuild_env.__module__, environment._rebuild_env.__name__)


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


def load_without_compiler(kernel: Any) -> None:
    """Have a kernel that is cached on disk loaded without what numba imports to compile one.

    One that is not there is compiled as ever, but for the packages that extend numba: nothing in
    ours is theirs.
    """
    cache, files = kernel._cache, kernel._cache._cache_file

    def read(name: str) -> Any:
        with open(files._data_path(name), "rb") as file:  # noqa: PTH123 - numba's path, as it is
            return _MachineCode(file).load()

    def load(signature: Any, context: Any) -> Any:
        rtsys.initialize(context)
        return cache._load_overload(signature, context)

    files._load_data, cache.load_overload = read, load
    kernel._compilation_chain_init_hook = lambda: None
