"""What counts as kept, and what as broken."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal, NamedTuple

from tests.faults import truth
from tests.faults.starter import MOST_MEMORY, Ended, Said
from tests.faults.subjects import Bits, Subject

How = Literal["equal", "named", "refused", "harmless", "broken"]

UNEXPECTED = ("This should not have happened", "Traceback (most recent call last)")


class Verdict(NamedTuple):
    """What became of one case.

    Attributes
    ----------
    how
        equal: the same bits in the end.  named: the damaged object was named.  refused: a document
        was refused with a sentence.  harmless: nothing was to be seen.  broken: a promise was.
    why
        Of a broken one: what was seen.
    struck
        Whether the fault came to pass; a command may have ended before.
    certificates
        How many were compared with the optimum.
    figure
        What was measured, where something is: megabytes at the peak, beyond the libraries.
    """

    how: How
    why: str = ""
    struck: bool = True
    certificates: int = 0
    figure: int | None = None


def broken(why: str) -> Verdict:
    """A promise was broken."""
    return Verdict("broken", why[:600])


def fault_of(ended: Ended, *signals: int) -> str | None:
    """Say what no process may do, whatever was done to it; None when it did none of that."""
    if ended.timed_out:
        return f"hung for {ended.seconds:.0f} s after {_last(ended)}"
    if ended.status < 0 and -ended.status not in signals:
        return f"ended by {signal.Signals(-ended.status).name} after {_last(ended)}"
    if ended.breaches:
        return f"did {ended.breaches[0]}"
    if ended.memory > MOST_MEMORY:
        return f"took {ended.memory >> 20} MB"
    for said in ended.commands:
        for words in UNEXPECTED:
            if words in said.err:
                return f"unexpected: {said.err.strip()[-400:]}"
    return None


def healed(subject: Subject, at: Path, ended: Ended, quiet: Bits) -> Verdict:
    """Say whether the last command ended with the bits of a quiet run, and its certificate holds."""
    if wrong := fault_of(ended):
        return broken(wrong)
    said = ended.commands[-1]
    if said.status != 0:
        return broken(f"not healed, exit {said.status}: {said.err.strip()[-400:]}")
    return same(subject, at, said, quiet)


def same(subject: Subject, at: Path, said: Said, quiet: Bits) -> Verdict:
    """Compare what a finished command left with what a quiet one leaves."""
    bits = subject.bits(at, said.out)
    if bits != quiet:
        other = [name for name in quiet.keys() | bits.keys() if quiet.get(name) != bits.get(name)]
        return broken(f"other bits than a quiet run: {sorted(other)[:4]}")
    if subject.kind != "training" or bits["certificate"] is None:
        return Verdict("equal")
    if false := truth.disagreement(subject, at, bits):
        return broken(f"a false certificate: {false}")
    return Verdict("equal", certificates=1)


def names(text: str, keys: Collection[str | None]) -> bool:
    """Whether a text names one of some objects: by its key, or by its snapshot's or chunk's."""
    flat = " ".join(text.split())
    return any(key is not None and _is_named(flat, key) for key in keys)


def _is_named(text: str, key: str) -> bool:
    folder, _, name = key.rpartition("/")
    missing = name == "manifest.json" and f"/{folder} " in text and name in text
    return missing or any(each in text for each in _names(key))


def _names(key: str) -> list[str]:
    parts = key.split("/")
    found = [key, "/".join(parts[-3:])]
    found += [f"hunk {int(part)} of" for part in parts[-2:] if part.isdecimal()]
    return found


def _last(ended: Ended) -> str:
    return f"{len(ended.commands)} commands, {ended.seconds:.1f} s"


def log_of(run: Path) -> list[dict]:
    """What a run's log tells; lines that are not whole are passed over."""
    found = []
    path = run / "log.jsonl"
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


Check = Callable[[Ended], Verdict]
