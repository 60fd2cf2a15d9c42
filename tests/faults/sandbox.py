"""Folders as commands leave them, always at the same address, and the bits of a quiet run."""

from __future__ import annotations

import random
import shutil
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.starter import Ended, Starter
from tests.faults.subjects import DATA, FIRST, SUBJECTS, Bits, Subject


class Quiet(NamedTuple):
    """A command without a fault."""

    bits: Bits
    seconds: float
    events: dict[str, int]  # by kind of call, and "any"


class Sandbox:
    """One starter, and one folder in which every case happens.

    Parameters
    ----------
    root
        A folder of its own.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.at = root, root / "at"
        self._kept = root / "kept"
        self._kept.mkdir(parents=True)
        self._quiet: dict[str, Quiet] = {}
        self.memory: dict[str, Any] = {}  # what families found out once

    @cached_property
    def starter(self) -> Starter:
        """The process that forks."""
        return Starter(self.root / "starter")

    @cached_property
    def beside(self) -> Starter:
        """Another one, for what happens while a child of the first stands still."""
        return Starter(self.root / "beside")

    def close(self) -> None:
        """End the starters and remove everything."""
        for name in ("starter", "beside"):
            if name in self.__dict__:
                getattr(self, name).close()
        shutil.rmtree(self.root)

    # -- folders -------------------------------------------------------------------------------

    def restore(self, name: str) -> Path:
        """Make the folder of cases what was kept by that name."""
        shutil.rmtree(self.at, ignore_errors=True)
        shutil.copytree(self._kept / name, self.at, symlinks=True)
        return self.at

    def keep(self, name: str) -> None:
        """Keep the folder of cases as it is now."""
        shutil.copytree(self.at, self._kept / name, symlinks=True)

    def has(self, name: str) -> bool:
        """Whether something was kept by that name."""
        return (self._kept / name).exists()

    def kept(self, name: str) -> Path:
        """Where it is kept."""
        return self._kept / name

    def before(self, subject: Subject) -> str:
        """Restore what a subject's command finds; return the name it is kept by."""
        first = FIRST.get(subject.kind, ())
        name = " and ".join(["data", subject.data, *first])
        if not self.has(name):
            shutil.rmtree(self.at, ignore_errors=True)
            self.at.mkdir()
            DATA[subject.data](self.at)
            for command in (SUBJECTS[one].command(self.at) for one in first):
                require_done(self.run(command, here=True, timeout_s=900.0))
            self.keep(name)
        self.restore(name)
        return name

    def finished(self, subject: Subject, seed: int = 0) -> str:
        """Restore what a subject's command leaves; return the name it is kept by."""
        name = f"finished {subject.name} {seed}"
        if not self.has(name):
            self.before(subject)
            command = subject.command(self.at, seed=seed)
            require_done(self.run(command, here=True, timeout_s=900.0))
            self.keep(name)
        self.restore(name)
        return name

    def killed(self, subject: Subject, share: float, seed: int = 0) -> str:
        """Restore what a kill leaves at a share of a command's calls; return its name."""
        name = f"killed {subject.name} {share} {seed}"
        if not self.has(name):
            events = self.quiet(subject).events["any"]
            self.before(subject)
            fault = {"call": "any", "k": max(1, round(share * events)), "does": "SIGKILL"}
            self.run(subject.command(self.at, seed=seed), fault)
            self.keep(name)
        self.restore(name)
        return name

    def mapped(self, subject: Subject, seed: int = 0) -> str:
        """Restore what a kill leaves of an ingest that has just read all rows; return its name."""
        name = f"mapped {subject.name} {seed}"
        if not self.has(name):
            self.before(subject)
            fault = {
                "call": "any",
                "k": 1,
                "does": "SIGKILL",
                "after": "set/.ingest/mapped.json",
            }
            self.run(subject.command(self.at, seed=seed), fault)
            self.keep(name)
        self.restore(name)
        return name

    # -- runs ----------------------------------------------------------------------------------

    def run(self, command: list[str], fault: dict[str, Any] | None = None, **more: Any) -> Ended:
        """Run one command in the folder of cases."""
        return self.starter.run([command], fault, watched=self.at, **more)

    def quiet(self, subject: Subject) -> Quiet:
        """Return what a subject comes to without a fault; its kernels are compiled after it."""
        if subject.name not in self._quiet:
            self.before(subject)
            require_done(self.run(subject.command(self.at), here=True, timeout_s=900.0))
            self.before(subject)
            ended = self.run(subject.command(self.at), {"call": "any"})
            require_done(ended)
            bits, name = subject.bits(self.at, ended.commands[0].out), f"finished {subject.name} 0"
            if not self.has(name):
                self.keep(name)
            events = {"any": ended.events}
            self._quiet[subject.name] = Quiet(bits, ended.seconds, events)
        return self._quiet[subject.name]

    def calls(self, subject: Subject, call: str) -> int:
        """Count a quiet command's calls of one kind."""
        quiet = self.quiet(subject)
        if call not in quiet.events:
            self.before(subject)
            ended = self.run(subject.command(self.at), {"call": call})
            require_done(ended)
            quiet.events[call] = ended.events
        return quiet.events[call]


def require_done(ended: Ended) -> None:
    """Raise where a command without a fault failed: then nothing can be said of faults."""
    if ended.status != 0:
        raise RuntimeError(f"A quiet command ended with {ended.status}: {ended.text}")


def chance(seed: int, *names: object) -> random.Random:
    """Return random numbers that depend on a seed and on names, not on what was drawn before."""
    return random.Random(" ".join(map(str, (seed, *names))))
