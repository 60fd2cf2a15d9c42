"""Drift of a generation of a store, next to the newest ones before whose rows are still there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from fewpass.pipeline.models.refresh.drift import Drift, drift_of, indices_in
from fewpass.pipeline.models.refresh.generations import DECISION, Generation, generations
from fewpass.pipeline.models.refresh.night_statistics import Vector
from fewpass.pipeline.models.refresh.usual_drift import NIGHTS
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal, unseal

DRIFT = "drift.json"  # of a generation


def drift_of_generation(
    store: str, generation: Generation, left_out: Sequence[str] = ()
) -> Drift | None:
    """Compare a generation's rows with those before, and store what came of it; None if first."""
    earlier = [one for one in generations(Folder(store)) if one.number < generation.number]
    usual = [one for one in earlier if one.folder.exists("data/manifest.json")]
    usual = [one for one in usual if not one.is_abandoned][-NIGHTS:]
    if not usual:
        return None
    today = datetime.now(UTC).weekday()
    nights = [Dataset.open(one.data) for one in usual]
    days = [night for one, night in zip(usual, nights, strict=True) if _weekday(one) == today]
    made = drift_of(Dataset.open(generation.data), nights, days, [*_indices(usual)], left_out)
    generation.folder.write(DRIFT, seal(json.loads(json.dumps(made.as_document())), indent=1))
    return made


def _weekday(one: Generation) -> int | None:
    decision = json.loads(one.folder.read(DECISION)) if one.is_decided else {}
    when = decision.get("decided_at")
    return None if when is None else datetime.fromisoformat(when).weekday()


def _indices(usual: Sequence[Generation]) -> Iterator[Vector]:
    for one in usual:
        document = unseal(one.folder.read(DRIFT)) if one.folder.exists(DRIFT) else {}
        if "indices" in document:
            yield indices_in(document)
