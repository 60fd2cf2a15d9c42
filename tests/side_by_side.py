"""Test files side by side, in processes that are forked when everything is imported and collected.

Collecting takes 13 seconds of a processor, and 15 more where no module is bytecode yet: it is done
once.  A process runs the tests of a file, in their order, and asks for the next file before the
last of them, so that fixtures of the session go on; files that share a server are one.
"""

import os
import signal
import traceback
import warnings
from collections import deque
from multiprocessing import Pipe
from multiprocessing.connection import wait

from _pytest.reports import TestReport


class Process:
    """One of the processes, as the one that collected the tests sees it."""

    def __init__(self, session):
        self.connection, theirs = Pipe()
        self.given, self.running = deque(), None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # BLAS, which has threads, can fork
            self.pid = os.fork()
        if self.pid == 0:
            _run_what_is_given(session, theirs)
        theirs.close()

    def give(self, tests):
        self.given.extend(tests)
        self.connection.send(tests)

    def end(self):
        """Wait for its end; return how it ended."""
        self.connection.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run(session, processes, group_of):
    """Run all tests of a session; those of one group in one process, one after the other."""
    groups = {}
    for number, item in enumerate(session.items):
        groups.setdefault(group_of(item), []).append(number)
    waiting, at_work = deque(groups.values()), {}
    session.config._tmp_path_factory.getbasetemp()  # the same for all processes
    try:
        while at_work or waiting:
            while len(at_work) < min(processes, len(at_work) + len(waiting)):
                process = Process(session)
                at_work[process.connection] = process
            for connection in wait(at_work):
                if not _hear(session, at_work[connection], waiting):
                    del at_work[connection]
    finally:
        for process in at_work.values():
            os.kill(process.pid, signal.SIGKILL)
            process.end()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)


def _hear(session, process, waiting):
    """Take what a process says; return whether it says more."""
    try:
        kind, said = process.connection.recv()
    except EOFError:
        _require_done(session, process, waiting)
        return False
    hook, config = session.config.hook, session.config
    if kind == "more":
        process.give(waiting.popleft() if waiting else [])
    elif kind == "begun":
        process.running = process.given.popleft()
    elif kind == "report":
        report = hook.pytest_report_from_serializable(config=config, data=said)
        hook.pytest_runtest_logreport(report=report)
        if session.shouldfail:  # as many as --maxfail says
            waiting.clear()
    else:
        item, process.running = session.items[process.running], None
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _require_done(session, process, waiting):
    """Where a process was lost, its test failed, and another one runs what was left to it."""
    status = process.end()
    if process.running is not None:
        item = session.items[process.running]
        why = f"The process that ran it ended with {status}."
        lost = TestReport(item.nodeid, item.location, {}, "failed", why, "call")
        session.config.hook.pytest_runtest_logreport(report=lost)
    if process.given:
        waiting.appendleft(list(process.given))


class _Silent:
    """In place of what tells of tests on the terminal: reports go to the process that collected."""

    def __init__(self, config, connection):
        self._tw = config.get_terminal_writer()  # which pytest-timeout asks for
        self._config, self._send = config, connection.send

    def pytest_runtest_logstart(self):
        self._send(("begun", None))

    def pytest_runtest_logreport(self, report):
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._send(("report", data))

    def pytest_runtest_logfinish(self):
        self._send(("finished", None))


def _run_what_is_given(session, connection):
    """The life of a process."""
    status = 1
    try:
        plugins = session.config.pluginmanager
        reporter = _Silent(session.config, connection)
        plugins.unregister(name="terminalreporter")
        plugins.register(reporter, "terminalreporter")
        captured = plugins.getplugin("capturemanager")
        captured.stop_global_capturing()  # its files are those of the process that collected
        captured.start_global_capturing()
        captured.suspend_global_capture()
        _run_tests(session, connection)
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


def _run_tests(session, connection):
    def more():
        connection.send(("more", None))
        return [session.items[number] for number in connection.recv()]

    tests = deque(more())
    while tests:
        item = tests.popleft()
        tests.extend([] if tests else more())
        following = tests[0] if tests else None
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
