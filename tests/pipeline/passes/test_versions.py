"""Workers that compute with other versions, or may take less memory than a plan: named."""

import logging
import os
import subprocess
import sys
from operator import add

import dask
import distributed
import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.passes.on_dask import OnDask, OtherVersions, call
from fewpass.pipeline.passes.versions import SOURCES, version_differences, versions_here
from fewpass.pipeline.passes.workers import of_scheduler
from fewpass.pipeline.settings.execution import Execution
from tests.conftest import PROJECT

HERE = versions_here()


@pytest.fixture
def cluster():
    """A scheduler with a worker in this process, which may take half a gigabyte.

    Nothing is done about it where this process has taken more: a worker that pauses is not counted.
    """
    done = ("target", "spill", "pause", "terminate")
    with (
        dask.config.set({f"distributed.worker.memory.{what}": False for what in done}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1",
            dashboard_address="127.0.0.1:0", worker_dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL", memory_limit="512MB",
        ) as cluster,
    ):  # fmt: skip
        yield cluster


@pytest.fixture
def stranger(cluster, tmp_path):
    """Start a worker process whose environment has other versions."""
    for package, number in (("fewpass", "9.9.9"), ("numba", "0.1.2")):
        told = tmp_path / f"{package}-{number}.dist-info"
        told.mkdir()
        (told / "METADATA").write_text(f"Name: {package}\nVersion: {number}\n")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{PROJECT}", "PYTHONSAFEPATH": "1"}
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [*worker, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"],
            env=environment, cwd=tmp_path, stdout=said, stderr=said,
        )  # fmt: skip
    yield process
    process.kill()
    process.wait()


@pytest.mark.timeout(300)
def test_a_worker_of_other_versions_is_named_when_it_comes_and_when_it_is_there(cluster, stranger):
    place = Execution(scheduler=cluster.scheduler_address)
    differs = (
        r"worker at tcp://127.0.0.1:\d+ differs: fewpass 9.9.9 there, .* here; numba 0.1.2 there"
    )
    with distributed.Client(cluster, set_as_default=False) as client:
        executor = OnDask(client, None, "", of_scheduler(client, place))
        assert executor.result(executor.submit("sum", add, 1, 2)) == 3
        client.wait_for_workers(2, timeout=240)
        client.retire_workers([cluster.workers[0].address])
        with pytest.raises(OtherVersions, match=differs):
            executor.result(executor.submit("sum", add, 1, 2))
    with pytest.raises(BadInput, match=differs), open_executor(place):
        pass


def test_a_task_is_not_begun_for_others():
    begun = []
    with pytest.raises(OtherVersions, match=r"numba .* there, 0\.1\.2 here"):
        call({**HERE, "numba": "0.1.2"}, begun.append, 1)
    assert not begun
    call(HERE, begun.append, 1)
    assert begun == [1]


@pytest.mark.parametrize(
    ("package", "there", "here", "weighs"),
    [
        ("fewpass", "0.1.0", "0.1.1", True),
        ("numba", "0.68.1", "0.67.1", True),
        ("numba", "0.68.1", "0.68.2", False),
        ("numpy", "2.4.6", "2.5.0", True),
        ("numpy", "2.4.6", "2.4.7", False),
        ("python", "3.11.7", "3.12.1", True),
        ("python", "3.11.7", "3.11.9", False),
        ("numba", None, "0.68.1", True),
        (SOURCES, "aaaaaaaa", "bbbbbbbb", True),
    ],
)
def test_what_differs_in_bits_is_told_from_what_does_not(package, there, here, weighs):
    ((found, words),) = version_differences({**HERE, package: there}, {**HERE, package: here})
    assert found is weighs
    assert here in words
    assert there is None or there in words


def test_equals_do_not_differ():
    assert not list(version_differences(HERE, HERE))
    assert not list(
        version_differences({**HERE, "fewpass": None}, HERE)
    )  # its folder is on the path there


def test_a_worker_that_may_take_less_than_the_plan_is_named_or_does_not_see_the_run(
    cluster, caplog, tmp_path
):
    place, run = Execution(scheduler=cluster.scheduler_address), str(tmp_path)
    with open_executor(place) as executor, caplog.at_level(logging.WARNING):
        executor.check_workers(100_000_000, run, tmp_path.exists)
        assert not warned(caplog)
        executor.check_workers(1 << 30, run, tmp_path.exists)
        with pytest.raises(OSError, match=f"at tcp://.* does not see {run}/1"):
            executor.check_workers(0, f"{run}/1", (tmp_path / "1").exists)
    (said,) = warned(caplog)
    assert cluster.workers[0].address in said
    assert "--memory-limit 1530MB" in said  # a gibibyte and the libraries are 0.8 of it
    assert "`memory` to 260MB at most" in said


def warned(caplog):
    return [r.getMessage() for r in caplog.records if r.name.startswith("fewpass")]
