"""How numba is used: one body per type, compiled once per machine, never stale."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

from fewpass.solvers.kernels import dispatch, loading
from fewpass.solvers.kernels.argument_kinds import kinds_of
from fewpass.solvers.kernels.compiler import numba_kernel
from fewpass.solvers.kernels.dispatch import by_type, exactly, kernel
from fewpass.solvers.kernels.kernel_files import cache_folder
from fewpass.solvers.kernels.loading import KernelsOnDisk
from tests.conftest import PROJECT

#: How many kernels of a name were on disk, and how many were compiled.
COUNTED = """
def counted(kernel):
    numba = vars(kernel).get("compiler")
    stats = numba and numba.dispatcher.stats
    return [sum(stats.cache_hits.values()), sum(stats.cache_misses.values())] if numba else [1, 0]
"""
# A gradient, then where its kernel came from, and what was imported: all that numba can compile.
WORK = (
    COUNTED
    + """
import json, sys, numpy as np
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.gradient import add_slopes
from fewpass.solvers.losses import Logistic, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.kernels.rows import DenseRows
X = np.ones((3, 2), np.float32)
add_slopes(np.zeros(2), np.zeros(2), 0.0, Problem(Logistic(), L2(1.0), 0.0, 1.0), DenseRows(X),
           np.ones(3), np.ones(3), np.arange(3), np.zeros(3),
           1, np.zeros(0))
print(json.dumps([*counted(add_slopes), "numba.np.arraymath" in sys.modules]), "numba" in sys.modules)
"""
)


def start(cache, project=PROJECT, code=WORK, **environment):
    """A fresh interpreter that sees the project and uses that cache."""
    environment = os.environ | {
        "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(project), "PYTHONSAFEPATH": "1"
    } | environment  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, cwd=project, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process):
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.strip()


def test_processes_share_one_compilation(tmp_path):
    # Three processes meet in an empty cache: one compiles, the others wait and take what it made.
    found = [finish(process) for process in [start(tmp_path) for _ in range(3)]]
    assert sorted(found) == ["[0, 1, true] True", *["[1, 0, false] True"] * 2]
    assert finish(start(tmp_path)) == "[1, 0, false] False"  # a kernel on disk needs no numba


def test_kernels_for_other_types_are_not_waited_for(tmp_path, monkeypatch):
    """While a process compiles a kernel for some types, another one compiles it for others."""
    monkeypatch.setattr(loading, "_users_folder", lambda: tmp_path)
    three_times = kernel(lambda number: 3 * number)
    assert three_times(1.5) == 4.5
    (lock,) = tmp_path.glob("*.lock")
    with lock.open() as compiling:
        fcntl.flock(compiling, fcntl.LOCK_EX)
        other = threading.Thread(target=three_times, args=(2,), daemon=True)
        other.start()
        other.join(60)
        assert not other.is_alive()


# Three kernels, and on which files each is kept: of numbers, of rows and of a loss.
KEPT = """
import json, sys, numpy as np
sys.path.insert(0, {folder!r})
from fewpass.solvers.gradient import add_slopes
from fewpass.solvers.batch.cholesky import solved
from fewpass.solvers.kernels.argument_kinds import kinds_of
from fewpass.solvers.losses import Hinge, Logistic
from kernels import plain, scaled
paths = dict(
    plain=plain.files.path(kinds_of([1.0])), scaled=scaled.files.path(kinds_of([1.0])),
    cholesky=solved.files.path(kinds_of([np.zeros(2)])),
    hinge=add_slopes.files.path(kinds_of([Hinge()])),
    logistic=add_slopes.files.path(kinds_of([Logistic()])),
)
print(json.dumps({{name: str(path) for name, path in paths.items()}}))
"""
MODULES = {
    "rates.py": "RATE = 2.0",
    "parts.py": """
from fewpass.solvers.kernels.dispatch import part_of_kernels
from rates import RATE

@part_of_kernels
def times(x):
    return RATE * x
""",
    "kernels.py": """
from fewpass.solvers.kernels.dispatch import kernel
from others import plain
from parts import times

@kernel
def scaled(x):
    return times(x)
""",
    "others.py": """
from fewpass.solvers.kernels.dispatch import kernel

@kernel
def plain(x):
    return x + 1.0
