"""A scheduler that nobody works for: said, waited for, given up."""

import logging
import os
import signal
from contextlib import suppress

import distributed
import pytest

from fewpass.flows.cli import main
from fewpass.pipeline.errors import NoWorkers
from fewpass.pipeline.passes import workers
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.passes.on_dask import OnDask
from fewpass.pipeline.passes.workers import Workers, of_scheduler
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from testing.datasets import make


@pytest.fixture(scope="module")
def scheduler():
    with distributed.LocalCluster(
        n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1", silence_logs="ERROR"
    ) as cluster:
        yield cluster


def test_nobody_works_for_it(scheduler, tmp_path, capsys):
    address = scheduler.scheduler_address
    dataset = make(tmp_path / "set", n=500).folder.url
    place = ["--scheduler", address, "--wait-workers", "0s"]
    assert main(["train", dataset, str(tmp_path / "run"), *place]) == 1
    said = capsys.readouterr().err
    assert f"The Dask scheduler at {address} has no workers. Start one with" in said


class Scheduler:
    """What a client is to ask a scheduler for: who works for it, an answer at a time."""

    def __init__(self, *answers):
        self.answers, self.scheduler = list(answers), self

    def ncores(self):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    ncores_running = ncores

    def sync(self, function, callback_timeout):
        answer = function()
        if answer is None:
            raise TimeoutError
        return answer


def workers_of(client, most_s=0.0, why=lambda: ""):
    return Workers(client, "The scheduler", "has no workers", "Start one.", most_s, why)


def test_a_worker_that_comes_is_waited_for(scheduler, caplog, monkeypatch):
    monkeypatch.setattr(workers, "LOOK_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING):
        workers_of(Scheduler({}, {}, {"tcp://worker": 1}), 60.0).wait()
    (record,) = (one for one in caplog.records if one.name.startswith("fewpass"))
    assert record.getMessage() == "The scheduler has no workers; waiting for 60 s. Start one."
    place = Execution(scheduler=scheduler.scheduler_address, wait_workers="0")
    with pytest.raises(NoWorkers), open_executor(place):
        pass


def test_a_scheduler_that_says_nothing_is_given_up():
    with pytest.raises(NoWorkers, match=r"does not answer\. Look at its process"):
        workers_of(Scheduler(None)).wait()


def test_workers_that_are_paused_are_none():
    with pytest.raises(NoWorkers, match=r"paused 1 worker, and has no other.*`--memory-limit`"):
        workers_of(Scheduler({}, {"tcp://worker": 1})).wait()


def test_who_asked_for_the_end_waits_for_nobody():
    with pytest.raises(NoWorkers, match=r"no workers \(killed by signal 9\)"):
        workers_of(Scheduler({}), 3600.0, lambda: "killed by signal 9").wait(lambda: True)


def test_when_all_workers_are_gone_no_result_is_waited_for_in_silence(scheduler, monkeypatch):
    monkeypatch.setattr("fewpass.pipeline.passes.watched_cluster.PATIENCE_S", 0.1)
    place = Execution(scheduler=scheduler.scheduler_address, wait_workers="0")
    with distributed.Client(scheduler.scheduler_address, set_as_default=False) as client:
        executor = OnDask(client, None, "", of_scheduler(client, place))
        with pytest.raises(NoWorkers, match="has no workers"):
            executor.result(executor.submit("sum", sum, (1, 2)))
        executor.heed(lambda: True)
        patient = place.model_copy(update={"wait_workers": 3600.0})
        executor = OnDask(client, None, "", of_scheduler(client, patient))
        executor.heed(lambda: True)
        with pytest.raises(NoWorkers, match="has no workers"):
            executor.result(executor.submit("sum", sum, (1, 2)))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("30s", 30.0), ("5m", 300.0), (0, 0.0)]
)
def test_durations(text, seconds):
    assert Execution(wait_workers=text).wait_workers == seconds


def failing(*_, **__):
    raise RuntimeError("Nanny failed to start worker process") from OSError(
        24, "Too many open files"
    )


def test_worker_processes_that_do_not_start_are_named_with_why(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(distributed, "LocalCluster", failing)
    dataset = make(tmp_path / "set", n=500).folder.url
    assert main(["train", dataset, str(tmp_path / "run"), "--workers", "2"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "could not start 2 worker processes here (Too many open files)" in said
    assert "leave --workers out" in said


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def mortal(monkeypatch):
    """Two worker processes of ours; who dies is not started again."""
    monkeypatch.setattr("fewpass.pipeline.passes.watched_cluster.PATIENCE_S", 0.1)
    monkeypatch.setattr(distributed.Nanny, "_on_worker_exit", forget)
    with open_executor(Execution(workers=2, threads=1, wait_workers="1s")) as executor:
        yield executor


async def forget(self, exitcode):
    """As where no process can be started any more: too many files are open, say."""
    await self._unregister()


@pytest.mark.timeout(300)
def test_worker_processes_that_are_gone_end_a_training(mortal, tmp_path):
    """Named with how they ended, within the time that is waited for; what was kept is kept."""
    plan = TrainingPlan(
        dataset=make(tmp_path / "set", n=3000, chunk_rows=100).folder.url, lam="1/n", passes=4
    )
    training = TrainingRun.start(plan, str(tmp_path / "run"), mortal)
    with pytest.raises(
        NoWorkers, match=r"none of its 2 worker processes left .*killed by signal 9"
    ) as told:
        for number, _ in enumerate(training):
            if number == 1:
                with suppress(Exception):
                    mortal._client.run(die)
    assert "threads of this process" in str(told.value)
    training = TrainingRun.start(plan, str(tmp_path / "run"), mortal)
    training.stop()  # as a signal does: it ends, though nobody can take a snapshot
    assert [event.kind for event in training][-1] == "stop"
    with open_executor(Execution()) as threads:
        resumed = TrainingRun.resume(str(tmp_path / "run"), threads)
        assert [event.kind for event in resumed][-1] == "finish"
