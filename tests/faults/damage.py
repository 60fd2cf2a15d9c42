"""What happens to stored bytes: every kind of damage to one object."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

KINDS = ("a bit", "a cut", "deleted", "exchanged", "an older version")


class Damage(NamedTuple):
    """One kind of damage to one object, and what to call the objects it touches."""

    kind: str
    key: str
    other: str | None  # the object that it was exchanged with


def objects(folder: Path, *parts: str, skip: tuple[str, ...] = ()) -> list[str]:
    """Return the keys of all files of the parts of a folder."""
    found = []
    for part in parts:
        path = folder / part
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        found += [str(p.relative_to(folder)) for p in files]
    return [key for key in found if not any(s in key for s in skip)]


def damages(folder: Path, older: Path | None, keys: list[str]) -> Iterator[Damage]:
    """Yield every damage there is to objects; an older version must differ from the present."""
    for number, key in enumerate(keys):
        for kind in KINDS[:3]:
            yield Damage(kind, key, None)
        if (neighbour := _neighbour(folder, keys, number)) is not None:
            yield Damage(KINDS[3], key, neighbour)
        if older is not None and _differs(folder / key, older / key):
            yield Damage(KINDS[4], key, None)


def inflict(folder: Path, older: Path | None, damage: Damage, chance: random.Random) -> None:
    """Do it."""
    path = folder / damage.key
    content = path.read_bytes()
    if damage.kind == "a bit":
        at, bit = (chance.randrange(len(content)), chance.randrange(8)) if content else (0, 0)
        changed = bytearray(content or b"\0")
        changed[at] ^= 1 << bit
        path.write_bytes(changed)
    elif damage.kind == "a cut":
        path.write_bytes(content[: chance.randrange(len(content))] if content else b"\0")
    elif damage.kind == "deleted":
        path.unlink()
    elif damage.kind == "exchanged":
        assert damage.other is not None, "an exchange has two sides"
        other = folder / damage.other
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    else:
        assert older is not None, "there is an older version"
        path.write_bytes((older / damage.key).read_bytes())


def _neighbour(folder: Path, keys: list[str], number: int) -> str | None:
    """Return the object most like this one, if its bytes are others."""
    key, content = keys[number], (folder / keys[number]).read_bytes()
    others = [k for k in keys if k != key and (folder / k).read_bytes() != content]
    return max(others, key=lambda k: _likeness(key, k), default=None)


def _likeness(key: str, other: str) -> tuple[bool, int, int]:
    """More for the same place of another chunk, version or snapshot; then for a long common end."""
    same_depth = key.count("/") == other.count("/")
    equal = sum(a == b for a, b in zip(key.split("/"), other.split("/"), strict=False))
    return same_depth, equal, -abs(len(key) - len(other))


def _differs(path: Path, older: Path) -> bool:
    return older.is_file() and older.read_bytes() != path.read_bytes()
