"""Parts of kernels: functions that only compiled functions call, compiled for that alone.

numba would make each one ready to be called from elsewhere, too, which is a quarter of the time of
compiling; those that are one operation are emitted where they are called.  Like llvm.py this uses
numba.core, which changes without notice.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM's code of a function, to be linked into others, where it becomes machine code."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):  # type: ignore[misc]
    """Lowering to LLVM's code without entry points from Python and from C."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library = library
        super().run_pass(state)
        library.finalize()
        made = state.cr
        where, name, nowhere = made.fndesc.lookup_module(), made.fndesc.qualname, 0
        stub = _dynfunc.make_function(where, name, "", nowhere, made.env, (library,))
        state.targetctx.insert_user_function(stub, made.fndesc, [library])
        state.reload_init.extend(library._reload_init)
        state.cr = made._replace(cfunc=stub)
        return True


class PartCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler for functions that only compiled functions call."""

    def define_pipelines(self) -> Any:
        """Replace the last pass."""
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [
                (_PartLowering if step is NativeLowering else step, why)
                for step, why in pipeline.passes
            ]
            pipeline._finalized = False
            pipeline.finalize()
        return pipelines


#: Options of functions that only kernels call.
PART: dict[str, Any] = {"forceinline": True, "error_model": "numpy", "pipeline_class": PartCompiler}


def give_environments(kernel: Any) -> None:
    """Point a compiled kernel to the globals of its parts, as numba does for a cached one."""
    for compiled in kernel.overloads.values():
        for one in compiled._find_referenced_environments():
            compiled.library.codegen.set_env(one.env_name, one)


def _is_of(kind: Any, wanted: Any) -> bool:
    return wanted is types.Any or isinstance(kind, wanted)


def emitted(function: Any, kinds: tuple[Any, ...], inner: Any, takes: int | None = None) -> None:
    """Have kernels emit an intrinsic where they call a function, which compiles faster than a part.

    It has the fast-math flags of the function that it stands in, as a part would inherit them.

    Parameters
    ----------
    function
        A plain function, or an operator, of as many arguments as there are kinds.
    kinds
        Classes of the arguments' types.
    inner
        The intrinsic.
    takes
        How many arguments it takes: the last one is repeated [default: as many].
    """
    more = (takes or len(kinds)) - len(kinds)

    class Emitted(AbstractTemplate):  # type: ignore[misc]
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            if kws or len(args) != len(kinds) or not all(map(_is_of, args, kinds)):
                return None
            signature, _ = inner._defn(self.context, *args, *args[-1:] * more)
            return signature.return_type(*signature.args[: len(kinds)])

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = (*signature.args, *signature.args[-1:] * more)
        whole, make = inner._defn(context.typing_context, *given)
        return make(context, builder, whole, (*args, *args[-1:] * more))

    infer_global(function, types.Function(Emitted))
    lower_builtin(function, *kinds)(generate)
