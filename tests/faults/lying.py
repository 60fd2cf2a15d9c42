"""The cases of documents that lie: which ones, and the commands that read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from fewpass.storage.snapshot_file import METADATA
from tests.faults import hostile, truth
from tests.faults.families import STORED, Case, Stored, _bits_of
from tests.faults.hostile import Lie
from tests.faults.sandbox import Sandbox
from tests.faults.starter import Ended, Said
from tests.faults.subjects import SUBJECTS, Subject
from tests.faults.verdict import Verdict, broken, fault_of, same


class Document(NamedTuple):
    """A document of something stored, and the commands that read it before the last one does."""

    stored: Stored
    path: str  # a glob: the last of what it finds
    looks: tuple[tuple[str, ...], ...] = ()
    unread: tuple[str, ...] = ()  # members for people: nothing is computed from them


def _store(sandbox: Sandbox, seed: int) -> str:
    return sandbox.finished(SUBJECTS["refresh"], seed)


REFRESH = SUBJECTS["refresh"]
STORE = Stored(_store, ("store",), None, REFRESH)
REFUSES = SUBJECTS["refresh that refuses"]
STORE_THAT_REFUSED = Stored(
    lambda sandbox, seed: sandbox.finished(REFUSES, seed), ("store",), None, REFUSES
)
RUN = (("inspect", "{at}/run"), ("check", "--free", "{at}/run"), ("report", "{at}/run"),
       ("evaluate", "{at}/run", "{at}/set", "--scheduler", "none"))  # fmt: skip
SET = (("inspect", "{at}/set"), ("check", "{at}/set"))

DOCUMENTS = {
    "manifest of a sparse set": Document(
        STORED["data set: ingest of text"], "set/manifest.json", SET
    ),
    "manifest of a dense set": Document(
        STORED["data set: ingest of a table"], "set/manifest.json", SET
    ),
    "manifest of a column copy": Document(
        STORED["column copy: sparse"], "set/by-column/manifest.json", SET
    ),
    "record of a run": Document(STORED["killed run: sdca"], "run/run.json", RUN),
    "header of a snapshot": Document(
        STORED["killed run: sdca"], "run/snapshots/*.safetensors", RUN
    ),
    "lease": Document(STORED["killed run: sdca"], "run/lease.json"),
    "marker of an ingest": Document(
        Stored(STORED["rows of an ingest of text"].restore, (), None, SUBJECTS["ingest of text"]),
        "set/ingest.json",
    ),
    "record of rows that were read": Document(
        STORED["rows of an ingest of text"], "set/.ingest/mapped.json"
    ),
    "publication": Document(STORE, "store/events/000003.json", (
        ("evaluate", "{at}/store", "{at}/store/generations/000001/data", "--scheduler", "none"),
    ), ("objective", "certificate", "at", "by", "why", "converged", "rows", "window")),
    "file that was refused": Document(
        STORE_THAT_REFUSED, "store/events/000002.json", (("store", "list", "{at}/store"),),
        ("why", "at", "by"),
    ),
    "files of a refresh": Document(STORE, "store/events/000001.json", (), ("at", "by")),
}  # fmt: skip
ATTRIBUTES = ("asgd", "s2gd+", "sdca", "a grid of lam", "newton", "simba, sparse", "psdca",
              "onepass", "streaming newton")  # fmt: skip


def lying_documents(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """Every value of a document replaced, and the document sealed anew."""
    document = DOCUMENTS[name]
    document.stored.restore(sandbox, 0)
    path = _found(sandbox, document.path)
    if path is None:
        return
    content, _ = hostile.read(path)
    for lie in hostile.lies(content):
        if lie.where.rpartition("\t")[2] in document.unread:
            continue
        yield Case(
            "P7", name, lie.what, lie.where.replace("\t", "/"),
            lambda lie=lie: _lied(sandbox, document.stored, document.looks, lie, lambda: _lie(
                sandbox, document, lie
            )),
        )  # fmt: skip


def _lie(sandbox: Sandbox, document: Document, lie: Lie) -> None:
    path = _found(sandbox, document.path)
    assert path is not None, "it was there before"
    content, sealed = hostile.read(path)
    hostile.write(path, hostile.told(content, lie), sealed=sealed)


def lying_attributes(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """Every number that a snapshot keeps beside its arrays replaced."""
    stored = STORED[f"killed run: {name}"]
    stored.restore(sandbox, 0)
    for lie in hostile.lies(hostile.attributes_of(_newest(sandbox))):
        yield Case(
            "P7", f"numbers of a snapshot: {name}", lie.what, lie.where.replace("\t", "/"),
            lambda lie=lie: _lied(sandbox, stored, RUN, lie, lambda: hostile.change_attributes(
                _newest(sandbox), lie
            )),
        )  # fmt: skip


def lying_arrays(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """Every array of a snapshot of another shape, of another type, not finite, or left out."""
    stored = STORED[f"killed run: {name}"]
    stored.restore(sandbox, 0)
    header, _ = hostile.read(_newest(sandbox))
    for array in sorted(header.keys() - {METADATA}):
        for what in (*hostile.SHAPES, None):
            lie = Lie(array, what or "left out", what not in hostile.NOT_FINITE)
            yield Case(
                "P7", f"arrays of a snapshot: {name}", lie.what, array,
                lambda lie=lie, what=what: _lied(
                    sandbox, stored, RUN, lie,
                    lambda: hostile.change_array(sandbox.at / "run", lie.where, what),
                ),
            )  # fmt: skip


def _found(sandbox: Sandbox, pattern: str) -> Path | None:
    return max(sandbox.at.glob(pattern), default=None)


def _newest(sandbox: Sandbox) -> Path:
    return max(sandbox.at.glob("run/snapshots/*.safetensors"))


def _lied(
    sandbox: Sandbox,
    stored: Stored,
    looks: tuple[tuple[str, ...], ...],
    lie: Lie,
    tell: Callable[[], None],
) -> Verdict:
    """Every command that reads the lie refuses it with a sentence, or comes to no harm."""
    quiet = _bits_of(sandbox, stored)
    stored.restore(sandbox, 0)
    commands = [[word.format(at=sandbox.at) for word in look] for look in looks]
    if looks and f"looks at {stored.subject.name}" not in sandbox.memory:
        sandbox.starter.run(commands, watched=sandbox.at, here=True, timeout_s=300.0)  # compiles
        sandbox.memory[f"looks at {stored.subject.name}"] = True
        stored.restore(sandbox, 0)
    tell()
    commands.append(stored.subject.command(sandbox.at))
    ended = sandbox.starter.run(commands, watched=sandbox.at)
    if wrong := fault_of(ended) or _raw_escape(ended):
        return broken(wrong)
    for said in ended.commands:
        if said.status != 0 and not _is_sentence(said):
            return broken(f"refused without a sentence: {said.err.strip()[-300:]!r}")
    last = ended.commands[-1]
    if last.status != 0:
        return Verdict("refused")
    found = _equal(stored.subject, sandbox, last, quiet)
    if found.how == "broken" and not lie.impossible:
        return _certified(stored.subject, sandbox, last, lie)
    return found


def _certified(subject: Subject, sandbox: Sandbox, said: Said, lie: Lie) -> Verdict:
    """Numbers that are none must not be certified; other ones were as good as those before."""
    if lie.what not in hostile.NOT_FINITE:
        return Verdict("harmless")
    bits = subject.bits(sandbox.at, said.out)
    if bits["certificate"] is None or not (false := truth.disagreement(subject, sandbox.at, bits)):
        return Verdict("harmless")
    return broken(f"a false certificate: {false}")


def _equal(subject: Subject, sandbox: Sandbox, said: Said, quiet: dict) -> Verdict:
    try:
        return same(subject, sandbox.at, said, quiet)
    except (OSError, ValueError, KeyError) as error:
        return broken(f"believed, and then {error!r}")


def _is_sentence(said: Said) -> bool:
    text = said.err.strip() or said.out.strip()
    return len(text.split()) > 3 and text.endswith((".", ")")) and "Error:" not in text


def _raw_escape(ended: Ended) -> str | None:
    raw = "\x1b]0;" in ended.text
    return f"wrote a terminal's control characters: {ended.text[-200:]!r}" if raw else None
