"""Kernels: `kernel` makes machine code, `by_type` chooses one body per type when it is compiled.

Losses and rows are NamedTuple types.  A verb such as `dot` has one body per type, chosen by the
type of its first argument: compiled code has only the chosen body, and the same verb called from
plain Python (`kernel.py_func`) chooses it at run time, so that plain Python is the oracle of every
kernel.

Most processes find all of their kernels on disk, and importing numba would be a quarter of a small
command.  So what numba has to know is noted here, and declared when it compiles a missing kernel
(compiler/): what is on disk runs without it (machine_code.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cached_property, update_wrapper, wraps
from importlib import import_module
from threading import RLock
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from fewpass.solvers.kernels.argument_kinds import Kinds, UnknownKind, key_of, kinds_of
from fewpass.solvers.kernels.loading import KernelsOnDisk

Function = TypeVar("Function", bound=Callable[..., Any])

#: Bytes of text that plain Python parses in a tenth of a second; compiling a parser takes some.
FEW_BYTES = 1 << 14

#: LLVM keeps the order of sums, but may round a * b + c only once.
FUSED = {"contract"}

_COMPILER = "fewpass.solvers.kernels.compiler.numba_kernel"  # it imports this module, and numba
_one_at_a_time = RLock()  # loads kernels, and compiles them


class Declaration(NamedTuple):
    """A function that kernels may call."""

    function: Callable[..., Any]
    options: dict[str, Any] = {}  # of numba  # noqa: RUF012
    inlined: bool = True
    verb: Verb | None = None  # whose body it is, for arguments of this kind
    kind: type | None = None


#: What numba does not know yet.
untold: deque[Declaration] = deque()


class Kernel(Generic[Function]):
    """A function as machine code: each kind of arguments has its own, from disk or compiled.

    Parameters
    ----------
    function
        The body.  It is kept as `py_func`, to run in plain Python.
    """

    def __init__(self, function: Function) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.files = KernelsOnDisk(function)
        self._code: dict[Kinds, Callable[..., Any]] = {}
        self._by_key: dict[Any, Callable[..., Any]] = {}  # the same: kinds take longer to find

    def __call__(self, *arguments: Any) -> Any:
        """Run the machine code for such arguments."""
        run = self._by_key.get(key_of(arguments)) or self._made(arguments)
        return run(*arguments)

    def _made(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the machine code from disk or the compiler, once for all keys of a kind."""
        with _one_at_a_time:
            try:
                kinds = kinds_of(arguments)
            except UnknownKind:
                code: Callable[..., Any] = self.compiler.compiled_for(arguments)
            else:
                stored = self._code.get(kinds) or self.files.load(kinds)
                code = self._code[kinds] = stored or self.compiler.compiled_for(arguments)
            self._by_key[key_of(arguments)] = code
            return code

    @cached_property
    def compiler(self) -> Any:
        """Numba's side of the kernel, which imports numba."""
        return import_module(_COMPILER).NumbaKernel(self.py_func, self.files)

    @property
    def _numba_type_(self) -> Any:
        """The kernel as numba sees it where another one calls it."""
        return self.compiler.numba_type

    @property
    def is_at_hand(self) -> bool:
        """True if there is machine code for some kind of arguments, in this process or on disk."""
        return bool(self._by_key) or self.files.has_any()

    def __reduce__(self) -> str:
        return str(self.py_func.__qualname__)  # as functions are pickled


def kernel(function: Function) -> Function:
    """Make machine code of `function`, without the GIL, with C's division, kept on disk.

    The plain Python body is available as `function.py_func`.
    """
    return cast("Function", Kernel(function))


def part_of_kernels(function: Function) -> Function:
    """Make `function` callable by kernels, compiled into them; in plain Python it is unchanged."""
    untold.append(Declaration(function))
    return function


def reading_part(function: Function) -> Function:
    """As `part_of_kernels`, for functions that make and return no array: no reference counts."""
    untold.append(Declaration(function, {"_nrt": False}))
    return function


def called_by_kernels(function: Function) -> Function:
    """Make `function` callable by kernels, with C's division; LLVM may inline it or not."""
    untold.append(Declaration(function, inlined=False))
    return function


def exactly(compiled: Function, n_bytes: int) -> Function:
    """Return a kernel whose parts are `called_by_kernels`, or plain Python for little input.

    Both give the same bits.  Where machine code is on disk, or in this process, it is used.
    """
    made: Any = compiled
    if n_bytes > FEW_BYTES or made.is_at_hand:
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

            # If not inlined LLVM calls `dot` with its arrays on the stack: +15 % for short rows.
            # Reference counts of arrays that a body only reads: +33 % for short rows.
            options = {"fastmath": fastmath or False, "_nrt": arrays}
            untold.append(Declaration(body, options, True, cast("Verb", verb), kind))
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
