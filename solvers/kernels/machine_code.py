"""Machine code of kernels, run without numba: with LLVM's linker and numba's three C libraries.

Importing numba takes a tenth of a second.  What it compiled needs none of it: the entry that Python
calls, symbols of the C libraries, and an environment, an object of constants, for each function
that was compiled into the kernel.
"""

from __future__ import annotations

import builtins
import ctypes
import math
import pickle
import struct
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from llvmlite import binding  # type: ignore[import-untyped]

_ELF = b"\x7fELF\x02\x01"  # of 64 bits, the lowest byte first
_SYMBOLS = 2  # ELF's type of a section
_HEADER, _SECTION, _SYMBOL = (
    struct.Struct(form) for form in ("<16xHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ")
)


class MachineCode(NamedTuple):
    """A compiled kernel."""

    name: str
    code: bytes  # an ELF object
    entry: str  # symbol of the function that Python calls
    environments: tuple[tuple[str, bytes], ...]  # symbols and pickled constants; first the entry's
    needs: tuple[str, ...]  # symbols


class Unlinked(Exception):  # noqa: N818 - it is no error where numba is at hand
    """Machine code that needs more than is here."""


def linked(made: MachineCode) -> Callable[..., Any]:
    """Return machine code as a function.

    Raises
    ------
    Unlinked
        A symbol is missing, with which LLVM would end the process.
    """
    dynamic, linker = _dynamic(), _linker()
    missing = [name for name in made.needs if not binding.address_of_symbol(name)]
    if missing:
        raise Unlinked(f"there is no {', '.join(missing)}")
    linker.add_object_file(binding.ObjectFileRef.from_data(made.code))
    linker.finalize_object()
    own, *_ = [_environment(symbol, constants) for symbol, constants in made.environments]
    address = linker.get_function_address(made.entry)
    return dynamic.make_function(  # type: ignore[no-any-return]
        sys.modules[__name__], made.name, "", address, own, ()
    )


@cache
def _environment(symbol: str, constants: bytes) -> Any:
    """Return a function's environment, which code of all kernels that have it finds by a pointer.

    It is kept as long as the linker keeps their code.
    """
    made = _dynamic().Environment({"__name__": __name__})
    made.consts[:] = pickle.loads(constants) if constants else ()
    if place := _linker().get_global_value_address(symbol):
        ctypes.c_void_p.from_address(place).value = id(made)
    return made


@cache
def _linker() -> Any:
    """Return LLVM's linker of this process, which keeps what it has linked."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    declared = binding.parse_assembly("declare ptr @numba_unpickle(ptr, i32, ptr)")
    linker = binding.create_mcjit_compiler(declared, machine)
    ours = ctypes.cast(_unpickle, ctypes.c_void_p).value
    linker.add_global_mapping(declared.get_function("numba_unpickle"), ours)  # here alone
    return linker


@cache
def _unpickled(place: int, size: int, _digest: int) -> Any:
    """Return a constant of a kernel, such as the class of a tuple: numba's own would import it."""
    return pickle.loads(ctypes.string_at(place, size))


_unpickle = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
    _unpickled
)


@cache
def _dynamic() -> ModuleType:
    """Load what numba has in C, and tell LLVM its symbols, as numba does; return its functions."""
    dynamic, helpers = _extension("numba._dynfunc"), _extension("numba._helperlib")
    runtime = _extension("numba.core.runtime._nrt_python")
    runtime.memsys_use_cpython_allocator()
    for name, address in (*dynamic.c_helpers.items(), *helpers.c_helpers.items()):
        binding.add_symbol(f"numba_{name}", address)
        if name.removesuffix("f") in {*vars(math), "round"}:  # C's, for float64 and float32
            binding.add_symbol(name, address)
    for name, address in runtime.c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    for kind in vars(builtins).values():  # Python's symbols are places of pointers to these
        if isinstance(kind, type) and issubclass(kind, BaseException):
            binding.add_symbol(f"PyExc_{kind.__name__}", id(kind))
    return dynamic


def _extension(name: str) -> ModuleType:
    """Return an extension module of numba, without the package."""
    if "numba" in sys.modules:
        import_module("numba")  # another thread may be about it
    if "numba" in sys.modules or name in sys.modules:
        return import_module(name)
    package = find_spec("numba")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("numba is not installed.", name="numba")
    path = Path(package.origin).parent.joinpath(*name.split(".")[1:])
    file = next(str(path) + end for end in EXTENSION_SUFFIXES if Path(str(path) + end).exists())
    spec = spec_from_file_location(name, file, loader=ExtensionFileLoader(name, file))
    assert spec is not None, "it has a loader"
    assert spec.loader is not None, "it has a loader"
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def undefined_symbols(code: bytes) -> Iterator[str]:
    """Yield the symbols that an ELF object needs; another object needs numba."""
    if not code.startswith(_ELF):
        yield "ELF"
        return
    _, _, _, _, _, at, _, _, _, _, size, count, _ = _HEADER.unpack_from(code)
    sections = [_SECTION.unpack_from(code, at + k * size) for k in range(count)]
    for section in sections:
        if section[1] != _SYMBOLS:
            continue
        names = sections[section[6]][4]
        for place in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, _, _, where, _, _ = _SYMBOL.unpack_from(code, place)
            if name and not where:
                yield code[names + name : code.index(b"\0", names + name)].decode()
