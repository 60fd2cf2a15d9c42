"""A run's folder: what was planned, what happened, and from where it can go on.

`run.json` is written once, `log.jsonl` grows, `snapshots/` holds the newest few.  The folder is the
truth; whatever watches it is a view.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from fewpass.pipeline.errors import BadInput, PlanMismatch
from fewpass.pipeline.runs.run_log import RunLog
from fewpass.pipeline.runs.run_record import FORMAT_VERSION, RunRecord
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.kinds import OWN, RUN_FORMAT, RUN_KEY, instead, kind_of
from fewpass.storage.manifest import Manifest
from fewpass.storage.row_state_store import RowStateStore
from fewpass.storage.seal import seal, unseal
from fewpass.storage.set_generations import what_became
from fewpass.storage.snapshot import Snapshot, SnapshotStore

KEY = RUN_KEY
MAY_WAIT = ("span", "reduce")  # events of which there are many


class RunFolder:
    """One run, on disk or at an address."""

    def __init__(self, url: str, storage_options: dict[str, Any] | None = None) -> None:
        self.folder = Folder(url, storage_options)
        self.snapshots = SnapshotStore(self.folder.child("snapshots"))
        self.row_state = RowStateStore(self.folder.child("rows"))
        self.lines = RunLog(self.folder)

    @property
    def url(self) -> str:
        """Return the address of the run."""
        return self.folder.url

    def exists(self) -> bool:
        """Return whether a training has begun here."""
        return self.folder.exists(KEY)

    def begin(self, record: RunRecord, data: Manifest | None = None) -> RunRecord:
        """Write down what is going to be done, and return what holds: a run goes on with its own.

        Refuses a folder with another plan in it; `data` is what the data set is now, if it is one.
        """
        if self.exists():
            return self._require_same(record, data)
        self._require_free()
        self.folder.require_writable()
        document = json.loads(record.model_dump_json())  # what is foreseen as infinite is null
        self.folder.write(KEY, seal(document, indent=2))
        return record

    def _require_free(self) -> None:
        """Refuse to begin a run in what is something else: its files would be mixed up."""
        kind = kind_of(self.folder)
        if kind in OWN and kind != "run":
            raise BadInput(instead(self.folder, "new run"))

    def record(self) -> RunRecord:
        """Read back what was planned.

        Raises
        ------
        BadInput
            When there is no run.
        PlanMismatch
            When another version of fewpass began it.
        Damaged
            When it is not intact.
        """
        if not self.exists():
            raise self._absent()
        raw = self.folder.read(KEY)
        self._require_version(raw)
        try:
            document = unseal(raw)
            del document["fingerprint"]
            record = RunRecord.model_validate_json(json.dumps(document))
        except ValueError as error:
            raise self._damaged(error) from error
        return record if record.plan.source is None else self._as_wide_as_now(record)

    def _as_wide_as_now(self, record: RunRecord) -> RunRecord:
        """Return the record of a source that is read once, with its present number of columns.

        A record is written after the first rows.
        """
        for name in reversed(self.snapshots.names()):
            with contextlib.suppress(Damaged):
                source = self.snapshots.attributes(name).get("source") or {}
                width = source["n_features"] if isinstance(source, dict) else source[3]
                return record.model_copy(update={"n_features": width})
        return record

    def _damaged(self, error: ValueError) -> Damaged:
        return Damaged(
            f"{self.folder.address(KEY)} is damaged: {error}. Restore it from a copy, or "
            f"begin a new run at its model (`start_from={self.url}`)."
        )

    @cached_property
    def fingerprint(self) -> str:
        """Return the fingerprint of the record; Damaged when it is not intact."""
        try:
            return str(unseal(self.folder.read(KEY))["fingerprint"])
        except ValueError as error:
            raise self._damaged(error) from error

    def require_own(self, snapshot: Snapshot) -> None:
        """Refuse a record that a snapshot was not taken under, such as another run's."""
        record = snapshot.attributes.get("record")
        if record != self.fingerprint:
            raise Damaged(
                f"{self.folder.address(KEY)} is not the record that {snapshot.address} was taken "
                f"under: its fingerprint is {self.fingerprint[:12]}, where {str(record)[:12]} was "
                "expected. Restore it from a copy, or begin a new run at its model "
                f"(`start_from={self.url}`)."
            )

    def _absent(self) -> BadInput | Damaged:
        if not self.snapshots.names():
            return BadInput(instead(self.folder, "run"))
        return Damaged(
            f"{self.folder.address(KEY)} is missing, where snapshots are. Restore it from a copy, "
            f"or begin a new run at its model (`start_from={self.url}`)."
        )

    def _require_version(self, raw: bytes) -> None:
        """Refuse what another version wrote, sealed or not; what is no JSON is left to the seal."""
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError):
            return
        source = document if isinstance(document, dict) else {}
        actual = source.get("format"), source.get("version")
        if actual != (RUN_FORMAT, FORMAT_VERSION):
            raise PlanMismatch(
                f"{self.folder.address(KEY)} is {actual[0]!r} version {actual[1]!r}, where "
                f"{RUN_FORMAT!r} version {FORMAT_VERSION} was expected. Go on with the version of "
                "fewpass that began it, or train again."
            )

    def _require_same(self, new: RunRecord, data: Manifest | None) -> RunRecord:
        """Return the record that is there; PlanMismatch where the new one has another plan."""
        old = self.record()
        if changed := changed_settings(old.plan, new.plan):
            said = "; ".join(s for k, (a, b) in changed.items() for s in _differences(k, a, b))
            raise PlanMismatch(
                f"{self.url} holds a run of another plan: {said} ({self.folder.address(KEY)}). "
                "Continue it with fewpass resume, or train into a new folder."
            )
        self.require_data(old, new.dataset_fingerprint, data)
        self.require_held_out(old, new.held_out_fingerprint)
        return old

    def require_data(
        self, record: RunRecord, fingerprint: str, data: Manifest | None = None
    ) -> None:
        """Refuse to go on with other data than the run began with; `data` as in `begin`."""
        became = None if data is None else what_became(data, record.dataset_fingerprint)
        if record.dataset_fingerprint != fingerprint and became is not None:
            raise PlanMismatch(
                f"{self.url} was trained on {record.plan.dataset} as it was: {became}. Start a new "
                "run; it may begin at this one's weights (`start_from`)."
            )
        if record.dataset_fingerprint != fingerprint:
            raise PlanMismatch(
                f"{self.url} was trained on data set {record.dataset_fingerprint[:12]}, but "
                f"{record.plan.dataset} is now {fingerprint[:12]}. "
                "Start a new run, or put the old data set back."
            )

    def require_held_out(self, record: RunRecord, fingerprint: str | None) -> None:
        """Refuse to go on by other held-out rows than the run began with."""
        began = record.held_out_fingerprint
        if began != fingerprint:
            raise PlanMismatch(
                f"{self.url} began with the held-out rows {str(began)[:12]}, but "
                f"{record.plan.held_out} is now {str(fingerprint)[:12]}. "
                "Start a new run, or put the old rows back."
            )

    def log(self, event: str, **facts: Any) -> None:
        """Add one line to the log, sealed."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = seal(
            {"time": now, "event": event} | facts, allow_nan=True
        )  # of a loss that exploded
        self.lines.append(line.decode().rstrip("\n"), may_wait=event in MAY_WAIT)

    def events(self) -> Iterator[dict[str, Any]]:
        """Read the log back; a line that is not intact is skipped."""
        events = (_event_in(line) for _, _, line in self.lines.read())
        return (event for event in events if event is not None)

    def log_faults(self) -> Iterator[str]:
        """Yield a sentence per line of the log that is not intact."""
        for key, number, line in self.lines.read():
            if _event_in(line) is None:
                yield (
                    f"{self.folder.address(key)}, line {number}, is not as it was written: "
                    f"{line[:40]!r}. Nothing but what is shown of the run's past depends on it."
                )


def changed_settings(old: TrainingPlan, new: TrainingPlan) -> dict[str, tuple[Any, Any]]:
    """Return what two plans have for settings that the model depends on, where they differ."""
    both = {name: (getattr(old, name), getattr(new, name)) for name in TrainingPlan.model_fields}
    return {k: (a, b) for k, (a, b) in both.items() if a != b and k != "snapshot_every"}


def _differences(setting: str, old: Any, new: Any) -> Iterator[str]:
    """Describe how a setting differs, field by field for nested ones."""
    if isinstance(old, SourceReading | SourceOptions) and isinstance(new, type(old)):
        for name in type(old).model_fields:
            if (a := getattr(old, name)) != (b := getattr(new, name)):
                yield from _differences(name, a, b)
        return
    yield f"{setting} was {_in_words(setting, old)}, now {_in_words(setting, new)}"


def _in_words(setting: str, value: Any) -> str:
    """Say what a setting of a plan was."""
    if value is None:
        return "not given"
    if isinstance(value, SourceReading):
        value = value.sources
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "not given"
    return format_bytes(value) if setting == "memory" else str(value)


def _event_in(line: bytes) -> dict[str, Any] | None:
    """Return the event that a line of the log tells; None when it is cut short or changed."""
    with contextlib.suppress(ValueError):
        event = unseal(line + b"\n")
        del event["fingerprint"]
        return event
    return None
