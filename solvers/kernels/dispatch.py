"""Use of numba: `kernel` compiles, `by_type` chooses one body per type at compile time.

Losses and rows are NamedTuple types.  A verb such as `dot` has one body per type, chosen by the
type of its first argument: compiled code has only the chosen body, and the same verb called from
plain Python (`kernel.py_func`) chooses it at run time, so that plain Python is the oracle of every
kernel.

Two problems of cached kernels are solved.  With a cache that watches only the kernel's own file,
an edit of `rows.py` would leave the old `dot` inside every kernel: kernel_sources.py knows what
each is compiled from.  And of several processes that need the same missing kernel for the same
types, one compiles it and the others wait.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache, wraps
from pathlib import Path
from tempfile import gettempdir
from typing import Any, ClassVar, Protocol, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from fewpass.solvers.kernels.kernel_files import SUFFIX
from fewpass.solvers.kernels.levels import compiled_with, compiler_lock
from fewpass.solvers.kernels.loading import load_without_compiler, on_disk
from fewpass.solvers.kernels.part_compiler import PartCompiler, give_environments

Function = TypeVar("Function", bound=Callable[..., Any])

#: Options of functions that only kernels call.
PART: dict[str, Any] = {"forceinline": True, "error_model": "numpy", "pipeline_class": PartCompiler}

#: Bytes of text that plain Python parses in a tenth of a second; compiling a parser takes some.
FEW_BYTES = 1 << 14

#: LLVM keeps the order of sums, but may round a * b + c only once.
FUSED = {"contract"}


@cache
def _name_of_folder() -> str:
    return hashlib.sha256(compiled_with().encode()).hexdigest()[:16]


def cache_folder() -> Path:
    """Return the folder of compiled kernels: in the user's cache, or a private temporary folder.

    Kernels of other versions of numba or NumPy, or for other processors, lie next to it.

    They are code to be run, so a folder that somebody else can write to is refused.  A folder that
    cannot be written, as in an image, is used for the kernels that it has.

    Raises
    ------
    PermissionError
        When neither place can be written.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111
    temporary = Path(gettempdir()) / f"fewpass-{os.getuid()}"
    for base in (caches / "fewpass", temporary):
        if not base.is_absolute():  # no home folder
            continue
        if base == temporary and base.is_symlink():  # anybody may have created it
            continue
        folder = base / _name_of_folder()
        try:
            base.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir(exist_ok=True, mode=0o700)
        except OSError:
            continue
        usable = os.access(folder, os.W_OK) or any(folder.glob(f"*{SUFFIX}"))
        if usable and all(map(_is_private, (base, folder))):
            return folder
    raise PermissionError(
        f"No folder of this user's for compiled kernels: neither {caches} nor {temporary} can be "
        "written. Set XDG_CACHE_HOME to a folder that can."
    )


def _is_private(folder: Path) -> bool:
    """Return whether a folder belongs to this user, and nobody else can write to it."""
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


_users_folder = cache(cache_folder)


def kernel(function: Function) -> Function:
    """Compile `function`, without the GIL, with C's division, cached on disk across processes.

    The plain Python body is available as `function.py_func`.
    """
    compiled = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    load_without_compiler(compiled, _users_folder())
    compile_or_load, files = compiled.compile, on_disk(compiled)

    def compile_once(signature: Any) -> Any:
        with compiler_lock, _nothing_collected():
            path = None if files.has(signature) else files.path(signature)
            with _alone(path.with_suffix(".lock")) if path else nullcontext():
                entry = compile_or_load(signature)
            give_environments(compiled)
            return entry

    compiled.compile = compile_once
    return cast("Function", compiled)


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


def part_of_kernels(function: Function) -> Function:
    """Make `function` callable by kernels, compiled into them; in plain Python it is unchanged."""
    made = register_jitable(**PART)(function)
    return cast("Function", made)


def reading_part(function: Function) -> Function:
    """As `part_of_kernels`, for functions that make and return no array: no reference counts."""
    made = register_jitable(**PART, _nrt=False)(function)
    return cast("Function", made)


