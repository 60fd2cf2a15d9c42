"""How numba is used: one body per type, compiled once per machine, never stale."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from fewpass.solvers.kernels.dispatch import by_type, cache_folder, kernel
from tests.conftest import PROJECT

# A gradient, then what numba says about its cache, and whether it imported all that it can compile.
WORK = """
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
stats = add_slopes.stats
whole = "numba.np.arraymath" in sys.modules
print(json.dumps([sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), whole]))
"""


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
    assert sorted(found) == ["[0, 1, true]", *["[1, 0, false]"] * 2]


def test_an_edit_of_any_source_starts_a_new_cache(tmp_path):
    project = tmp_path / "copy"
    for package in ("solvers", "storage"):  # the package itself says how storage expands rows
        shutil.copytree(PROJECT / "fewpass" / package, project / "fewpass" / package)
    shutil.copy(PROJECT / "fewpass/__init__.py", project / "fewpass")
    ask = "from fewpass.solvers.kernels.dispatch import cache_folder; print(cache_folder())"
    before = finish(start(tmp_path, project, ask))
    assert before == finish(start(tmp_path, project, ask))
    with (project / "fewpass/solvers/kernels/rows.py").open("a") as source:
        source.write("\n# edited\n")
    assert finish(start(tmp_path, project, ask)) != before


def test_cache_falls_back_to_a_private_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "a file").touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    monkeypatch.setattr(
        "fewpass.solvers.kernels.dispatch.gettempdir", lambda: str(tmp_path / "temporary")
    )
    folder = cache_folder()
    assert folder.is_relative_to(tmp_path / "temporary")
    assert folder.parent.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(
        "fewpass.solvers.kernels.dispatch.gettempdir", lambda: str(tmp_path / "a file")
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
    monkeypatch.setattr("fewpass.solvers.kernels.dispatch.gettempdir", lambda: str(tmp_path))
    with pytest.raises(PermissionError, match="Set XDG_CACHE_HOME"):
        cache_folder()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_cache_never_lies_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(
        "fewpass.solvers.kernels.dispatch.gettempdir", lambda: str(tmp_path / "temporary")
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


def test_by_type_refuses_other_types():
    with pytest.raises(TypeError, match="in_metres knows Feet, Metres, not Miles"):
        in_metres(Miles(1.0), 2.0)
    with pytest.raises(Exception, match="in_metres"):
        twice(Miles(1.0))


def test_kernels_divide_like_c():
    @kernel
    def ratio(a, b):
        return a / b

    assert np.isinf(ratio(1.0, 0.0))