""",
}
ALL = {"plain", "scaled", "cholesky", "hinge", "logistic"}
#: Files, and the kernels of each that depend on it: no kernel on two that are edited together.
EDITS = [
    {
        "rates.py": {"scaled"},  # a number that is compiled into what a kernel calls
        "fewpass/solvers/losses/logistic.py": {"logistic"},  # a type of arguments
        "fewpass/solvers/dual/sdca_steps.py": set(),
    },
    {"parts.py": {"scaled"}, "fewpass/solvers/losses/loss.py": {"hinge", "logistic"}},
    {
        "others.py": {"plain", "scaled"},  # whose module names it
        "fewpass/solvers/gradient.py": {"hinge", "logistic"},
        "fewpass/solvers/batch/cholesky.py": {"cholesky"},
    },
    {"fewpass/solvers/kernels/rows.py": {"hinge", "logistic"}},
    {"fewpass/solvers/kernels/dispatch.py": ALL},
    {"fewpass/solvers/kernels/compiler/lane_operations.py": ALL},  # as all that numba is told
]


def test_an_edit_makes_new_kernels_of_all_that_depend_on_it_and_of_no_others(tmp_path):
    for package in ("solvers", "storage"):  # the package itself says how storage expands rows
        shutil.copytree(PROJECT / "fewpass" / package, tmp_path / "fewpass" / package)
    shutil.copy(PROJECT / "fewpass/__init__.py", tmp_path / "fewpass")
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)

    def kept():
        code = KEPT.format(folder=str(tmp_path))
        return json.loads(finish(start(tmp_path / "cache", tmp_path, code)))

    before = kept()
    assert kept() == before
    assert set(before) == ALL
    assert len({*before.values()}) == len(ALL)
    for edited in EDITS:
        whole = {name: (tmp_path / name).read_text() for name in edited}
        for name, text in whole.items():
            (tmp_path / name).write_text(text.replace("2.0", "3.0", 1) + "\n# edited\n")
        after = kept()
        assert {one for one in ALL if after[one] != before[one]} == set().union(*edited.values())
        for name, text in whole.items():
            (tmp_path / name).write_text(text)
    assert kept() == before


CHANGED = """
import sys
sys.path.insert(0, {folder!r})
from kernels import plain, scaled
from fewpass.solvers.kernels.argument_kinds import kinds_of
open(sys.modules["parts"].__file__, "a").write("\\n")
print(*(one.files.path(kinds_of([1.0])) is None for one in (plain, scaled)))
"""


def test_what_changed_since_the_process_began_is_not_kept(tmp_path):
    """Its text may be another than that of the code in memory."""
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    code = CHANGED.format(folder=str(tmp_path))
    assert finish(start(tmp_path / "cache", code=code)) == "False True"


def test_cache_falls_back_to_a_private_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "a file").touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    monkeypatch.setattr(
        "fewpass.solvers.kernels.kernel_files.gettempdir", lambda: str(tmp_path / "temporary")
    )
    folder = cache_folder()
    assert folder.is_relative_to(tmp_path / "temporary")
    assert folder.parent.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(
        "fewpass.solvers.kernels.kernel_files.gettempdir", lambda: str(tmp_path / "a file")
    )
    with pytest.raises(PermissionError, match="Set XDG_CACHE_HOME"):
        cache_folder()


@pytest.mark.parametrize("prepared", ["link", "open to all"])
def test_cache_never_lies_where_others_can_write(prepared, tmp_path, monkeypatch):
    (tmp_path / "a file").touch()
    (tmp_path / "elsewhere").mkdir()
    temporary = tmp_path / f"fewpass-{os.getuid()}"
    if prepared == "link":
        temporary.symlink_to(tmp_path / "elsewhere")
    else:
        temporary.mkdir()
        temporary.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    monkeypatch.setattr("fewpass.solvers.kernels.kernel_files.gettempdir", lambda: str(tmp_path))
    with pytest.raises(PermissionError, match="Set XDG_CACHE_HOME"):
        cache_folder()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_cache_never_lies_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(
        "fewpass.solvers.kernels.kernel_files.gettempdir", lambda: str(tmp_path / "temporary")
    )
    assert cache_folder().is_relative_to(tmp_path / "temporary")
    assert not Path("relative").exists()


class Metres(NamedTuple):
    amount: float


class Feet(NamedTuple):
    amount: float


class Miles(NamedTuple):
    amount: float


@by_type
def in_metres(length, times):
    """A verb."""


@in_metres.register(Metres)
def _(length, times):
    return length.amount * times


@in_metres.register(Feet)
def _(length, times):
    return 0.3048 * length.amount * times


@kernel
def twice(length):
    return in_metres(length, 2.0)


def test_by_type_chooses_the_body_alike_in_both_worlds():
    for length, expected in [(Metres(3.0), 6.0), (Feet(10.0), 6.096)]:
        assert twice(length) == twice.py_func(length) == in_metres(length, 2.0) == expected
    assert in_metres.bodies() == {Metres, Feet}
    assert in_metres.__name__ == "in_metres"


def test_a_body_elsewhere_is_refused_as_no_key_would_depend_on_it():
    def body(length, times):
        return 1609.344 * length.amount * times

    body.__module__ = "elsewhere"
    with pytest.raises(TypeError, match=r"in_metres for Miles is in elsewhere\. Define it next to"):
        in_metres.register(Miles)(body)


#: They extend numba by functions of their own, or by operators on types of their own alone, so that
#: whoever uses one of these names its module; what a key of a kernel depends on leans on that.
EXTENDING = {"declarations.py", "lane_operations.py", "part_compiler.py"}


def test_numba_is_extended_in_a_few_files():
    calls = re.compile(r"\b(overload|emitted|infer_global|lower_builtin|register_jitable)\(")
    sources = [path for top in ("solvers", "pipeline") for path in (PROJECT / top).rglob("*.py")]
    assert {path.name for path in sources if calls.search(path.read_text())} == EXTENDING


def test_by_type_refuses_other_types():
    with pytest.raises(TypeError, match="in_metres knows Feet, Metres, not Miles"):
        in_metres(Miles(1.0), 2.0)
    with pytest.raises(Exception, match="in_metres"):
        twice(Miles(1.0))


def test_kinds_of_arguments_are_those_of_numbas_types():
    """Otherwise a kernel would be compiled for one name, and looked for under another."""
    one, pair = np.arange(12.0).reshape(3, 4), [("a", "f8"), ("b", "i4")]
    fixed = np.zeros(2)
    fixed.flags.writeable = False
    values = (
        1, 1.0, True, None, np.float32(1), np.uint64(1), one, one.T, one[:, ::2], one[:0], fixed,
        np.zeros(2, np.dtype(pair)), np.zeros(2, np.dtype(pair, align=True)), np.array(["ab"]),
        np.zeros(17, np.uint8)[1:].view(np.float64), (1, 2.0), Metres(1.0), (Feet(2), (one, None)),
    )  # fmt: skip
    for value in values:
        assert kinds_of([value]) == numba_kernel._kinds((numba.typeof(value),))


def test_kernels_divide_like_c():
    @kernel
    def ratio(a, b):
        return a / b

    assert np.isinf(ratio(1.0, 0.0))


LINKED = """
import numpy as np
from fewpass.solvers.kernels.dispatch import kernel

