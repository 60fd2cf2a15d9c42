"""What the compiler made of the loops over rows: nothing that costs as much as a short row does.

An atomic addition to an array's reference count, or a division of integers, once per row made
kernels twice as slow without any test of results seeing it.
"""

import hashlib
import re

import numba
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from fewpass.solvers import gradient
from fewpass.solvers.batch.gradient_descent import Gd
from fewpass.solvers.dual import sdca
from fewpass.solvers.kernels.compiler.declarations import tell_numba
from fewpass.solvers.kernels.kernel_files import cache_folder, read_kernel, write_kernel
from fewpass.solvers.kernels.kernel_sources import digest_of_sources
from fewpass.solvers.losses import Logistic, Problem
from fewpass.solvers.onepass import onepass
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Walk
from fewpass.solvers.sgd import averaged_sgd, steps
from testing.oracles import block, dense_rows, sparse_rows, stats

COUNTS = re.compile(r"NRT_(inc|dec)ref|atomicrmw")
DIVISIONS = re.compile(r"= [us](div|rem) .*, %")  # by a number that is not a constant
BLOCK = re.compile(r'^([\w.$"-]+):')
TARGET = re.compile(r'label %([\w.$"-]+)')


def in_loops(llvm):
    """The instructions that a kernel may run more than once per call."""
    body = re.search(
        r"^define [^\n]*@_ZN(?![^\n]*(?:cpython|cfunc))[^\n]*\{\n(.*?)^\}",
        llvm,
        re.MULTILINE | re.DOTALL,
    )
    blocks, name = {"entry": []}, "entry"
    for line in body.group(1).splitlines():
        if begins := BLOCK.match(line):
            name = begins.group(1)
        blocks.setdefault(name, []).append(line)
    place = {name: k for k, name in enumerate(blocks)}
    jumps = np.zeros((len(place), len(place)), bool)
    for name, lines in blocks.items():
        for target in TARGET.findall("\n".join(lines)):
            jumps[place[name], place[target]] = True
    _, cycle = connected_components(csr_matrix(jumps), connection="strong")
    repeated = (np.bincount(cycle)[cycle] > 1) | jumps.diagonal()
    return [line for name, lines in blocks.items() if repeated[place[name]] for line in lines]


def compiled(kernel, arguments):
    """Return what LLVM made of a kernel for such arguments; code from numba's cache cannot say."""
    tell_numba()
    fresh = numba.njit(nogil=True, error_model="numpy")(kernel.py_func)
    fresh(*arguments)
    return next(iter(fresh.inspect_llvm().values()))


def kept(kernel, arguments):
    """The same, kept beside the kernels, by the kernel's sources."""
    processor = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()
    sources = digest_of_sources([kernel.__module__])
    made_for = hashlib.sha256(repr((processor, sources, [*map(numba.typeof, arguments)])).encode())
    place = cache_folder() / f"{kernel.__name__}.{made_for.hexdigest()[:24]}.llvm"
    if not place.exists():
        write_kernel(place, compiled(kernel, arguments).encode())
    return read_kernel(place).decode()


def visit_a_block(solver, problem, known, rows):
    """The first thing that a method does with rows."""
    sweep = solver.program(0)[0]
    if isinstance(sweep, Walk):
        sweep.step(problem, known, sweep.enter(solver.init(problem, known)), rows)
    else:
        at = sweep.at(solver.init(problem, known))
        sweep.sum.add(problem, at, rows, sweep.sum.zero(at))


KERNELS = [
    (steps, "step_rows", averaged_sgd.Asgd(gamma0=1.0)),
    (onepass, "visit_rows", onepass.Onepass()),
    (sdca, "visit_rows", sdca.Sdca()),
    (gradient, "add_slopes", Gd()),
]


@pytest.mark.parametrize("kind", [dense_rows, sparse_rows])
@pytest.mark.parametrize(("module", "kernel", "solver"), KERNELS)
def test_a_row_takes_no_counts_and_no_divisions(kind, module, kernel, solver, monkeypatch):
    X, seen = np.ones((3, 2), np.float32), []
    rows, original = kind(X if kind is dense_rows else csr_matrix(X)), getattr(module, kernel)
    monkeypatch.setattr(module, kernel, lambda *args: seen.append(args) or original(*args))
    problem, known = Problem(Logistic(), L2(0.1), 0.0, 0.1), stats(X, type(rows))
    visit_a_block(solver, problem, known, block(rows, np.ones(3)))
    lines = in_loops(kept(original, seen[0]))
    assert any("fmul" in line for line in lines)  # the rows' own work is among them
    assert [line for line in lines if COUNTS.search(line) or DIVISIONS.search(line)] == []


def test_loops_and_what_is_not_wanted_in_them_are_found():
    """The patterns above match what numba and LLVM write today."""

    @numba.njit
    def sum_of_parts(X, k):
        for j in range(X.shape[0]):
            part = np.full(X[j], j)
            X[j] = part.sum() // k
        return X

    lines = in_loops(compiled(sum_of_parts, (np.arange(1, 5), 2)))
    assert any(COUNTS.search(line) for line in lines)
    assert any(DIVISIONS.search(line) for line in lines)
