"""Machine code of kernels as numba runs it, without what only its compiler needs.

numba makes the runtime of its arrays anew in every process, and parses the intermediate code of
every kernel that it loads: two thirds of the time that loading takes.  Here the runtime is loaded
as kernels are, and intermediate code is parsed when another kernel is compiled with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult
from numba.core.runtime import nrtdynmod
from numba.core.runtime.nrt import rtsys

#: A library's name, its object code, its intermediate code, and the names that it defines.
Stored = tuple[str, bytes, bytes, tuple[str, ...]]


class _StoredLibrary(JITCodeLibrary):  # type: ignore[misc]
    """A library of machine code."""

    def __init__(self, codegen: Any, stored: Stored) -> None:
        name, machine_code, self._intermediate, symbols = stored
        super().__init__(codegen, name)
        self.enable_object_caching()
        self._set_compiled_object(machine_code)
        self._finalize_final_module()
        codegen._engine._defined_symbols.update(symbols)

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module: Any = binding.parse_bitcode(self._intermediate)
        return super()._get_module_for_linking()


def stored(library: Any) -> Stored:
    """Return a compiled library as it is stored."""
    name, _, (machine_code, intermediate) = library.serialize_using_object_code()
    module = library._get_module_for_linking()
    symbols = tuple(
        symbol.name
        for each in (module.functions, module.global_variables)
        for symbol in each
        if not symbol.is_declaration
    )
    return name, machine_code, intermediate, symbols


def parts_of(compiled: CompileResult) -> tuple[Any, ...]:
    """Return what a compiled kernel is made of again by `rebuilt`."""
    _, *others = compiled._reduce()
    return (stored(compiled.library), *others)


def rebuilt(context: Any, parts: Sequence[Any]) -> CompileResult:
    """Return a kernel of stored parts, as `CompileResult._rebuild` does."""
    library, *others = parts

    def unserialized(_: Any) -> Any:
        return _StoredLibrary(context.codegen(), library)

    made = CompileResult._rebuild(_Unserializing(context, unserialized), None, *others)
    return made._replace(target_context=context)


class _Unserializing:
    """numba's context, and its code generator, which makes a library in another way."""

    def __init__(self, context: Any, unserialized: Callable[[Any], Any]) -> None:
        self._context, self.unserialize_library = context, unserialized

    def codegen(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def initialize_runtime(
    context: Any, load: Callable[[], Stored | None], save: Callable[[Stored], None]
) -> None:
    """Make numba's runtime ready, once per process, of stored machine code where `load` has some.

    It is the same for the kernels of all packages.
    """
    if rtsys._init:
        return

    def library(_: Any) -> Any:
        if (machine_code := load()) is not None:
            return _StoredLibrary(context.codegen(), machine_code)
        made = _compiled_runtime(context)
        save(stored(made))
        return made

    compiles = nrtdynmod.compile_nrt_functions
    nrtdynmod.compile_nrt_functions = library
    try:
        rtsys.initialize(context)
    finally:
        nrtdynmod.compile_nrt_functions = compiles


def _compiled_runtime(context: Any) -> Any:
    """Return numba's runtime, compiled as numba does it, and its machine code with it."""
    module, library = nrtdynmod.create_nrt_module(context)
    library.enable_object_caching()
    library.add_ir_module(module)
    library.finalize()
    return library
