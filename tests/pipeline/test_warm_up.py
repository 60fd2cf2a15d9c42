"""Kernels compiled ahead: heard of, told of, and not compiled again."""

import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numba
import pytest

from fewpass.flows import cli
from fewpass.flows.commands.training import _say_compiling
from fewpass.flows.display.console import Terminal
from fewpass.flows.options import Output
from fewpass.pipeline import packaged_kernels
from fewpass.pipeline.compiling_ahead import (
    WarmedCombination,
    combinations,
    compile_for,
    warm_up,
)  # fmt: skip
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.packaged_kernels import package_kernels
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.kernels import kernel_files
from fewpass.solvers.kernels.compiler import numba_kernel  # noqa: F401 - tells of what is compiled
from fewpass.solvers.kernels.compiling import Compiling, working_seconds
from fewpass.solvers.kernels.levels import compiled_for, levels_here
from testing.datasets import make
from testing.interruptions import trained


def new_kernels():
    """Two kernels that were never compiled, one of which calls the other."""

    @numba.njit
    def inner(x):
        return x + 1.0

    @numba.njit
    def outer(x):
        return inner(x) * 2.0

    return outer, inner


def test_what_is_compiled_is_heard_of_once():
    outer, inner = new_kernels()
    told = []
    with Compiling(lambda: told.append(1)) as heard:
        assert outer(1.0) == 4.0
        assert outer(2.0) == 6.0
        assert inner(2.0) == 3.0  # compiled within the other
    assert (heard.kernels, told) == (2, [1])
    assert heard.seconds > 0.0
    with Compiling() as again:
        outer(1.0)
    assert again.kernels == 0


def test_what_compiles_fast_is_not_told_of():
    told = []
    with Compiling(lambda: told.append(1), after=600.0) as heard:
        new_kernels()[0](1.0)
    assert (heard.kernels, told) == (2, [])


def test_the_clock_of_work_stands_still_while_kernels_are_compiled():
    begun, worked = time.perf_counter(), working_seconds()
    with Compiling() as heard:
        new_kernels()[0](1.0)
    worked, took = working_seconds() - worked, time.perf_counter() - begun
    assert heard.so_far == heard.seconds > 0.0
    assert 0.0 < worked <= took - 0.9 * heard.seconds


def test_a_run_tells_what_it_compiled_on_the_way(tmp_path, caplog):
    caplog.set_level("INFO", "fewpass.pipeline.training.training_run")
    plan = TrainingPlan(dataset=make(tmp_path / "rows").folder.url, lam="1/n", memory="128MB")
    trained(plan, tmp_path / "warm")  # whatever is missing is compiled here
    caplog.clear()
    run = TrainingRun.start(plan, str(tmp_path / "run"), InProcess())
    for event in run:
        if event.kind == "span":
            new_kernels()[0](1.0)
    (found,) = [event for event in run.run.events() if event["event"] == "compile"]
    assert found["kernels"] >= 2
    assert [record.message for record in caplog.records] == [
        "Compiling kernels for onepass, logistic: once per machine."
    ]


def test_the_command_says_what_it_compiles_for(tmp_path, capsys):
    plan = TrainingPlan(dataset=make(tmp_path / "rows", layout="sparse").folder.url, lam="1/n")
    for asked, method in ((plan, ""), (plan.model_copy(update={"solver": Sdca()}), "sdca, ")):
        _say_compiling(Terminal(Output()), asked)
        said = (
            f"Compiling kernels for {method}loss logistic, sparse rows of float32: once per machine"
        )
        assert said in capsys.readouterr().err


def test_what_was_compiled_ahead_is_there_in_another_process(as_json, tmp_path):
    told = as_json("warm-up", "--losses", "logistic", "--layouts", "dense", "--processes", "1")
    assert told["combinations"] == 5
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        *_, last = combinations(["logistic"], ["dense"])  # each would load kernels for a second
        assert pool.submit(compile_for, last).result().kernels == 0


def test_unknown_words_are_refused():
    with pytest.raises(BadInput, match=r"no loss cubic\. Choose among hinge"):
        warm_up(["cubic"])
    with pytest.raises(BadInput, match="no layout ragged"):
        warm_up(layouts=["ragged"])


def test_what_a_warm_up_loads_is_copied_for_each_level(tmp_path, monkeypatch):
    """Kernels that others have within them, which the first one compiles, are not."""
    begun = []

    def warm(on_compiled=lambda _: None):
        begun.append(on_compiled)
        on_compiled(WarmedCombination(None, 0, 0.0, files=(str(tmp_path / "a.kernel"),)))

    kernel_files.write_kernel(tmp_path / "a.kernel", b"code")
    kernel_files.write_kernel(tmp_path / "within-a.kernel", b"code")
    monkeypatch.setattr(packaged_kernels, "warm_up", warm)
    levels = {}

    def run(command, env, check):
        assert check
        levels[env["NUMBA_CPU_NAME"]] = env["NUMBA_CPU_FEATURES"]
        exec(command[-1])

    monkeypatch.setattr(packaged_kernels.subprocess, "run", run)
    package_kernels(tmp_path / "packaged")
    assert levels == {level.name: level.options for level in levels_here()}
    assert len(begun) == 2 * len(levels)
    made = {path.relative_to(tmp_path / "packaged") for path in tmp_path.rglob("packaged/*/*")}
    assert made == {Path(name) / "a.kernel" for name in levels}


def test_what_is_compiled_is_told_without_compiling(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cli.main(["check"]) == 0
    assert "0 of these versions (0 B)" in capsys.readouterr().out
    ours = kernel_files.cache_folder()
    kernel_files.write_kernel(ours / f"one{kernel_files.SUFFIX}", b"code")
    (ours / f"two{kernel_files.SUFFIX}").write_bytes(b"")
    (tmp_path / "fewpass" / "older").mkdir()
    kernel_files.write_kernel(tmp_path / "fewpass" / "older" / f"x{kernel_files.SUFFIX}", b"code")
    assert cli.main(["check", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["kernels"]
    assert told.pop("damaged") == {"two.kernel": "it is cut short, to 0 bytes"}
    assert told == {
        "folder": str(tmp_path / "fewpass"), "compiled_for": compiled_for()[1], "packaged": 0,
        "kernels": 2, "n_bytes": 52, "of_others": 1, "bytes_of_others": 52,
    }  # fmt: skip
