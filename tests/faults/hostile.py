"""Documents that lie: every number, text and list of a document replaced, and sealed anew.

A seal is no signature: whoever knows the format can seal what he likes.  So what a document says
must be believed only as far as nothing can crash, hang or be filled by it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fewpass.storage.seal import MEMBER
from fewpass.storage.snapshot_file import METADATA, SUFFIX

TAIL_BYTES = len(MEMBER) + 64 + len('"}\n')  # that a sealed document ends with
DEEP = 50_000  # brackets in each other

#: What stands in for a value, and whether it can be believed of no value at all.
VALUES: dict[str, tuple[Any, bool]] = {
    "-1": (-1, False),
    "0": (0, False),
    "2^62": (1 << 62, False),
    "1e300": (1e300, False),
    "NaN": (float("nan"), True),
    "Infinity": (float("inf"), True),
    "text": ("../../outside\x1b]0;x\x07", False),
    "nothing": (None, False),
    "a list": ([[]], True),
    "an object": ({"a": {}}, True),
}
#: Whole documents in place of one.
DOCUMENTS: dict[str, bytes] = {
    "no bytes": b"",
    "a number": b"1\n",
    "a list": b"[]\n",
    "an empty object": b"{}\n",
    "not UTF-8": b"\xff\xfe{}\n",
    "brackets in each other": b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}\n",
    "16 MB of spaces": b" " * (16 << 20) + b"{}\n",
}


class Lie(NamedTuple):
    """One change to a document."""

    where: str
    what: str
    impossible: bool  # whatever stood there: it must not be believed


def lies(document: Any) -> Iterator[Lie]:
    """Yield every lie about a document: each value replaced, each member left out."""
    for where, value in leaves(document):
        for what, (lie, impossible) in VALUES.items():
            if lie != value:
                yield Lie(where, what, impossible and not isinstance(value, str))
        yield Lie(where, "left out", impossible=False)
    for what in DOCUMENTS:
        yield Lie("", what, impossible=True)


def leaves(document: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the place of every value: of long lists the first and the last alone."""
    inner: list[tuple[str, Any]] = []
    if isinstance(document, dict):
        inner = [(key, value) for key, value in document.items() if key != "fingerprint" or at]
    elif isinstance(document, list):
        ends = sorted({0, len(document) - 1}) if document else []
        inner = [(str(i), document[i]) for i in ends]
    for key, value in inner:
        yield f"{at}\t{key}", value
        yield from leaves(value, f"{at}\t{key}")


def told(document: Any, lie: Lie) -> bytes:
    """Return the document with the lie in it, not sealed."""
    if not lie.where:
        return DOCUMENTS[lie.what]
    changed = json.loads(json.dumps(document))
    *parts, last = lie.where.split("\t")[1:]
    at = changed
    for part in parts:
        at = at[int(part)] if isinstance(at, list) else at[part]
    key: Any = int(last) if isinstance(at, list) else last
    if lie.what == "left out":
        del at[key]
    else:
        at[key] = VALUES[lie.what][0]
    return json.dumps(changed, separators=(",", ":")).encode()


def read(path: Path) -> tuple[Any, bool]:
    """Return a document, or the header of a file of arrays, and whether it is sealed."""
    raw = path.read_bytes()
    if path.suffix == SUFFIX:
        header = json.loads(raw[8 : _first_array(raw)])
        del header[METADATA]["fingerprint"]
        return header, True
    document = json.loads(raw)
    sealed = raw[-TAIL_BYTES:].startswith(MEMBER)
    if sealed:
        del document["fingerprint"]
    return document, sealed


def write(path: Path, text: bytes, *, sealed: bool) -> None:
    """Write a document, sealed as an attacker can."""
    end = b"}}" if path.suffix == SUFFIX else b"}"
    if sealed and text.endswith(end) and len(text) > len("{}"):
        digest = hashlib.sha256(text).hexdigest().encode()
        text = text[: -len(end)] + MEMBER + digest + b'"' + end + b"\n"
    if path.suffix == SUFFIX:
        raw = path.read_bytes()
        text = len(text).to_bytes(8, "little") + text + raw[_first_array(raw) :]
    path.write_bytes(text)


def _first_array(raw: bytes) -> int:
    return 8 + int.from_bytes(raw[:8], "little")


def attributes_of(snapshot: Path) -> Any:
    """Return a snapshot's attributes."""
    return json.loads(read(snapshot)[0][METADATA]["attributes"])


def change_attributes(snapshot: Path, lie: Lie) -> None:
    """Lie in a snapshot's attributes; its header has the lie."""
    header, _ = read(snapshot)
    changed = told(attributes_of(snapshot), lie)
    header[METADATA]["attributes"] = changed.decode("utf-8", "surrogateescape")
    write(snapshot, json.dumps(header, separators=(",", ":")).encode(), sealed=True)


SHAPES = {
    "one item less": lambda a: a.reshape(-1)[:-1] if a.ndim < 2 else a[:-1],
    "one item more": lambda a: np.concatenate([np.atleast_1d(a), np.atleast_1d(a)[-1:]]),
    "empty": lambda a: a.reshape(-1)[:0],
    "another dimension": lambda a: a[None],
    "a number": lambda a: np.float64(0.0),
    "whole numbers": lambda a: np.zeros(a.shape, np.int32),
    "NaN": lambda a: np.full(a.shape, np.nan),
    "infinite": lambda a: np.full(a.shape, np.inf),
}


#: Those that another computation might have come to: no reason to refuse them, but to certify.
NOT_FINITE = ("NaN", "infinite")


def change_array(run: Path, name: str, what: str | None) -> None:
    """Save the newest snapshot once more, one array of another shape or left out."""
    from fewpass.storage.folder import Folder
    from fewpass.storage.snapshot import SnapshotStore

    store = SnapshotStore(Folder(str(run / "snapshots")))
    snapshot, _ = store.latest()
    assert snapshot is not None, "the run has snapshots"
    arrays = dict(snapshot.arrays)
    if what is None:
        del arrays[name]
    else:
        arrays[name] = SHAPES[what](arrays[name])
    store.save(snapshot.attributes, arrays)
