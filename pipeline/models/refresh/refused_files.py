"""Refused files: each recorded with the reason, and tried again once it has changed.

    STORE/refused/0123456789abcdef.json   one file, under a digest of its address

The files themselves are not changed.  A damaged record is ignored: its file is tried again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from typing import NamedTuple

from pydantic import ConfigDict, TypeAdapter

from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal, unseal

REFUSED = "refused"


class Refused(NamedTuple):
    """A refused file."""

    file: str  # full path or address
    reason: str
    size: int | None  # bytes as stored; None: missing, or unknown
    changed: str | None  # identifier of the last change; None: unknown
    refused_at: str  # UTC
    reading: str  # digest of the reading options that it cannot be read by; empty: that is not so

    @property
    def state(self) -> FileState:
        """Its state then."""
        return FileState.named(self.file, self.size, self.changed)


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


def refusal(state: FileState, reason: str, reading: str = "") -> Refused:
    """Return the record of a file that is not taken."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Refused(state.name, reason, state.bytes, state.version, now, reading)


def record_refused(store: Folder, files: Iterable[Refused]) -> None:
    """Record files that are not taken, with the reasons."""
    for one in files:
        before = _read(store, _key(one.file)) if store.exists(_key(one.file)) else None
        if before is None or before._replace(refused_at=one.refused_at) != one:
            store.write(_key(one.file), seal(one._asdict(), indent=1))


def forget(store: Folder, files: Iterable[str]) -> None:
    """Remove the records of files that were taken or deleted."""
    for file in files:
        store.delete(_key(file))


def reading_of(plan: IngestPlan) -> str:
    """Return the digest of the reading options, including the version."""
    settings = plan.model_dump(mode="json", exclude={"sources", "dataset", "threads"})
    text = json.dumps([settings, version("fewpass")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
