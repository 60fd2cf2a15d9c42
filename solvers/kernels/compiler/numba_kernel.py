"""Numba's side of a kernel: compiling what is not on disk, for a level of processors."""

from __future__ import annotations

import fcntl
import gc
import os
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numba
from numba import types
from numba.core import caching, codegen, event, serialize, sigutils
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime.nrt import rtsys
from numba.np.numpy_support import as_dtype

from fewpass.solvers.kernels.argument_kinds import NOTHING, Kind, Kinds, array_kind
from fewpass.solvers.kernels.compiler.declarations import tell_numba
from fewpass.solvers.kernels.compiler.part_compiler import give_environments
from fewpass.solvers.kernels.compiling import compilation_begins, compilation_ends
from fewpass.solvers.kernels.levels import ProcessorLevel, level
from fewpass.solvers.kernels.loading import KernelsOnDisk
from fewpass.solvers.kernels.machine_code import MachineCode, undefined_symbols


class _Telling(event.Listener):  # type: ignore[misc]
    """Tells of all that numba compiles, parts of kernels and other packages' functions included."""

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002
        compilation_begins()

    def on_end(self, event: event.Event) -> None:  # noqa: ARG002
        compilation_ends()


event.register("numba:compile", _Telling())


class NumbaKernel:
    """A kernel as numba compiles it, and as other kernels that it compiles call it.

    Parameters
    ----------
    function
        The body.
    files
        Where kernels are looked for before they are compiled, and kept.
    """

    def __init__(self, function: Callable[..., Any], files: KernelsOnDisk) -> None:
        self.dispatcher = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(
            function
        )
        self.dispatcher._cache = _Files(function, files)
        self.dispatcher._compilation_chain_init_hook = lambda: None  # nobody extends our kernels
        self._files, self._compile_or_load = files, self.dispatcher.compile
        self.dispatcher.compile = self._compile

    @property
    def numba_type(self) -> Any:
        """The type of the kernel where another one calls it."""
        return types.Dispatcher(self.dispatcher)

    def compiled_for(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Compile the kernel for such arguments; return what runs it."""
        self.dispatcher.compile(tuple(map(numba.typeof, arguments)))
        return self.dispatcher  # type: ignore[no-any-return]

    def _compile(self, signature: Any) -> Any:
        """Compile for types, unless another process does; it is waited for, then."""
        kinds, context = _kinds(signature), self.dispatcher.targetctx
        with global_compiler_lock, _nothing_collected(), compiling_for_level(context):
            tell_numba()
            path = None if self._files.has(kinds) else self._files.path(kinds)
            with _alone(path.with_suffix(".lock")) if path else nullcontext():
                entry = self._compile_or_load(signature)
            give_environments(self.dispatcher)
            return entry


class _Files(caching.NullCache):  # type: ignore[misc]
    """Files of a kernel, as numba's cache: read before it compiles, written afterwards."""

    def __init__(self, function: Callable[..., Any], files: KernelsOnDisk) -> None:
        self._function, self._files = function, files

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the kernel for these types; None if it must be compiled."""

        def made(code: bytes, pickled: bytes) -> Any:
            rtsys.initialize(context)  # its arrays: numba does it when it compiles, not here
            (name, form, (_, intermediate)), *others = pickle.loads(pickled)
            return CompileResult._rebuild(context, (name, form, (code, intermediate)), *others)

        return self._files.load_for_compiler(_kinds(signature), made)

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Store a kernel; one that cannot be stored is compiled by every process."""
        if compiled.lifted or compiled.library.has_dynamic_globals:
            warnings.warn(
                f"{self._function.__qualname__} is compiled by every process: it leans on an "
                "address or a large array of this one. Give it that as an argument.",
                stacklevel=2,
            )
            return
        (name, form, (code, intermediate)), *others = compiled._reduce()
        parts = (name, form, (b"", intermediate)), *others
        self._files.save(_kinds(signature), _machine_code(code, others), serialize.dumps(parts))


def _machine_code(code: bytes, parts: Sequence[Any]) -> MachineCode:
    """Return what of numba's parts of a compiled kernel runs without numba."""
    about, own, *_, begun_by, others = parts
    environments = [own, *(one for one in others if one.env_name != own.env_name)]
    return MachineCode(
        about.qualname,
        code,
        about.llvm_cpython_wrapper_name,
        tuple(
            (one.env_name, serialize.dumps(one.consts) if one.consts else b"")
            for one in environments
        ),
        (*undefined_symbols(code), *map(str, begun_by)),  # what numba calls first is no symbol
    )


def _kinds(signature: Any) -> Kinds:
    arguments, _ = sigutils.normalize_signature(signature)
    return tuple(map(_kind, arguments))


def _kind(of: Any) -> Kind:
    """Return the kind of numba's type, as argument_kinds.py calls it."""
    if isinstance(of, types.Literal):  # a constant where another kernel calls it
        return repr(of)
    if isinstance(of, types.Array):
        return array_kind(as_dtype(of.dtype), of.ndim, of.layout, of.aligned, of.mutable)
    if isinstance(of, types.BaseTuple):
        return getattr(of, "instance_class", tuple), tuple(map(_kind, of.types))
    if isinstance(of, types.Number | types.Boolean):
        return str(as_dtype(of).str)
    return NOTHING if of == types.none else repr(of)


# -- one at a time ---------------------------------------------------------------------------------


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold a lock against other processes, at most until this one ends.

    There are no deadlocks, as kernels do not call each other in cycles.  On file systems without
    locks, several processes compile the same kernel.
    """
    with ExitStack() as opened:
        with suppress(OSError):
            how = (
                os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
            )  # opening a pipe would block
            descriptor = os.open(lock, how, 0o600)
            opened.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Switch Python's garbage collection off, which takes a sixth of the time of compiling."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# -- levels ----------------------------------------------------------------------------------------


class _LevelCodegen(codegen.JITCPUCodegen):  # type: ignore[misc]
    """numba's generator of code, for a level."""

    def __init__(self, of: ProcessorLevel) -> None:
        self._level = of
        super().__init__("fewpass.exec")

    def _get_host_cpu_name(self) -> str:
        return self._level.name

    def _get_host_cpu_features(self) -> str:
        return self._level.options


class _OfLevel(NamedTuple):
    """Parts that a context of numba has one of for each generator of code."""

    codegen: Any
    internal_functions: dict[Any, Any]


@cache
def _of_level(of: ProcessorLevel) -> _OfLevel:
    return _OfLevel(_LevelCodegen(of), {})


@contextmanager
def compiling_for_level(context: Any) -> Iterator[None]:
    """Have numba generate code for the level meanwhile; that of other libraries is as it was."""
    of = level()
    if of is None:
        yield
        return
    before = _OfLevel(context._internal_codegen, context.cached_internal_func)
    context._internal_codegen, context.cached_internal_func = _of_level(of)
    try:
        yield
    finally:
        context._internal_codegen, context.cached_internal_func = before
