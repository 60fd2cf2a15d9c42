"""Tasks of this process: out of reach of signals, on plain threads or on Dask's, never lost."""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import CancelledError
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from distributed import Client, LocalCluster, Security
from threadpoolctl import threadpool_info, threadpool_limits

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.blas import limit_blas_here
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.passes.packed import call
from fewpass.pipeline.passes.together import Together
from fewpass.pipeline.passes.versions import versions_here
from fewpass.pipeline.planning.place import place_of, rough_seconds, times_one_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from testing.datasets import make


def interrupted(done):
    signal.raise_signal(signal.SIGINT)
    time.sleep(0.2)
    done.append(threading.current_thread())


HERE = pytest.mark.parametrize("scheduler", ["none", "local"])


@HERE
def test_an_interrupt_waits_for_the_task_and_leaves_its_thread_alone(scheduler):
    done: list[threading.Thread] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with open_executor(Execution(scheduler=scheduler)) as executor:
            with pytest.raises(KeyboardInterrupt):
                executor.result(executor.submit_small("interrupted", interrupted, done))
            handle = executor.submit_small("pair", divmod, 7, 2)
            assert executor.result(executor.item("second", handle, 1)) == 1
        assert len(done) == 1  # the end waits for it
        assert done[0] is not threading.main_thread()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("encrypt", [False, True])
def test_a_client_or_a_cluster_is_taken_for_its_scheduler(encrypt):
    security = Security.temporary() if encrypt else None
    own = {"protocol": "tls", "processes": True} if encrypt else {"processes": False}
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, security=security, **own
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        for one in (client, cluster, Execution(scheduler=client).scheduler):
            with open_executor(Execution(scheduler=one)) as executor:
                assert executor.result(executor.submit("add", sum, (1, 2))) == 3
        assert client.submit(sum, (3, 4)).result() == 7  # its own connection is open
    with pytest.raises(BadInput, match="scheduler is 3, but it should be text"):
        Execution(scheduler=3)


def blas_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@HERE
def test_blas_has_one_thread_meanwhile(scheduler):
    with threadpool_limits(2, user_api="blas"):
        assert blas_threads() == {2}
        with open_executor(Execution(scheduler=scheduler)) as executor:
            assert blas_threads() == {1}
            assert executor.result(executor.submit("threads", blas_threads)) == {1}
        assert blas_threads() == {2}


def test_blas_has_one_thread_in_a_worker_whose_environment_says_otherwise():
    with threadpool_limits(2, user_api="blas"):
        limit_blas_here.cache_clear()
        assert call(versions_here(), blas_threads) == {1}


def test_threads_that_stood_still_are_not_given_up():
    """As those of a machine that slept: nobody would start them again."""
    with threads("local", 1) as executor:
        scheduler = executor._client.cluster.scheduler
        assert scheduler.worker_ttl is None
        assert "worker-ttl" not in scheduler.periodic_callbacks


@contextmanager
def threads(scheduler, n=4):
    with open_executor(Execution(scheduler=scheduler, threads=n)) as executor:
        yield executor


def add(*numbers):
    return sum(numbers), len(numbers)


@HERE
def test_works_wait_for_what_they_are_given(scheduler):
    with threads(scheduler) as executor:
        sums = [executor.submit("one", add, 1)]
        for k in range(200):
            given = [executor.item("sum", one, 0) for one in sums[-3:]]
            sums.append(executor.submit(f"name-{k % 3}", add, *given))
        fibonacci = [1]
        for _ in range(200):
            fibonacci.append(sum(fibonacci[-3:]))
        assert [executor.result(executor.item("sum", one, 0)) for one in sums] == fibonacci


@HERE
def test_each_thread_has_work(scheduler):
    together = threading.Barrier(4)
    with threads(scheduler) as executor:
        waits = [executor.submit("wait", together.wait, 60.0) for _ in range(4)]
        assert sorted(executor.result(one) for one in waits) == [0, 1, 2, 3]


@HERE
def test_an_error_reaches_all_that_depends_on_it(scheduler):
    with threads(scheduler) as executor:
        pair = executor.submit("divide", divmod, 1, 0)
        later = executor.submit("later", add, executor.item("quotient", pair, 0))
        for handle in (pair, later, executor.submit("last", add, later)):
            with pytest.raises(ZeroDivisionError):
                executor.result(handle)
        assert executor.result(executor.submit("divide", divmod, 7, 2)) == (3, 1)


def wait_for(happened):
    end = time.monotonic() + 60.0
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


