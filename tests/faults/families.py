"""Every case there is: what is done to which command, and how it is evaluated."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from fewpass.storage.snapshot_file import SUFFIX
from tests.faults import damage as damaging
from tests.faults import recorder
from tests.faults.child import CALLS
from tests.faults.damage import Damage
from tests.faults.sandbox import Sandbox, chance, require_done
from tests.faults.starter import Ended
from tests.faults.subjects import SUBJECTS, Subject
from tests.faults.verdict import (
    Verdict,
    broken,
    fault_of,
    healed,
    log_of,
    names,
    same,
)


class Case(NamedTuple):
    """One fault, and how to see what becomes of it.

    Attributes
    ----------
    promise
        Which one is tried.
    subject
        Of what: a command, or what a command left.
    fault
        What is done.
    target
        To which object, or at which point.
    run
        Does it and says what came of it.
    """

    promise: str
    subject: str
    fault: str
    target: str
    run: Callable[[], Verdict]


Family = Callable[[Sandbox, str], Iterator[Case]]

# -- kills -------------------------------------------------------------------------------------

SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT")
INT_AGAIN = 5  # calls between the two interrupts
EXPECTED = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MOMENTS = 12  # at which a signal is sent from outside, per signal


def kills_at_calls(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """KILL, TERM or INT twice, at every call that the command makes below its folder."""
    subject = SUBJECTS[name]
    for k in range(1, sandbox.quiet(subject).events["any"] + 1):
        signal_name = SIGNALS[k % len(SIGNALS)]
        fault = {"call": "any", "k": k, "does": signal_name}
        if signal_name == "SIGINT":
            fault["then"] = INT_AGAIN
        yield Case(
            _promise_of(subject), name, _told(signal_name), f"call {k}",
            lambda fault=fault, k=k: _killed(sandbox, subject, k, fault),
        )  # fmt: skip


def kills_at_moments(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """The same at random moments, whatever the command is doing; and STOP, then CONT."""
    subject = SUBJECTS[name]
    seconds = sandbox.quiet(subject).seconds
    for signal_name in (*SIGNALS, "SIGSTOP"):
        for number in range(MOMENTS):
            after = seconds * (number + chance(number, name, signal_name).random()) / MOMENTS
            moments = ((getattr(signal, signal_name), after),)
            if signal_name == "SIGINT":
                moments += ((signal.SIGINT, 0.01),)
            if signal_name == "SIGSTOP":
                moments += ((signal.SIGCONT, 0.1),)
            yield Case(
                _promise_of(subject), name, _told(signal_name), f"moment {number}",
                lambda m=moments, k=number: _killed(sandbox, subject, k, None, moments=m),
            )  # fmt: skip


def kills_on_dask(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """KILL at random moments of a training on threads, and on two worker processes."""
    subject = SUBJECTS[name]
    sandbox.quiet(subject)
    for where in (
        ("--threads", "2", "--scheduler", "local"), ("--workers", "2", "--threads", "1"),
    ):  # fmt: skip
        command = [w for w in subject.begin if w not in ("--scheduler", "none")]
        elsewhere = subject._replace(begin=(*command, *where))
        for number in range(MOMENTS):
            after = 1.0 + 3.0 * chance(number, name, *where).random()
            moments = ((signal.SIGKILL, after),)
            yield Case(
                "P1", name, f"KILL, {where[0][2:]} of Dask", f"moment {number}",
                lambda s=elsewhere, m=moments, k=number: _killed(
                    sandbox, s, k, {"trusted": True}, moments=m, timeout_s=90.0
                ),
            )  # fmt: skip


def _promise_of(subject: Subject) -> str:
    return "P1" if subject.kind == "training" else "P2"


def _told(signal_name: str) -> str:
    return {"SIGINT": "INT twice", "SIGSTOP": "STOP and CONT"}.get(signal_name, signal_name[3:])


def _killed(sandbox: Sandbox, subject: Subject, number: int, fault: dict | None, **more) -> Verdict:
    """Strike, look at what is left, go on, compare."""
    quiet = sandbox.quiet(subject).bits
    sandbox.before(subject)
    ended = sandbox.run(subject.command(sandbox.at), fault, **more)
    if wrong := fault_of(ended, *EXPECTED):
        return broken(wrong)
    if ended.status == 0:
        return same(subject, sandbox.at, ended.commands[-1], quiet)._replace(
            struck="SIGCONT" in str(more)
        )
    if lie := _incomplete_is_no_data_set(sandbox, subject, quiet):
        return broken(lie)
    kept = _snapshots(sandbox.at / "run")
    resume = number % 2 == 1 and (sandbox.at / "run" / "run.json").exists()
    then = {"trusted": True} if fault and "trusted" in fault else None
    ended = sandbox.run(subject.command(sandbox.at, resume=resume), then, timeout_s=90.0)
    found = healed(subject, sandbox.at, ended, quiet)
    if found.how == "equal" and kept and (lost := _lost(sandbox.at / "run", kept[-1])):
        return broken(lost)
    return found


def _incomplete_is_no_data_set(sandbox: Sandbox, subject: Subject, quiet: dict) -> str | None:
    """What an interrupted ingest leaves is refused, or whole; what a change leaves is whole."""
    if subject.kind not in ("ingest", "append", "forget"):
        return None
    ended = sandbox.run(["check", f"{sandbox.at}/set"])
    if wrong := fault_of(ended):
        return wrong
    if subject.kind != "ingest":
        test = sandbox.run(["check", f"{sandbox.at}/set-test"])
        whole = ended.status == test.status == 0
        return None if whole else "an interrupted change left a damaged data set"
    if (
        ended.status == 0
        and subject.bits(sandbox.at, "")["set/manifest.json"] != quiet["set/manifest.json"]
    ):
        return "what an interrupted ingest left looks complete and is not"
    return None


def _snapshots(run: Path) -> list[str]:
    return sorted(path.stem for path in run.glob("snapshots/*.safetensors"))


def _lost(run: Path, newest: str) -> str | None:
    """Say where a run did not go on from its newest snapshot."""
    went_on = [e["snapshot"] for e in log_of(run) if e["event"] == "resume"]
    if went_on and went_on[-1] != newest:
        return f"it went on from snapshot {went_on[-1]}, though {newest} was whole"
    return None


# -- calls that fail ---------------------------------------------------------------------------

ERRORS = {
    "open": ("EACCES", "EIO", "ENOSPC"),
    "write": ("ENOSPC", "EIO"),
    "fsync": ("EIO", "ENOSPC"),
    "rename": ("EIO", "EACCES", "ENOSPC"),
    "remove": ("EACCES", "EIO"),
    "mkdir": ("ENOSPC", "EACCES", "EIO"),
}


def failing_calls(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """Every call of every kind fails once, with the errors of its kind in turn."""
    subject = SUBJECTS[name]
    for call in CALLS:
        for k in range(1, sandbox.calls(subject, call) + 1):
            error = ERRORS[call][k % len(ERRORS[call])]
            fault = {"call": call, "k": k, "does": error}
            yield Case(
                "P3", name, f"{call} fails", f"{call} {k}: {error}",
                lambda fault=fault: _failed(sandbox, subject, fault),
            )  # fmt: skip


def _failed(sandbox: Sandbox, subject: Subject, fault: dict) -> Verdict:
    quiet = sandbox.quiet(subject).bits
    sandbox.before(subject)
    ended = sandbox.run(subject.command(sandbox.at), fault)
    if wrong := fault_of(ended):
        return broken(wrong)
    if ended.status == 0:
        struck = ended.events >= fault["k"]
        return same(subject, sandbox.at, ended.commands[-1], quiet)._replace(struck=struck)
    if str(sandbox.at) not in "".join(ended.text.split()):
        return broken(f"it does not say where: {ended.text.strip()[-300:]}")
    return healed(subject, sandbox.at, sandbox.run(subject.command(sandbox.at)), quiet)


# -- power cuts --------------------------------------------------------------------------------


def power_cuts(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """The power goes at every call; what was not fsynced is gone, or there by chance."""
    subject = SUBJECTS[name]
    for k in range(1, sandbox.quiet(subject).events["any"] + 1):
        for seed in (None, k):
            fault = "all unsynced is lost" if seed is None else "some unsynced is lost"
            yield Case(
                "P4", name, fault, f"call {k}", lambda k=k, s=seed: _cut(sandbox, subject, k, s)
            )


def _cut(sandbox: Sandbox, subject: Subject, k: int, seed: int | None) -> Verdict:
    quiet = sandbox.quiet(subject).bits
    sandbox.before(subject)
    place = sandbox.root / f"disk {time.monotonic_ns()}"
    fault = {"call": "any", "k": k, "does": "SIGKILL", "record": str(place)}
    ended = sandbox.run(subject.command(sandbox.at), fault)
    if wrong := fault_of(ended, signal.SIGKILL):
        return broken(wrong)
    struck = ended.status != 0  # otherwise the power goes after the end: that must be durable
    recorder.cut(sandbox.at, place, seed)
    recorder.forget(place)
    return healed(subject, sandbox.at, sandbox.run(subject.command(sandbox.at)), quiet)._replace(
        struck=struck
    )


# -- damaged objects ---------------------------------------------------------------------------


class Stored(NamedTuple):
    """Something stored whose objects are damaged, and the commands that read it.

    Attributes
    ----------
    restore
        Restores it and returns the name it is kept by; with seed 1 the older version of it.
    parts
        Of the folder: where its objects are.
    checked
        What `fewpass check` is asked about; None where it does not look.
    subject
        The command that reads it, with the bits that it must come to.
    unsealed
        Ends of keys that `check` need not name: nothing is computed from them.
    """

    restore: Callable[[Sandbox, int], str]
    parts: tuple[str, ...]
    checked: str | None
    subject: Subject
    unsealed: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()


FREE = ("log.jsonl", "lease.json", "ingest.json")


def _after(ingest: str) -> Subject:
    """A training on what an ingest made; the wide set takes a little more memory."""
    asgd = SUBJECTS["asgd"]
    begin = tuple("99MB" if word == "96.1MB" else word for word in asgd.begin)
    return asgd._replace(name=f"asgd after {ingest}", kind="training on", begin=begin)


def _finished(name: str) -> Callable[[Sandbox, int], str]:
    return lambda sandbox, seed: sandbox.finished(SUBJECTS[name], seed)


def _killed_at(name: str, share: float) -> Callable[[Sandbox, int], str]:
    return lambda sandbox, seed: sandbox.killed(SUBJECTS[name], share, seed)


def _mapped(name: str) -> Callable[[Sandbox, int], str]:
    return lambda sandbox, seed: sandbox.mapped(SUBJECTS[name], seed)


def _copied(data: str) -> Callable[[Sandbox, int], str]:
    return lambda sandbox, seed: sandbox.finished(
        SUBJECTS["columns"]._replace(name=f"columns of {data}", data=data), seed
    )


def _stored() -> dict[str, Stored]:
    found = {}
    for name in ("ingest of text", "ingest of a table"):
        found[f"data set: {name}"] = Stored(
            _finished(name), ("set",), "set", _after(name), ("ingest.json",),
        )  # fmt: skip
        found[f"rows of an {name}"] = Stored(_mapped(name), ("set",), None, SUBJECTS[name])
    found["rows of an ingest wide"] = Stored(
        _mapped("ingest wide"), ("set",), None, SUBJECTS["ingest wide"]
    )
    for data, simba in (("sparse", "simba, sparse"), ("dense", "simba")):
        found[f"column copy: {data}"] = Stored(
            _copied(data), ("set/by-column",), "set", SUBJECTS[simba]
        )
    for name, subject in SUBJECTS.items():
        if subject.kind == "training":
            found[f"run: {name}"] = Stored(_finished(name), ("run",), "run", subject, FREE)
            found[f"killed run: {name}"] = Stored(
                _killed_at(name, 0.8), ("run",), "run", subject, (*FREE, ".partial"), (".partial",)
            )
    return found


STORED = _stored()


def damaged_objects(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """Every kind of damage to every object of something stored."""
    stored = STORED[name]
    older = sandbox.kept(stored.restore(sandbox, 1))
    now = sandbox.kept(stored.restore(sandbox, 0))
    keys = damaging.objects(now, *stored.parts, skip=stored.skip)
    for one in damaging.damages(now, older, keys):
        yield Case(
            "P5", name, one.kind, one.key,
            lambda one=one: _damaged(sandbox, stored, one, older),
        )  # fmt: skip


def _damaged(sandbox: Sandbox, stored: Stored, one: Damage, older: Path) -> Verdict:
    quiet = _bits_of(sandbox, stored)
    stored.restore(sandbox, 0)
    damaging.inflict(sandbox.at, older, one, chance(0, one))
    commands = [["check", "--free", f"{sandbox.at}/{stored.checked}"]] if stored.checked else []
    if one.key.endswith("log.jsonl"):
        commands.append(["report", f"{sandbox.at}/run"])
    commands.append(stored.subject.command(sandbox.at))
    ended = sandbox.starter.run(commands, watched=sandbox.at)
    if wrong := fault_of(ended):
        return broken(wrong)
    keys = (one.key, one.other)
    last = ended.commands[-1]
    if last.status != 0 and not names(last.err, keys):
        return broken(f"refused, but not by name: {last.err.strip()[-300:]}")
    found = Verdict("named")
    if last.status == 0:
        found = same(stored.subject, sandbox.at, last, quiet)
    if found.how != "broken" and stored.checked and not one.key.endswith(stored.unsealed or "\0"):
        return _verified(ended, one, found)
    return found


def _verified(ended: Ended, one: Damage, found: Verdict) -> Verdict:
    """`check` names what it reads.

    Numbers per row that no snapshot needs are nobody's, without its manifest a copy is one that was
    never finished, and a snapshot without its file never was.
    """
    said = ended.commands[0]
    if said.status != 0 and names(f"{said.out} {said.err}", (one.key, one.other)):
        return found
    if said.status != 0:
        return broken(f"check does not name it: {said.out} {said.err}")
    unfinished = one.kind == "deleted" and one.key.endswith(("manifest.json", SUFFIX))
    if found.how == "equal" and (unfinished or "/rows/" in one.key):
        return found
    return broken(f"check says: {said.out.strip()}")


def _bits_of(sandbox: Sandbox, stored: Stored) -> dict:
    """What the reading command comes to with nothing damaged."""
    name = f"bits of {stored.subject.name}"
    if stored.subject.name in SUBJECTS:
        return sandbox.quiet(stored.subject).bits
    if name not in sandbox.memory:
        stored.restore(sandbox, 0)
        ended = sandbox.run(stored.subject.command(sandbox.at), here=True, timeout_s=900.0)
        require_done(ended)
        sandbox.memory[name] = stored.subject.bits(sandbox.at, ended.commands[-1].out)
    return sandbox.memory[name]
