"""Tasks of this process: out of reach of signals, and waited for when one comes."""

import signal
import threading
import time

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pipeline.streaming.executor import Execution, InProcess, open_executor


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
                executor.submit_small("interrupted", interrupted, done)
            assert len(done) == 1
            assert done[0] is not threading.main_thread()
            handle = executor.submit_small("pair", divmod, 7, 2)
            assert executor.result(executor.item("second", handle, 1)) == 1
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