@kernel
def doubled(a):
    return 2.0 * a  # an array of its own, which numba's runtime counts

@kernel
def summed(a):
    return doubled(a).sum() + doubled(a)[0]
"""
CALLED = (
    COUNTED
    + """
import sys; sys.path.insert(0, {folder!r})
import numpy as np
from linked import doubled, summed
a = np.arange(3.0)
print(np.sum({called}(a)), np.sum({called}.py_func(a)), counted({called}) == [1, 0])
"""
)


def test_kernels_on_disk_are_compiled_into_others(tmp_path):
    (tmp_path / "linked.py").write_text(LINKED)

    def run(called):
        code = CALLED.format(folder=str(tmp_path), called=called)
        return finish(start(tmp_path / "cache", code=code))

    assert run("doubled") == "6.0 6.0 False"  # it is compiled
    assert run("summed") == "6.0 6.0 False"  # with the other as it lies on disk
    assert run("summed") == "6.0 6.0 True"


def halved(a: np.uint8) -> int:
    return np.uint8(a + np.uint8(200)) // 2


def test_little_input_is_not_worth_compiling(monkeypatch):
    compiled, few, many = kernel(halved), 10, dispatch.FEW_BYTES + 1
    kept = {"found": False}
    monkeypatch.setattr(KernelsOnDisk, "has_any", lambda _: kept["found"])
    assert exactly(compiled, many) is compiled
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy's of numbers that wrap
        assert exactly(compiled, few)(np.uint8(100)) == 22
    assert not compiled._code
    kept["found"] = True
    assert exactly(compiled, few) is compiled
    kept["found"] = False
    assert compiled(np.uint8(100)) == 22
    assert exactly(compiled, few) is compiled  # it is in memory by now
