"""A process that imports everything once; every line it reads is a task for a forked child.

Importing takes seconds and a case a tenth of one.  The child may crash, hang or be killed: only its
exit status is believed, and what it wrote down before.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from testing.prefect_server import patience

PROJECT = Path(__file__).parents[2]
TIMEOUT_S = 60.0
MOST_MEMORY = 300 << 20  # bytes that a case may take beyond what the starter has


class Said(NamedTuple):
    """How one command of a task ended."""

    status: int
    out: str
    err: str


class Ended(NamedTuple):
    """How a task's process ended."""

    status: int  # negative: the signal that ended it
    commands: list[Said]  # those that came to their end
    events: int  # calls that could have failed, as far as the child could tell
    breaches: list[str]  # what it did that no task may do
    seconds: float
    memory: int  # bytes at its peak, beyond those of the starter that it was forked from
    timed_out: bool

    @property
    def text(self) -> str:
        """All that was said."""
        return "\n".join(f"{said.out}\n{said.err}" for said in self.commands)


Moment = tuple[int, float]  # a signal, and seconds after which it is sent


class Starter:
    """Runs tasks one at a time, each in a process of its own.

    Parameters
    ----------
    place
        A folder for what children write down.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"PYTHONPATH": str(PROJECT), "PYTHONWARNINGS": "ignore"}
        self._log = (place / "starter.log").open("wb")
        # No buffers: an answer that was read ahead could not be waited for.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.starter"], cwd=PROJECT, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0,
        )  # fmt: skip
        self._answer()

    def run(
        self,
        commands: list[list[str]],
        fault: dict[str, Any] | None = None,
        *,
        watched: Path,
        moments: tuple[Moment, ...] = (),
        timeout_s: float = TIMEOUT_S,
        here: bool = False,
        meanwhile: Callable[[int], None] | None = None,
    ) -> Ended:
        """Run commands one after the other in one child; signals are sent at their moments.

        `fault` is what `child.Injection` does; `watched` is where it does that.  `here`: in the
        starter itself, so that all later children have the compiled kernels already.
        """
        report = self.place / "report.jsonl"
        report.unlink(missing_ok=True)
        task = {
            "commands": commands, "fault": fault, "report": str(report), "watched": str(watched),
            "here": here,
        }  # fmt: skip
        began = time.perf_counter()
        self._process.stdin.write(json.dumps(task).encode() + b"\n")
        pid = int(self._answer()["pid"])
        for number, after in moments:
            time.sleep(after)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if meanwhile is not None:
            meanwhile(pid)
        timed_out = self._waited_too_long(pid, began + patience(timeout_s))
        end = self._answer()
        return _ended(end, report, time.perf_counter() - began, timed_out)

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()
        self._log.close()

    def _waited_too_long(self, pid: int, until: float) -> bool:
        """Wait for an answer to be there; kill the child's whole group when it takes too long."""
        import select

        left = max(0.0, until - time.perf_counter())
        if select.select([self._process.stdout], [], [], left)[0]:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        return True

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"The starter died; see {self.place / 'starter.log'}.")
        return json.loads(line)


def _ended(end: dict[str, Any], report: Path, seconds: float, timed_out: bool) -> Ended:
    told = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    commands = [Said(**line["said"]) for line in told if "said" in line]
    breaches = [line["breach"] for line in told if "breach" in line]
    events = max((line["events"] for line in told if "events" in line), default=0)
    memory = max(0, end["memory"] - end["before"])
    return Ended(end["status"], commands, events, breaches, seconds, memory, timed_out)


def main() -> None:
    """Import, say so, then fork a child for every line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from tests.faults import child

    child.prepare()
    _say(answers, ready=True)
    for line in sys.stdin:
        task, before = json.loads(line), psutil.Process().memory_info().rss
        if task["here"]:
            _say(answers, pid=os.getpid())
            status = child.work_here(task)
            _say(answers, status=status, memory=child.memory_bytes(), before=before)
            continue
        pid = os.fork()
        if not pid:
            child.work(task)
        _say(answers, pid=pid)
        _, status, used = os.wait4(pid, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # worker processes that it left behind
        status = os.waitstatus_to_exitcode(status)
        _say(answers, status=status, memory=used.ru_maxrss << 10, before=before)


def _say(answers: Any, **facts: Any) -> None:
    answers.write(json.dumps(facts) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
