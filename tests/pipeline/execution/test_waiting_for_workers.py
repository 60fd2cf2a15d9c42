"""A scheduler that nobody works for: said, waited for, given up."""

import logging
from functools import partial

import distributed
import pytest

from fewpass.flows.cli import main
from fewpass.pipeline.errors import NoWorkers
from fewpass.pipeline.execution.executor import await_workers, open_executor
from fewpass.pipeline.execution.on_dask import OnDask
from fewpass.pipeline.settings.execution import Execution
from testing.datasets import make


@pytest.fixture
def scheduler():
    with distributed.LocalCluster(
        n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1", silence_logs="ERROR"
    ) as cluster:
        yield cluster


def test_nobody_works_for_it(scheduler, tmp_path, capsys):
    address = scheduler.scheduler_address
    dataset = make(tmp_path / "set", n=500).folder.url
    asked = [
        "train",
        dataset,
        str(tmp_path / "run"),
        "--scheduler",
        address,
        "--wait-workers",
        "0s",
    ]
    assert main(asked) == 1
    assert (
        f"The Dask scheduler at {address} has no workers. Start one with" in capsys.readouterr().err
    )


def test_a_worker_that_comes_is_waited_for(scheduler, caplog):
    class Late:
        """Has a worker when it is asked the second time."""

        asked = 0

        def nthreads(self):
            self.asked += 1
            return {"tcp://worker": 1} if self.asked > 1 else {}

    with caplog.at_level(logging.WARNING):
        await_workers(Late(), "tcp://there", 60.0)
    assert "has no workers; waiting for 60 s" in caplog.text
    place = Execution(scheduler=scheduler.scheduler_address, wait_workers="0")
    with pytest.raises(NoWorkers), open_executor(place):
        pass


def test_when_all_workers_are_gone_no_result_is_waited_for_in_silence(scheduler, monkeypatch):
    monkeypatch.setattr("fewpass.pipeline.execution.on_dask.PATIENCE_S", 0.1)
    address = scheduler.scheduler_address
    with distributed.Client(address, set_as_default=False) as client:
        executor = OnDask(client, None, "", partial(await_workers, client, address, 0.0))
        with pytest.raises(NoWorkers, match="has no workers"):
            executor.result(executor.submit("sum", sum, (1, 2)))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("30s", 30.0), ("5m", 300.0), (0, 0.0)]
)
def test_durations(text, seconds):
    assert Execution(wait_workers=text).wait_workers == seconds


def test_a_duration_that_is_none(capsys):
    assert main(["train", "d", "r", "--wait-workers", "soon"]) == 2
    assert "'soon' is no duration" in capsys.readouterr().err