class Large:
    """Something that one would not keep."""


@HERE
def test_what_nobody_has_a_handle_on_is_let_go(scheduler):
    with threads(scheduler) as executor:
        first = executor.submit("first", Large)
        kept = weakref.ref(executor.result(first))
        second = executor.submit("second", lambda large: type(large).__name__, first)
        assert executor.result(second) == "Large"
        gc.disable()  # what has to wait for it takes memory meanwhile
        try:
            del first
            wait_for(lambda: kept() is None)
        finally:
            gc.enable()


@HERE
def test_no_work_begins_after_the_end_nor_is_waited_for(scheduler):
    begun, go_on = [], threading.Event()

    def held():
        begun.append(None)
        go_on.wait(60.0)

    with threads(scheduler, 1) as executor:
        works = [executor.submit("held", held) for _ in range(3)]
        after = executor.submit("after", add, works[2])
        wait_for(lambda: begun)
        works[1].result.add_done_callback(lambda _: go_on.set())  # as soon as it is given up
        executor.close()  # waits for what has begun
    assert executor.result(works[0]) is None
    for never in (works[1], works[2], after):
        with pytest.raises(CancelledError):
            executor.result(never)
    assert len(begun) == 1


@HERE
def test_what_has_not_begun_is_given_up_where_a_training_ends(scheduler):
    """A span that runs on must not meet the one that goes on from the same snapshot."""
    begun, go_on, let_go = threading.Event(), threading.Event(), []

    def held():
        begun.set()
        go_on.wait(60.0)

    with threads(scheduler, 1) as executor:
        first, second = (executor.submit("held", held) for _ in range(2))
        assert begun.wait(60.0)
        second.result.add_done_callback(lambda _: go_on.set())  # as soon as it is given up
        executor.everywhere(lambda: let_go.append(go_on.is_set()))
        assert let_go == [True]
        assert executor.result(first) is None
        with pytest.raises(CancelledError):
            executor.result(second)
        assert executor.result(executor.submit("divide", divmod, 7, 2)) == (3, 1)


def test_a_task_that_dask_loses_is_not_waited_for_in_vain():
    go_on = threading.Event()
    with threads("local", 1) as executor:
        executor.submit("busy", go_on.wait, 60.0)
        lost = executor.submit("lost", add, 1)
        for task in executor._tasks:
            task.cancel()
        with pytest.raises(ConnectionError, match="Start it again"):
            executor.result(lost)
        go_on.set()


def test_a_signal_that_outlasts_a_wait_for_news_does_not_make_it_endless():
    """`SimpleQueue.get` then waits for ever before Python 3.13, and with it the whole training."""
    came = []
    client = SimpleNamespace(subscribe_topic=lambda _topic, take: came.append(take))
    together = Together(client, SimpleNamespace(), "mark")
    before = signal.signal(signal.SIGUSR1, lambda *_: time.sleep(0.3))
    strike = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    rescue = threading.Timer(20.0, lambda: came[0]((0.0, ("name", "too late"))))
    try:
        with together.listening("name"):
            strike.start()
            rescue.start()
            assert together.hear(0.2) is None
            rescue.cancel()
            came[0]((0.0, ("name", "news")))
            assert together.hear(0.2) == ("name", "news")
    finally:
        rescue.cancel()
        strike.join()  # later the signal would end this process
        signal.signal(signal.SIGUSR1, before)


def test_spans_are_tasks_of_dask_under_their_names():
    with threads("local", 2) as executor:
        executor._client.get_task_stream()  # from here on it remembers
        for k in range(3):
            executor.result(executor.submit("span", add, k))
        executor.result(executor.submit_small("sum", add, 1))

        def seen():
            return [task["key"].split("-")[0] for task in executor._client.get_task_stream(start=0)]

        wait_for(lambda: len(seen()) >= 3)  # the scheduler hears of the last one after us
        assert seen() == ["span"] * 3


PLAIN = """
import sys
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.planning.place import place_of, rough_seconds
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.runs.run_folder import RunFolder
from testing.datasets import make
with open_executor(Execution()) as executor:
    assert executor.result(executor.submit("divide", divmod, 7, 2)) == (3, 1)
    assert (executor.engine, executor.dashboard) == ("threads", None)
print({name.partition(".")[0] for name in sys.modules} & {"dask", "distributed", "bokeh"})
"""


def test_plain_threads_import_no_dask():
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def manifest(folder, n, **facts):
    return make(folder, n, 5, 100, **facts).manifest


