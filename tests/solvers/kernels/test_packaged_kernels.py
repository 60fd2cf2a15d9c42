"""Kernels of the wheel: for a level of processors, with the bits that compiling here gives."""

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import codegen, config
from numba.core.registry import cpu_target

from fewpass.solvers.kernels import kernel_files, kernel_sources, levels, loading
from fewpass.solvers.kernels.argument_kinds import kinds_of
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.kernel_files import DamagedKernel, damaged_kernels, read_kernel
from fewpass.solvers.kernels.levels import LEVELS, compiled_for, level
from tests.conftest import PROJECT
from tests.solvers.kernels.test_dispatch import COUNTED, finish, start
from tests.solvers.kernels.test_kernel_files import counts, fresh

V4, V3 = LEVELS

# Sums over dense rows; hits, misses and files.
SUMS = (
    COUNTED
    + """
import json, numpy as np
{before}
from fewpass.solvers.gradient import add_slopes
from fewpass.solvers.kernels.loading import loaded
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.losses import Logistic, Problem
from fewpass.solvers.penalties import L2
rng = np.random.default_rng(0)
X, y = rng.standard_normal((200, 37)).astype(np.float32), np.sign(rng.standard_normal(200))
sums, out = np.zeros(37), np.zeros(200)
told = add_slopes(sums, rng.standard_normal(37), 0.1, Problem(Logistic(), L2(1.0), 0.0, 1.0),
                  DenseRows(X), y, np.ones(200), np.arange(200), out, 1, np.zeros(0))
print(json.dumps([sums.tobytes().hex(), repr(told), *counted(add_slopes), sorted(map(str, loaded))]))
"""
)
#: Somebody else's kernels come first, for this very processor.
OTHERS = """
import numba
@numba.njit(fastmath=True)
def total(a): return np.sum(a) + a.mean()
total(np.arange(9.0))
"""


def test_packaged_kernels_have_the_bits_of_compiled_ones(tmp_path):
    for package in ("solvers", "storage"):
        shutil.copytree(PROJECT / "fewpass" / package, tmp_path / "fewpass" / package)
    shutil.copy(PROJECT / "fewpass/__init__.py", tmp_path / "fewpass")

    def run(cache, before="", **environment):
        code = SUMS.format(before=before)
        return json.loads(finish(start(tmp_path / cache, tmp_path, code, **environment)))

    def names(cache):
        return sorted(path.name for path in (tmp_path / cache).rglob("*.kernel"))

    *compiled, _ = run("first")
    of_level = {}
    if level():  # as what is packaged is compiled
        of_level = {"NUMBA_CPU_NAME": level().name, "NUMBA_CPU_FEATURES": level().options}
    *built, _ = run("build", **of_level)
    assert names("build") == names("first")
    packaged = tmp_path / "fewpass/solvers/kernels/packaged" / compiled_for()[1]
    packaged.mkdir(parents=True)
    for file in (tmp_path / "build").rglob("*.kernel"):
        shutil.copy(file, packaged)
    *loaded, files = run("second")
    assert {Path(file).parent for file in files} == {packaged}
    assert names("second") == []
    for file in packaged.iterdir():
        file.unlink()
    *after_others, _ = run("third", before=OTHERS)
    assert compiled[:2] == built[:2] == loaded[:2] == after_others[:2]
    assert [one[2:] for one in (compiled, built, loaded, after_others)] == [
        [0, 1], [0, 1], [1, 0], [0, 1],
    ]  # fmt: skip


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that has a kernel for numbers, compiled elsewhere."""
    monkeypatch.setattr(loading, "_warned", set())
    for module in (loading, kernel_files):
        monkeypatch.setattr(module, "PACKAGED", tmp_path / "packaged")
    made = fresh(tmp_path / "packaged" / compiled_for()[1])
    (tmp_path / "packaged" / compiled_for()[1]).mkdir(parents=True)
    (tmp_path / "users").mkdir()
    assert made(6.0) == 2.0
    return tmp_path / "packaged" / compiled_for()[1]


def test_a_damaged_one_is_named_once_and_then_the_users_own_is_used(package, tmp_path, caplog):
    (path,) = package.glob("*.kernel")
    path.write_bytes(path.read_bytes()[:-1])
    for expected in ((0, 1), (1, 0)):
        made = fresh(tmp_path / "users")
        assert made(6.0) == 2.0
        assert counts(made) == expected
    (record,) = caplog.records
    assert path.name in record.getMessage()
    assert f"compiled anew, into {tmp_path / 'users'}" in record.getMessage()
    assert record.levelno == logging.WARNING
    assert set(damaged_kernels(package)) == {path.name}
    assert not damaged_kernels(tmp_path / "users")


@pytest.fixture
def nothing_remembered():
    """What is compiled for and with is asked for anew, before and after."""

    def forget():
        for asked in (levels.level, levels.compiled_for, levels.compiled_with,
                      kernel_sources._digest):  # fmt: skip
            asked.cache_clear()

    forget()
    yield forget
    forget()


@pytest.mark.parametrize(
    ("where", "what", "other"),
    [
        (levels, "version", lambda _: "0.68.99"),
        (np, "__version__", "2.99.0"),
        (levels.llvmlite, "__version__", "0.99.0"),
        (config, "CPU_NAME", "nocona"),
        (config, "CPU_FEATURES", "+sse2"),
        (config, "OPT", 2),
        (config, "USING_SVML", True),
    ],
)
def test_kernels_of_other_versions_and_processors_are_not_looked_at(
    where, what, other, package, tmp_path, monkeypatch, nothing_remembered, caplog
):
    monkeypatch.setattr(where, what, other)
    kept = fresh(tmp_path / "users").files
    assert not kept.has(kinds_of([6.0]))
    assert not kept.has_any()
    monkeypatch.undo()
    nothing_remembered()
    assert not caplog.records


FEATURES = [
    (V4.needs | {"avx512fp16"}, V4),
    (V4.needs - {"avx512vl"}, V3),
    (V3.needs, V3),
    (V3.needs - {"fma"}, None),
    (frozenset({"neon"}), None),
]


@pytest.mark.parametrize(("features", "expected"), FEATURES)
def test_the_level_is_the_highest_whose_features_are_there(
    features, expected, monkeypatch, nothing_remembered
):
    """Whatever the processor is called: a virtual machine may hide some."""
    lacking = V4.needs - features
    told = ",".join([*(f"+{one}" for one in features), *(f"-{one}" for one in lacking)])
    monkeypatch.setattr(levels, "host_features", lambda: told)
    assert level() == expected
    _, name, options = compiled_for()
    assert (name, options) == (
        (expected.name, expected.options)
        if expected
        else (levels.binding.get_host_cpu_name(), told)
    )


def test_where_nobody_set_one_numbas_settings_are_known_without_it(nothing_remembered):
    """And what the processor has, so that kernels are found without importing numba."""
    code = """
