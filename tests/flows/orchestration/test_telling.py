"""News for a server that may be slow or dead: nobody waits for it, and the newest wins.

Prefect is imported where it is needed: every process of the suite imports this file.
"""

import signal
import threading
import time

import pytest

from fewpass.flows.interrupts import stopping_first
from fewpass.flows.orchestration.telling import MOST_KEYS, Teller


def teller(every_s, warned=None):
    warn = (lambda _: None) if warned is None else warned.append
    return Teller(every_s, lambda error: isinstance(error, OSError), warn)


def test_whoever_gives_never_waits_and_the_newest_wins():
    told, free = [], threading.Event()

    def tell(news):
        told.append(news)
        free.wait(30)  # a server that hangs

    to_server = teller(every_s=0.0)
    to_server.give("bar", lambda: tell(0))
    while not told:
        time.sleep(0.001)
    for number in range(1, 1000):
        to_server.give("bar", lambda number=number: tell(number))
        to_server.give("table", lambda number=number: tell(-number))
    assert told == [0]
    assert not to_server.flush(0.05)
    free.set()
    assert to_server.flush(30)
    assert told == [0, 999, -999]


def test_the_end_is_told_without_waiting_for_the_next_turn():
    told = []
    to_server = teller(every_s=3600.0)
    to_server.give("bar", lambda: told.append("begun"))
    assert to_server.flush(30)
    to_server.give("bar", lambda: told.append("done"))
    assert to_server.flush(30)
    assert told == ["begun", "done"]


def test_what_a_dead_server_did_not_take_it_takes_when_it_is_back():
    told, warned, alive = [], [], threading.Event()

    def tell(news):
        if not alive.is_set():
            raise ConnectionError("dead")
        told.append(news)

    to_server = teller(0.01, warned)
    to_server.give("bar", lambda: tell("begun"))
    to_server.give("card", lambda: tell("card"))
    while not warned:
        time.sleep(0.001)
    to_server.give("bar", lambda: tell("done"))
    assert not to_server.flush(0.1)
    alive.set()
    assert to_server.flush(30)
    assert sorted(told) == ["card", "done"]
    assert [str(error) for error in warned] == ["dead"]  # once, however often it was tried


def test_what_will_never_be_taken_is_dropped_and_the_queue_is_bounded():
    told, warned, begun, free = [], [], threading.Event(), threading.Event()

    def refused():
        begun.set()
        free.wait(30)
        raise ValueError("no such artifact")

    to_server = teller(0.0, warned)
    to_server.give("refused", refused)
    assert begun.wait(30)
    for number in range(10 * MOST_KEYS):
        to_server.give(str(number), lambda number=number: told.append(number))
    free.set()
    assert to_server.flush(30)
    assert len(warned) == 1
    assert told == list(range(9 * MOST_KEYS, 10 * MOST_KEYS))


def test_two_places_never_share_an_artifact():
    from fewpass.flows.orchestration.artifacts import artifact_key

    keys = {artifact_key(f"{place}/runs/nightly", "card") for place in ("/a", "/b", "s3://c")}
    assert len(keys) == 3
    assert all(key == key.lower() and key.replace("-", "").isalnum() for key in keys)


def test_cancelling_is_seen_when_the_server_is_back():
    """A worker has its turn first: what it passes on ends the run before the second look."""
    from fewpass.flows.orchestration.watching import CancelWatch, was_cancelled

    answers = [False, OSError("dead"), OSError("dead"), True, OSError("dead"), True]
    asked, acted = [], threading.Event()

    def ask():
        asked.append(answers[min(len(asked), len(answers) - 1)])
        if isinstance(asked[-1], Exception):
            raise asked[-1]
        return asked[-1]

    with CancelWatch(ask, acted.set, every_s=0.001):
        assert acted.wait(30)
    assert len(asked) == len(answers)
    asked.clear()
    assert not was_cancelled(ask, 0.0)  # the first answer
    answers[:] = [OSError("dead"), True]
    asked.clear()
    assert was_cancelled(ask, 60.0)
    answers[:] = [OSError("dead")]
    asked.clear()
    assert not was_cancelled(ask, 0.01)


def test_a_run_that_is_ending_gets_no_second_signal(monkeypatch):
    """It would end all at once, while a snapshot is taken or a pass is brought to its end."""
    from fewpass.flows.orchestration.watching import end_this_process

    sent = []
    monkeypatch.setattr("os.kill", lambda pid, number: sent.append(number))
    with pytest.raises(KeyboardInterrupt), stopping_first(lambda: True) as signals:
        signal.raise_signal(signal.SIGINT)
        assert signals == [signal.SIGINT]
        end_this_process()
    assert sent == []
    end_this_process()
    assert sent == [signal.SIGTERM]
