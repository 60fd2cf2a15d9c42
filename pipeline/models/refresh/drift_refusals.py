"""Drift that was refused: nothing is learnt, and the generation keeps why, for the store's history.

STORE/generations/000002/drift-refused.json   every reason once, with the time and the author
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ConfigDict, TypeAdapter

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.publications import user_and_host
from fewpass.storage.addresses import command
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal, unseal

if TYPE_CHECKING:
    from fewpass.pipeline.models.refresh.drift import Drift
    from fewpass.pipeline.models.refresh.generations import Generation

DRIFT_REFUSED = "drift-refused.json"


class DriftRefusal(NamedTuple):
    """That rows were not learnt from, as they were too far from those before."""

    refused_at: str  # UTC
    refused_by: str
    reason: str


_REFUSALS = TypeAdapter(tuple[DriftRefusal, ...], config=ConfigDict(strict=True))


def drift_refusals(generation: Folder) -> tuple[DriftRefusal, ...]:
    """Return why rows were refused, the oldest first; nothing where the record is damaged."""
    try:
        document = unseal(generation.read(DRIFT_REFUSED))
        return _REFUSALS.validate_python(tuple(document["refusals"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ()


def require_at_most(drift: Drift, most: float | None, store: str, generation: Generation) -> None:
    """Refuse rows that are too far from those before, and record it.

    Raises
    ------
    BadInput
        Which column drifted how far, and what to do.
    """
    beyond = drift.over(most)
    if most is None or not beyond:
        return
    one, others = beyond[0], len(beyond) - 1
    more = f", and {others} other column{'s' * (others != 1)}" if others else ""
    reason = (
        f"{one.column} drifted by {one.drift:.3g} ({one.change}){more}, where max_drift is {most:g}"
    )
    _record(generation.folder, reason)
    raise BadInput(
        f"The new rows are unlike those before: {reason}. Nothing was "
        "learnt. If the rows are right, refresh once with a larger max_drift; if not, mend the "
        f"files and give the generation up: {command('refresh', store)} says how."
    )


def _record(generation: Folder, reason: str) -> None:
    before = drift_refusals(generation)
    if any(one.reason == reason for one in before):  # a schedule tries again every hour
        return
    now = datetime.now(UTC).isoformat(timespec="seconds")
    every = (*before, DriftRefusal(now, user_and_host(), reason))
    document = {"refusals": [one._asdict() for one in every]}
    generation.write(DRIFT_REFUSED, seal(document, indent=1))