import sys
from fewpass.solvers.kernels.levels import compiled_with, host_features
print(compiled_with(), host_features(), "numba" in sys.modules)
"""
    unset = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    told = subprocess.run(
        [sys.executable, "-c", code], env=unset, cwd=PROJECT, check=True, text=True,
        capture_output=True,
    ).stdout  # fmt: skip
    code = "import numba\n" + code
    whole = subprocess.run(
        [sys.executable, "-c", code], env=unset, cwd=PROJECT, check=True, text=True,
        capture_output=True,
    ).stdout  # fmt: skip
    assert told.removesuffix("False\n") == whole.removesuffix("True\n")
    assert levels.host_features() == codegen.get_host_cpu_features()


def test_who_names_a_processor_gets_its_code(monkeypatch, nothing_remembered):
    monkeypatch.setattr(config, "CPU_NAME", "x86-64-v2")
    monkeypatch.setattr(config, "CPU_FEATURES", "")
    assert level() is None
    assert compiled_for()[1:] == ("x86-64-v2", "")


def test_kernels_of_others_are_compiled_for_this_very_processor(tmp_path):
    made = fresh(tmp_path)
    assert made(6.0) == 2.0
    own = cpu_target.target_context.codegen().magic_tuple()
    assert own == numba.njit(lambda x: x).targetctx.codegen().magic_tuple()
    assert own[1] == (config.CPU_NAME or levels.binding.get_host_cpu_name())
    (compiled,) = made.compiler.dispatcher.overloads.values()
    assert compiled.library.codegen.magic_tuple() == compiled_for()


@part_of_kernels
def not_negative(x):
    if x < 0.0:
        raise ValueError("negative", x)  # made of an argument: it needs the function's globals
    return x


@kernel
def root(x):
    return np.sqrt(not_negative(x))


def test_errors_of_parts_are_raised_as_python_does():
    assert root(9.0) == 3.0
    with pytest.raises(ValueError, match="negative"):
        root(-9.0)


@pytest.mark.parametrize(
    ("source", "mode", "uid", "usable"),
    [
        (0o644, 0o644, "root", True),
        (0o644, 0o644, "own", True),
        (0o644, 0o644, "other", False),
        (0o664, 0o664, "root", True),  # who can change it can change the sources
        (0o644, 0o664, "root", False),
        (0o666, 0o666, "root", False),
    ],
)
def test_a_packaged_kernel_is_as_private_as_the_sources(
    source, mode, uid, usable, package, monkeypatch
):
    (path,) = package.glob("*.kernel")
    path.chmod(mode)
    owner = {"root": 0, "own": 1000, "other": 1001}[uid]
    fstat, stat = os.fstat, Path.stat

    def status(real, mode, owner):
        return os.stat_result((real.st_mode & ~0o777 | mode, *real[1:4], owner, *real[5:]))

    monkeypatch.setattr(kernel_files.os, "getuid", lambda: 1000)
    monkeypatch.setattr(kernel_files.os, "fstat", lambda file: status(fstat(file), mode, owner))
    monkeypatch.setattr(
        kernel_files.Path, "stat", lambda self, **how: status(stat(self, **how), source, 1000)
    )
    if usable:
        read_kernel(path)
    else:
        with pytest.raises(DamagedKernel, match="another user owns it"):
            read_kernel(path)