def called_by_kernels(function: Function) -> Function:
    """Make `function` callable by kernels, with C's division; LLVM may inline it or not."""
    made = register_jitable(pipeline_class=PartCompiler, error_model="numpy")(function)
    return cast("Function", made)


def exactly(compiled: Function, n_bytes: int) -> Function:
    """Return a kernel whose parts are `called_by_kernels`, or plain Python for little input.

    Both give the same bits.  Where machine code is on disk, or in this process, it is used.
    """
    made: Any = compiled
    if n_bytes > FEW_BYTES or made.overloads or on_disk(made).has_any():
        return compiled
    return cast("Function", _wrapping(made.py_func))


def _wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose whole numbers wrap without a warning, as those of kernels do."""

    @wraps(function)
    def run(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*arguments)

    return run


class Verb(Protocol):
    """A function with one body per type of its first argument."""

    __name__: str

    def __call__(self, *args: Any) -> Any:
        """Run the body for the first argument's type."""

    def register(
        self, kind: type, *, fastmath: set[str] | None = None, arrays: bool = False
    ) -> Callable[[Function], Function]:
        """Register the decorated function as the body for `kind`; `arrays`: it makes arrays."""

    def bodies(self) -> frozenset[type]:
        """Return the types that have a body."""


def by_type(generic: Callable[..., Any]) -> Verb:
    """Turn a documented, bodiless function into a verb (see the module's docstring)."""
    bodies: dict[type, Callable[..., Any]] = {}

    def verb(*args: Any) -> Any:
        body = bodies.get(type(args[0]))
        if body is None:
            kinds = ", ".join(sorted(kind.__name__ for kind in bodies))
            raise TypeError(f"{generic.__name__} knows {kinds}, not {type(args[0]).__name__}.")
        return body(*args)

    def register(
        kind: type, *, fastmath: set[str] | None = None, arrays: bool = False
    ) -> Callable[[Function], Function]:
        def keep(body: Function) -> Function:
            places = {generic.__module__, *(base.__module__ for base in kind.__mro__)}
            if body.__module__ not in places:  # kernel_sources.py would not know of it
                raise TypeError(
                    f"The body of {generic.__name__} for {kind.__name__} is in {body.__module__}. "
                    f"Define it next to one of them: in {' or '.join(sorted(places))}."
                )
            bodies[kind] = body

            def choose(first: Any, *_rest: Any) -> Callable[..., Any] | None:
                fits = isinstance(first, types.BaseNamedTuple) and first.instance_class is kind
                return body if fits else None

            # Otherwise LLVM calls `dot` with its arrays on the stack: +15 % for short rows.
            # Reference counts of arrays that a body only reads: +33 % for short rows.
            options = PART | {"fastmath": fastmath or False, "_nrt": arrays}
            overload(verb, strict=False, jit_options=options)(choose)
            return body

        return keep

    verb.__name__, verb.__doc__, verb.__module__ = (
        generic.__name__,
        generic.__doc__,
        generic.__module__,
    )
    verb.register = register  # type: ignore[attr-defined]
    verb.bodies = lambda: frozenset(bodies)  # type: ignore[attr-defined]
    return cast("Verb", verb)


class OfFormulas:
    """Base class of NamedTuples whose methods are the bodies of the verbs of their names."""

    __slots__ = ()

    formulas: ClassVar[tuple[Verb, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Register the class's methods."""
        for verb in cls.formulas:
            if (body := getattr(cls, verb.__name__, None)) is not None:
                verb.register(cls)(body)

    def __eq__(self, other: object) -> bool:
        """Compare types, too: those without numbers are empty tuples."""
        return type(self) is type(other) and tuple.__eq__(self, other)  # type: ignore[operator]

    def __ne__(self, other: object) -> bool:
        """Negate `==`: otherwise the tuple's own method would be used."""
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), *self))  # type: ignore[misc]
