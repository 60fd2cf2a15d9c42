"""Tasks of this process: out of reach of signals, done in turns that Dask lends, never lost."""

import gc
import signal
import threading
import time
import weakref
from concurrent.futures import CancelledError
from contextlib import contextmanager

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pipeline.streaming.executor import Execution, open_executor
from pipeline.streaming.in_process import InProcess


def interrupted(done):
    signal.raise_signal(signal.SIGINT)
    time.sleep(0.2)
    done.append(threading.current_thread())


@pytest.mark.parametrize("scheduler", ["none", None])
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


def test_what_a_task_raises_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        InProcess().submit("divide", divmod, 1, 0)


@pytest.mark.parametrize("scheduler", [None, "none"])
def test_blas_has_one_thread_meanwhile(scheduler):
    def threads():
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        assert threads()
        assert set(threads()) == {2}
        with open_executor(Execution(scheduler=scheduler)) as executor:
            assert set(threads()) == {1}
            assert set(executor.result(executor.submit("threads", threads))) == {1}
        assert set(threads()) == {2}


@contextmanager
def threads(n=4):
    with open_executor(Execution(threads=n)) as executor:
        yield executor


def add(*numbers):
    return sum(numbers), len(numbers)


def test_works_wait_for_what_they_are_given():
    with threads() as executor:
        sums = [executor.submit("one", add, 1)]
        for k in range(200):
            given = [executor.item("sum", one, 0) for one in sums[-3:]]
            sums.append(executor.submit(f"name-{k % 3}", add, *given))
        fibonacci = [1]
        for _ in range(200):
            fibonacci.append(sum(fibonacci[-3:]))
        assert [executor.result(executor.item("sum", one, 0)) for one in sums] == fibonacci


def test_each_thread_has_work():
    together = threading.Barrier(4)
    with threads() as executor:
        waits = [executor.submit("wait", together.wait, 20.0) for _ in range(4)]
        assert sorted(executor.result(one) for one in waits) == [0, 1, 2, 3]


def test_an_error_reaches_all_that_depends_on_it():
    with threads() as executor:
        pair = executor.submit("divide", divmod, 1, 0)
        later = executor.submit("later", add, executor.item("quotient", pair, 0))
        for handle in (pair, later, executor.submit("last", add, later)):
            with pytest.raises(ZeroDivisionError):
                executor.result(handle)
        assert executor.result(executor.submit("divide", divmod, 7, 2)) == (3, 1)


class Large:
    """Something that one would not keep."""


def test_what_nobody_has_a_handle_on_is_let_go():
    with threads() as executor:
        first = executor.submit("first", Large)
        kept = weakref.ref(executor.result(first))
        second = executor.submit("second", lambda large: type(large).__name__, first)
        assert executor.result(second) == "Large"
        del first
        gc.collect()
        assert kept() is None


def test_no_work_begins_after_the_end_nor_is_waited_for():
    begun, go_on = [], threading.Event()

    def held():
        begun.append(None)
        go_on.wait(20.0)

    with threads(1) as executor:
        works = [executor.submit("held", held) for _ in range(3)]
        after = executor.submit("after", add, works[2])
        while not begun:
            time.sleep(0.01)
        executor.close()
        go_on.set()
    assert executor.result(works[0]) is None
    for never in (works[1], works[2], after):
        with pytest.raises(CancelledError):
            executor.result(never)
    assert len(begun) == 1


def test_a_turn_that_dask_loses_is_not_waited_for_in_vain():
    with threads(1) as executor:
        executor.submit("busy", time.sleep, 0.5)
        lost = executor.submit("lost", add, 1)
        for task in executor._tasks:
            task.cancel()
        with pytest.raises(ConnectionError, match="Start it again"):
            executor.result(lost)
