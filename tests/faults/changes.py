"""The cases of data sets that are changed: by two commands at once, and by what names another's."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from fewpass import ingest
from fewpass.storage.dataset import Dataset
from fewpass.storage.seal import seal, unseal
from testing.prefect_server import patience
from tests.faults.families import Case
from tests.faults.sandbox import Sandbox, require_done
from tests.faults.starter import TIMEOUT_S, Ended
from tests.faults.subjects import SUBJECTS, Subject, bytes_below, write_words
from tests.faults.verdict import Verdict, broken, fault_of

# -- two at once -------------------------------------------------------------------------------

_INGEST = SUBJECTS["ingest of words"]
CHANGES = {
    "append": SUBJECTS["append"],
    "forget": SUBJECTS["forget"],
    "ingest": _INGEST._replace(
        name="ingest again", kind="append", begin=(*_INGEST.begin, "--overwrite")
    ),
}
PAIRS = {f"{b} within {a}": (a, b) for a, b in itertools.product(CHANGES, repeat=2)}


def two_changes(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """A change stands still at each of its calls until another one has ended; then it goes on."""
    first, second = (CHANGES[one] for one in PAIRS[name])
    for k in range(1, sandbox.calls(first, "any") + 1):
        yield Case("P2", name, "another change at a call", f"call {k}",
                   lambda k=k: _both(sandbox, first, second, k))  # fmt: skip


def _both(sandbox: Sandbox, first: Subject, second: Subject, k: int) -> Verdict:
    expected = _in_turn(sandbox, first, second)
    sandbox.before(first)
    other: list[Ended] = []

    def meanwhile(pid: int) -> None:
        if _stands_still(pid):
            other.append(sandbox.beside.run([second.command(sandbox.at)], watched=sandbox.at))
            os.kill(pid, signal.SIGCONT)

    fault = {"call": "any", "k": k, "does": "SIGSTOP"}
    ended = [sandbox.run(first.command(sandbox.at), fault, meanwhile=meanwhile), *other]
    for one in ended:
        if wrong := fault_of(one):
            return broken(wrong)
    done = [not one.status for one in ended]
    if not other:
        return Verdict("harmless", struck=False)
    if not any(done):
        return broken(f"neither was done: {ended[0].text} {ended[1].text}")
    refused = " ".join(one.text for one in ended if one.status)
    if refused and "at work in" not in refused and "not finished" not in refused:
        return broken(f"refused for another reason: {refused[-300:]}")
    found = _rows(sandbox.at)
    if found not in [expected[which] for which in expected if set(which) == _which(done)]:
        return broken("other rows than of the two, one after the other")
    return Verdict("refused" if refused else "equal")


def _which(done: list[bool]) -> set[int]:
    return {number for number, one in enumerate(done) if one}


def _stands_still(pid: int) -> bool:
    """Wait until a process is stopped; False where it has ended."""
    until = time.monotonic() + patience(TIMEOUT_S)
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state == "T":
                return True
            if state not in "ZX":
                time.sleep(0.002)
                continue
        return False
    return False


def _in_turn(sandbox: Sandbox, first: Subject, second: Subject) -> dict[tuple[int, ...], object]:
    """Return the rows after one of two changes, and after both in each order."""
    key = f"{first.name} and {second.name}"
    if key not in sandbox.memory:
        found = {}
        for order in ((0,), (1,), (0, 1), (1, 0)):
            sandbox.before(first)
            for one in order:
                require_done(sandbox.run((first, second)[one].command(sandbox.at), here=True))
            found[order] = _rows(sandbox.at)
        sandbox.memory[key] = found
    return sandbox.memory[key]


def _rows(at: Path) -> list[bytes] | str:
    """Return the rows of a data set and of its test rows, sorted; or what is damaged."""
    rows = []
    for name in ("set", "set-test"):
        dataset = Dataset.open(f"{at}/{name}")
        if faults := list(dataset.verify()):
            return faults[0]
        for k in range(dataset.n_chunks):
            retained = dataset.read_retained(k)
            rows += [retained[i].tobytes() for i in range(len(retained))]
    return sorted(rows)


# -- sets that name others ---------------------------------------------------------------------

VICTIMS = ("alone", "pair", "pair-test")
LIES = ("the plan", "the way", "the way and the fingerprint", "all, at its own place")


def sets_that_name_others(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """A data set whose record says that another set, outside, has its test rows."""
    for victim, lie in itertools.product(VICTIMS, LIES):
        yield Case("P8", name, f"its record lies: {lie}", victim,
                   lambda v=victim, w=lie: _named(sandbox, SUBJECTS[name], v, w))  # fmt: skip


def _named(sandbox: Sandbox, subject: Subject, victim: str, lie: str) -> Verdict:
    outside = sandbox.root / "outside-sets"
    if not outside.exists():
        outside.mkdir()
        write_words(outside / "rows.csv")
        how = {"label": "label", "keep": "id"}
        ingest(outside / "rows.csv", outside / "alone", **how)
        ingest(outside / "rows.csv", outside / "pair", test_fraction=0.2, **how)
    before = bytes_below(outside)
    sandbox.before(subject)
    _tell(sandbox.at / "set", outside / victim, lie)
    ended = sandbox.run(subject.command(sandbox.at))
    if wrong := fault_of(ended):
        return broken(wrong)
    if bytes_below(outside) != before:
        return broken("it changed a data set that is another's")
    return Verdict("refused" if ended.status else "harmless")


def _tell(dataset: Path, other: Path, lie: str) -> None:
    """Have the record of a data set name another one."""
    path = dataset / "ingest.json"
    record = unseal(path.read_bytes())
    del record["fingerprint"]
    record["plan"]["test_dataset"] = str(other)
    if "way" in lie or "all" in lie:
        record["pair"]["way"] = os.path.relpath(other, dataset)
    if "fingerprint" in lie or "all" in lie:
        record["pair"]["fingerprint"] = Dataset.open(str(other)).manifest.fingerprint
    if "all" in lie:
        record["pair"]["at"] = str(dataset)
    path.write_bytes(seal(record, allow_nan=True))
