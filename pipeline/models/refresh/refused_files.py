"""Refused files: each recorded with the reason, and tried again once it has changed.

    STORE/refused/0123456789abcdef.json   one file, under a digest of its address

The files themselves are not changed.  A damaged record is ignored: its file is tried again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import NamedTuple

from pydantic import ConfigDict, TypeAdapter

from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal, unseal

REFUSED = "refused"


class Refused(NamedTuple):
    """A refused file."""

    file: str  # full path or address
    reason: str
    size: int | None  # bytes as stored; None: missing, or unknown
    changed: str | None  # identifier of the last change; None: tried at every refresh
    refused_at: str  # UTC
    reading: str  # digest of the reading options, with others of which it may be readable


_REFUSED = TypeAdapter(Refused, config=ConfigDict(strict=True))


def refused(store: Folder) -> list[Refused]:
    """Return the refused files, by name."""
    keys = [key for key in store.list(REFUSED) if key.endswith(".json")]
    records = (_read(store, key) for key in keys)
    return sorted(one for one in records if one is not None)


def _read(store: Folder, key: str) -> Refused | None:
    try:
        document = unseal(store.read(key))
        del document["fingerprint"]
        record = _REFUSED.validate_python(document)
    except (ValueError, FileNotFoundError):  # another refresh may just have removed it
        return None
    return record if key == _key(record.file) else None


def _key(file: str) -> str:
    return f"{REFUSED}/{hashlib.sha256(file.encode()).hexdigest()[:16]}.json"


def refusal(address: Address, reason: str, plan: IngestPlan, mark: str | None) -> Refused:
    """Return the record of a refused file."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Refused(address.name, reason, address.size, mark, now, reading_of(plan))


def record_refused(store: Folder, files: Iterable[Refused]) -> None:
    """Record refused files, with the reasons."""
    for one in files:
        store.write(_key(one.file), seal(one._asdict(), indent=1))


def forget(store: Folder, files: Iterable[str]) -> None:
    """Remove the records of files that were taken or deleted."""
    for file in files:
        store.delete(_key(file))


def not_refused(
    addresses: Sequence[Address], records: Iterable[Refused], plan: IngestPlan
) -> list[Address]:
    """Return the files not refused in their present state with these reading options."""
    reading = reading_of(plan)
    as_before = {(one.file, one.size, one.changed) for one in records if one.reading == reading}
    suspects = {file for file, _, _ in as_before}

    def was_refused(address: Address) -> bool:
        if address.name not in suspects:
            return False
        mark = file_version(address)
        return mark is not None and (address.name, address.size, mark) in as_before

    return [address for address in addresses if not was_refused(address)]


def file_version(address: Address) -> str | None:
    """Return an identifier that changes with a file, apart from its size; None if unknown."""
    version = address.file.version if address.file else None
    return None if version is None else str(version)


def reading_of(plan: IngestPlan) -> str:
    """Return the digest of the reading options, including the version."""
    settings = plan.model_dump(mode="json", exclude={"sources", "dataset", "threads"})
    text = json.dumps([settings, version("fewpass")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
