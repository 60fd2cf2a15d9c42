"""What a forked child does: commands, watched, with one call that fails or a signal at one call."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import itertools
import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from socket import SOCK_DGRAM
from typing import Any

from fewpass.flows.signals import end_at_once
from tests.faults.recorder import Recorder

#: Python's audit events by the system call that they announce.
AUDITED = {
    "open": "open",
    "os.rename": "rename",
    "os.link": "rename",
    "os.remove": "remove",
    "os.mkdir": "mkdir",
    "os.rmdir": "remove",
}
CALLS = ("open", "write", "fsync", "rename", "remove", "mkdir")
STRANGERS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "pickle.find_class")
READERS = ("/numba/core/", "/solvers/kernels/machine_code.py")  # of kernels
LOCAL = ("127.0.0.1", "::1", "localhost")


def prepare() -> None:
    """Import what a command needs, and put the rows of an ingest, which memory would hold, into files."""
    import fewpass.flows.cli
    import fewpass.flows.commands.contents
    import fewpass.flows.commands.report_tables
    import fewpass.flows.display.ingest_display
    import fewpass.flows.display.pass_lines
    import fewpass.flows.interrupts
    import fewpass.flows.settings
    import fewpass.pipeline.api.making_data_sets
    import fewpass.pipeline.api.training_models
    import fewpass.pipeline.api.using_models
    import fewpass.pipeline.reporting.page  # noqa: F401
    from fewpass.pipeline.budget import Budget, MemoryShare

    for name, part in {"run": "1/10000", "retained": "0"}.items():
        setattr(Budget, name, MemoryShare(part, "rows", "", "", ""))


def memory_bytes() -> int:
    """Memory of this process at its peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def work_here(task: dict[str, Any]) -> int:
    """Do a task in this process, where nothing is watched; return the last exit status."""
    report = Report(Path(task["report"]))
    statuses = [report.hear(command) for command in task["commands"]]
    report.close()
    return statuses[-1]


def work(task: dict[str, Any]) -> None:
    """Do a task and end the process."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end_at_once()  # as `fewpass.flows.cli.command_line` does
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    report = Report(Path(task["report"]))
    injection = Injection(task["fault"] or {}, Path(task["watched"]), report)
    injection.install()
    status = 1
    try:
        for command in task["commands"]:
            status = report.hear(command)
    except BaseException:
        report.tell(said={"status": 70, "out": "", "err": traceback.format_exc()})
        status = 70
    injection.off = True
    report.tell(events=injection.count)
    os._exit(status)


class Report:
    """What a child wrote down, a line at a time: it may die after any."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write = os.write

    def tell(self, **facts: Any) -> None:
        self._write(self._file, (json.dumps(facts) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)

    def hear(self, command: list[str]) -> int:
        """Run a command of fewpass, or a function that is named `module:function`."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = _run(command)
        self.tell(said={"status": status, "out": out.getvalue(), "err": err.getvalue()})
        return status


def _run(command: list[str]) -> int:
    from fewpass.flows.cli import main
    from fewpass.flows.refusals import exit_status, sentence

    if ":" not in command[0]:
        return main(command)
    module, _, function = command[0].partition(":")
    try:
        getattr(importlib.import_module(module), function)(*command[1:])
    except (Exception, KeyboardInterrupt) as error:
        sys.stderr.write(f"fewpass: {sentence(error)}\n")
        return exit_status(error)
    return 0


class Injection:
    """Counts calls below a folder, and has one of them fail or a signal arrive at it.

    Parameters
    ----------
    fault
        `call`: which calls count, "any" for all.  `k`: at which of them, from 1.  `does`: an errno
        by name, or signals by name, the second one `then` calls later.  `after`: counting begins
        when a file of this name is there.  `record`: a folder for what a power cut would leave.
    """

    def __init__(self, fault: dict[str, Any], watched: Path, report: Report) -> None:
        self.call, self.k = fault.get("call", "any"), fault.get("k", 0)
        self.does, self.then = fault.get("does", ""), fault.get("then", 0)
        self.after, self.trusted = fault.get("after"), fault.get("trusted", False)
        self.watched, self.report = f"{watched}/", report
        self.count, self.off = 0, False
        self._numbers = itertools.count(1)
        record = fault.get("record")
        self._recorder = Recorder(watched, Path(record)) if record else None

    def install(self) -> None:
        """From here on calls are counted."""
        self._write, self._fsync, self._open = os.write, os.fsync, io.open
        os.write, os.fsync = self._counted_write, self._counted_fsync
        io.open = _opens(self)
        sys.addaudithook(self._audited)

    def happens(self, call: str, path: str) -> None:
        """Count a call; it fails, or a signal comes, when it is the one."""
        if self.off or not path.startswith(self.watched):
            return
        if self.after is not None:
            if os.path.exists(self.watched + self.after):  # noqa: PTH110 - no audit event
                self.after = None
            return
        if self.call not in {"any", call}:
            return
        number = self.count = next(self._numbers)
        if number == self.k:
            self._strike(path)
        elif self.then and number == self.k + self.then:
            os.kill(os.getpid(), signal.SIGINT)

    def _strike(self, path: str) -> None:
        if self.does.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, self.does))
            return
        if self.does:
            code = getattr(errno, self.does)
            raise OSError(code, os.strerror(code), path)

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.off:
            return
        if event in AUDITED:
            path = _path(arguments[1] if event in {"os.rename", "os.link"} else arguments[0])
            if path:
                self.happens(AUDITED[event], path)
        elif event in STRANGERS and not (self.trusted or _is_reading_a_kernel()):
            self.report.tell(breach=f"{event} {arguments[0]!r}"[:200])
        elif event in {"socket.connect", "socket.bind"} and not _is_local(*arguments):
            self.report.tell(breach=f"{event} {arguments[1]!r}")

    def _counted_write(self, descriptor: int, data: Any) -> int:
        path = _path_of(descriptor)
        try:
            self.happens("write", path)
        except OSError:
            with memoryview(data) as view:
                self._write(descriptor, view[: len(view) // 2])  # a disk fills up in the middle
            raise
        return self._write(descriptor, data)

    def _counted_fsync(self, descriptor: int) -> None:
        self.happens("fsync", _path_of(descriptor))
        self._fsync(descriptor)
        if self._recorder is not None:
            self._recorder.synced(descriptor)


def _opens(injection: Injection) -> Any:
    """Return `open`, whose files count what is written to them."""
    real = io.open

    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            injection.happens("write", os.fspath(self.name))
            return super().write(data)

    def opened(file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **named: Any) -> Any:
        writes = "b" in mode and mode[0] in "wax"
        if not writes or not str(file).startswith(injection.watched):
            return real(file, mode, buffering, *rest, **named)
        raw = Raw(file, mode.replace("b", ""))
        if buffering == 0:
            return raw
        return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

    return opened


def _path(name: Any) -> str:
    if isinstance(name, int):
        return ""
    try:
        return os.path.abspath(os.fsdecode(name))  # noqa: PTH100 - links are not followed
    except TypeError:
        return ""


def _path_of(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - no audit event
    except OSError:
        return ""


def _is_reading_a_kernel() -> bool:
    """Whether numba, or what runs kernels without it, reads a file that was checked before."""
    frame = sys._getframe()
    while frame is not None:
        if any(place in frame.f_code.co_filename for place in READERS):
            return True
        frame = frame.f_back
    return False


def _is_local(socket: Any, address: Any) -> bool:
    """Whether nothing leaves the machine: connecting a datagram socket sends nothing."""
    silent = not isinstance(address, tuple) or socket.type == SOCK_DGRAM
    return silent or address[0] in LOCAL