def test_what_takes_seconds_runs_on_threads_and_all_else_on_dask(tmp_path, monkeypatch):
    made = manifest(tmp_path / "set", 300)
    plan = TrainingPlan(dataset="x", solver={"kind": "asgd"}, passes=10)
    assert place_of(Execution(threads=3), plan, made) == (
        Execution(scheduler="none", threads=3), place_of(Execution(), plan, made).why,
    )  # fmt: skip
    per_pass = rough_seconds(plan, made) / 10
    monkeypatch.setattr("fewpass.pipeline.planning.place.LONG_SECONDS", 5 * per_pass)
    assert place_of(Execution(), plan, made).execution == Execution(scheduler="local")
    for passes, engine in ((4, "threads"), (6, "dask")):
        few = plan.model_copy(update={"passes": passes})
        assert place_of(Execution(), few, made).execution.engine == engine
    to_tol = TrainingPlan(dataset="x", solver={"kind": "sdca"}, tol=1e-3)
    assert rough_seconds(to_tol, made) == pytest.approx(20 * per_pass)
    steps = TrainingPlan(dataset="x", solver={"kind": "simba"})
    assert place_of(Execution(), steps, made).execution.engine == "threads"
    for asked in (Execution(scheduler="none"), Execution(workers=2), Execution(scheduler="a:1")):
        assert place_of(asked, plan, made) == (asked, "asked for")


def test_models_of_classes_and_lam_count(tmp_path):
    made = manifest(tmp_path / "set", 300, classes=3)
    one = TrainingPlan(dataset="x", solver={"kind": "asgd"}, positive="a")
    three = TrainingPlan(dataset="x", solver={"kind": "asgd"})
    grid = TrainingPlan(dataset="x", solver={"kind": "asgd"}, lam="1/n,2/n", held_out="y")
    found = [rough_seconds(plan, made) for plan in (one, three, grid)]
    assert [seconds / found[0] for seconds in found] == pytest.approx([1, 3, 6])


def test_models_side_by_side_count_less_than_one_by_one(tmp_path):
    """Over sparse rows, for methods that step several at once; more models never take less."""
    sparse = manifest(tmp_path / "set", 300, layout="sparse", nnz=4, classes=20)

    def times(solver, **fields):
        plan = TrainingPlan(dataset="x", solver=solver, **fields)
        return times_one_model(plan, sparse)

    one, all_of_them = times({"kind": "sdca"}, positive="a"), times({"kind": "sdca"})
    few = times({"kind": "sdca"}, positive="a", lam="1/n,2/n,3/n,4/n,5/n", held_out="y")
    assert one == 1 < few < 5 < all_of_them < 20 / 2
    assert times({"kind": "asgd"}) == times({"kind": "psdca"}) == times({"kind": "auto"})
    assert times({"kind": "gd"}) == times({"kind": "sdca", "shrink_rounds": 3}) == 20


def test_the_engine_is_told_on_the_screen_in_the_log_and_by_plan(fewpass, tmp_path):
    dataset = make(tmp_path / "set", 300, 5, 100).folder.url
    for asked, engine, why in (
        ([], "threads", "s of work"), (["--scheduler", "local"], "dask", "asked for"),
    ):  # fmt: skip
        run = tmp_path / engine
        status, _, said = fewpass("train", dataset, run, *asked)
        assert status == 0
        (line,) = [one for one in said.splitlines() if one.startswith("Running on ")]
        first = next(iter(RunFolder(str(run)).events()))
        assert first["event"] == "start"
        assert first["engine"] == engine
        assert why in first["why"]
        assert f"({first['why']})" in line
        assert (first["dashboard"] is None) == (engine == "threads")
        assert (", dashboard http://127.0.0.1:" in line) == (engine == "dask")
        planned = json.loads(fewpass("train", "--plan", dataset, *asked, "--json")[1])
        assert (planned["engine"], planned["why"]) == (engine, first["why"])


@pytest.mark.parametrize("asked", [{"workers": 2}, {"encrypt": True}, {"threads": 2}])
@pytest.mark.parametrize("scheduler", ["none", "tcp://10.0.0.5:8786"])
def test_what_is_of_workers_started_here_is_refused_where_none_are(scheduler, asked):
    if scheduler == "none" and "threads" in asked:
        assert Execution(scheduler=scheduler, **asked).threads == 2
        return
    with pytest.raises(BadInput, match=rf"`{next(iter(asked))}=.* Leave one of them out"):
        Execution(scheduler=scheduler, **asked)
