"""kill -9 of `fewpass train` in the middle of things, and going on after it."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.datasets import make

FEWPASS = str(Path(sys.executable).with_name("fewpass"))
METHODS = {
    "asgd": ["--solver", "asgd", "--set", "solver.average_from=0.5", "--certify"],
    "s2gd+": ["--solver", "s2gd+"],
    "sdca": ["--solver", "sdca", "--loss", "hinge", "--streams", "2"],
    "pegasos": ["--solver", "pegasos", "--loss", "hinge", "--set", "solver.batch_size=7"],
    "asdca": ["--solver", "asdca", "--loss", "smoothed_hinge", "--set", "solver.batch_size=50"],
    "simba": ["--solver", "simba", "--set", "solver.iterations=8000"],
}
SCHEDULERS = (["--scheduler", "none"], [], ["--scheduler", "none"], ["--workers", "2"])
POLL_S = 0.0005
PASSES = 25
#: Where kills are to strike, in turn; None: anywhere.
TARGETS = {
    "asgd": (None,),
    "s2gd+": (None, "inner walk", "gather"),
    "sdca": (None,),
    "pegasos": (None,),
    "asdca": (None,),
    "simba": (None,),
}


class Outcome(NamedTuple):
    """What must not depend on kills."""

    weights_sha256: str
    objective: float
    certificate: float
    rows_seen: int


class Kill(NamedTuple):
    """Where one struck."""

    scheduler: str
    place: str
    passes: float  # done when it struck


class Victim:
    """A plan on a small data set, run by processes that are killed."""

    def __init__(self, folder: Path, method: str) -> None:
        self.folder, self.method = folder, method
        self.dataset = make(
            folder / "set", n=30000, d=50, chunk_rows=300, layout="sparse"
        ).folder.url
        (folder / "often.toml").write_text("snapshot_every = 0.05\n")
        self.kills: list[Kill] = []

    def quiet(self) -> Outcome:
        """Train without a kill; the second time takes as long as a run does, compiled."""
        self._finish(self.command(self.folder / "compiles", SCHEDULERS[0]))
        began = time.perf_counter()
        found = self._finish(self.command(self.folder / "quiet", SCHEDULERS[0]))
        self.seconds = time.perf_counter() - began
        return found

    def command(self, run: Path, scheduler: list[str]) -> list[str]:
        """Train into a run's folder, or go on with what is there."""
        streamed = ["--passes", str(PASSES), *scheduler]  # simba makes no passes, in one process
        return [
            FEWPASS, "train", self.dataset, str(run), "--memory", "97MB", "--json",
            "--config", str(self.folder / "often.toml"), *METHODS[self.method],
            *([] if self.method == "simba" else streamed),
        ]  # fmt: skip

    def finish_after(self, kills: int, seed: int = 0) -> list[Outcome]:
        """Kill so many times, or more until every target was hit.

        A run that came to its end is followed by a new one.  Returns what all of them came to,
        the last one resumed quietly.
        """
        chance, targets = random.Random(seed), TARGETS[self.method]
        outcomes, run = [], self.folder / "run0"
        while len(self.kills) < kills or not {None, *self.places()} >= set(targets):
            number = len(self.kills)
            target = targets[number % len(targets)]
            if self._strikes(run, SCHEDULERS[number % len(SCHEDULERS)], target, chance):
                continue
            outcomes.append(said_in(run))
            run = self.folder / f"run{len(outcomes)}"
        resume = [FEWPASS, "resume", str(run), "--json", "--scheduler", "none"]
        return [*outcomes, self._finish(resume)]

    def places(self) -> list[str]:
        """Where kills struck."""
        return [kill.place for kill in self.kills]

    def _strikes(
        self, run: Path, scheduler: list[str], target: str | None, chance: random.Random
    ) -> bool:
        """Start a process and kill it, inside a sweep of the wanted kind; False: it was faster."""
        process = subprocess.Popen(
            self.command(run, scheduler),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_for_start(process, run)
        time.sleep(chance.uniform(0.0, 0.3) * self.seconds)
        while target and process.poll() is None and place_of(run) != target:
            time.sleep(POLL_S)
        process.send_signal(signal.SIGKILL)
        said = process.communicate()[1]
        assert process.returncode in (-signal.SIGKILL, 0), said
        if process.returncode == 0:
            return False
        passes = max((e["passes"] for e in events_of(run)), default=0.0)
        self.kills.append(Kill(" ".join(scheduler) or "threads", place_of(run), passes))
        return True

    def _finish(self, command: list[str]) -> Outcome:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        return Outcome(*(said[name] for name in Outcome._fields))


def wait_for_start(process: subprocess.Popen, run: Path) -> None:
    """Wait until a process has begun to train, or has ended."""
    before = len(events_of(run))
    while process.poll() is None and len(events_of(run)) == before:
        time.sleep(0.02)


def events_of(run: Path) -> list[dict]:
    """What a run's log tells; a line that a kill cut short is passed over."""
    log = run / "log.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def place_of(run: Path) -> str:
    """Which sweep a run is in, as far as its log tells; a walk's last span says `arrived`."""
    events = [e for e in events_of(run) if e["event"] not in ("snapshot", "resume")]
    last = events[-1] if events else {"event": "start"}
    if last["event"] in ("start", "finish"):
        return str(last["event"])
    if last["event"] == "span" and last["arrived"]:
        return "gather"
    certified = any(e["event"] == "certificate" for e in events)
    return "inner walk" if certified else "first pass"


def said_in(run: Path) -> Outcome:
    """What a run that came to its end says in its log."""
    last = events_of(run)[-1]
    return Outcome(*(last[name] for name in Outcome._fields))
