"""Kernels on disk run without numba as they would with it."""

import numpy as np
import pytest

from fewpass.solvers.kernels import loading, machine_code
from fewpass.solvers.kernels.dispatch import Kernel
from tests.solvers.kernels.test_dispatch import finish, start

# What numba tells LLVM when it first compiles, and which symbols LLVM had otherwise until then.
TOLD = """
from llvmlite import binding
from fewpass.solvers.kernels.machine_code import _dynamic, _linker
_dynamic(), _linker()
tell, told = binding.add_symbol, {}

def add_symbol(name, address):
    told.setdefault(name, (binding.address_of_symbol(name), address))
    tell(name, address)

binding.add_symbol = add_symbol
import numba

@numba.njit
def power(x, y):
    return x ** y, x % y

power(2.0, 3.0)
print(len(told), *(name for name, (before, now) in told.items() if before and before != now))
"""
# A kernel from disk is run while another thread is in the middle of importing numba.
HALF_IMPORTED = """
import sys, threading
begun, go_on = threading.Event(), threading.Event()

class Pausing:
    def find_spec(self, name, path=None, target=None):
        if name == "numba.core.registry":
            begun.set()
            go_on.wait()

sys.meta_path.insert(0, Pausing())
from fewpass.solvers.kernels.machine_code import _dynamic
importing = threading.Thread(target=__import__, args=("numba",))
importing.start()
begun.wait()
threading.Timer(0.2, go_on.set).start()
_dynamic()
importing.join()
import numba
print(numba.njit(lambda x: x)(2.0))
"""


def test_numba_that_another_thread_imports_is_waited_for(tmp_path):
    assert finish(start(tmp_path, code=HALF_IMPORTED)) == "2.0"


def test_symbols_are_those_that_numba_has(tmp_path):
    """Python's own symbol of an exception is the place of a pointer: kernels would crash."""
    count, *other = finish(start(tmp_path, code=TOLD)).split()
    assert int(count) > 300
    assert not other


def total(values):
    return values[0] + values[1]


def test_code_is_linked_once_for_arguments_of_one_kind(tmp_path, monkeypatch):
    """Whatever distinguishes them to NumPy, as one row or many, a file or memory."""
    monkeypatch.setattr(loading, "_users_folder", lambda: tmp_path)
    Kernel(total)(np.ones(2))
    linked = []
    monkeypatch.setattr(
        loading, "linked", lambda made: linked.append(made) or machine_code.linked(made)
    )
    made = Kernel(total)
    mapped = np.memmap(tmp_path / "mapped", np.float64, "w+", shape=2)
    assert made(np.ones(2)) == 2.0
    assert made(mapped) == 0.0
    assert len(linked) == 1


def cost(orders):
    return orders[0].price * orders[0].count


@pytest.mark.parametrize(
    "fields",
    [
        [("price", "f8"), ("count", "i8")],
        [("count", "i8"), ("price", "f8")],
        [("price", "f8"), ("count", "f8")],
        [("price", "f4"), ("tax", "f4"), ("count", "i8")],
    ],
)
def test_records_of_one_length_have_kernels_of_their_own(fields, tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "_users_folder", lambda: tmp_path)
    Kernel(cost)(np.zeros(1, [("price", "f8"), ("count", "i8")]))
    orders = np.zeros(1, fields)
    orders["price"], orders["count"] = 2.5, 3
    assert Kernel(cost)(orders) == 7.5


REFUSING = """
import sys; sys.path.insert(0, {folder!r})
import numpy as np
from totals import total
print(total(np.ones(2)))
(run, *_) = total._code.values()
for wrong in {wrong}:
    try:
        print(run(wrong))
    except TypeError:
        print("refused")
print("numba" in sys.modules)
"""
TOTALS = """
from fewpass.solvers.kernels.dispatch import kernel

@kernel
def total(values):
    return values[0] + values[1]
"""


def test_arguments_that_code_does_not_take_are_refused_not_read(tmp_path):
    """By the code's own check of each, should a kind be wrong."""
    (tmp_path / "totals.py").write_text(TOTALS)

    def run(wrong):
        code = REFUSING.format(folder=str(tmp_path), wrong=wrong)
        return finish(start(tmp_path / "cache", code=code)).splitlines()

    assert run("()") == ["2.0", "True"]  # it is compiled
    assert run("('text', 1.0, np.ones(2, 'f4'))") == ["2.0", *["refused"] * 3, "False"]
