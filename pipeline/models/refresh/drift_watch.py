"""The drift of a store's nights: what each is compared with, and what is stored and reported of it.

STORE/generations/000017/drift.json   how far its rows are from those before, sealed
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.drift import Drift, drift_of, indices_in
from fewpass.pipeline.models.refresh.drift_index import NIGHTS, SAME_WEEKDAY
from fewpass.pipeline.models.refresh.night_rule import WEEK_NIGHTS
from fewpass.pipeline.models.refresh.night_statistics import Vector
from fewpass.pipeline.models.refresh.store_events import DriftReported
from fewpass.pipeline.models.refresh.store_log import write_event
from fewpass.pipeline.models.refresh.store_state import Generation, Store
from fewpass.storage.addresses import command
from fewpass.storage.dataset import Dataset
from fewpass.storage.seal import seal, unseal

DRIFT = "drift.json"
DAY = timedelta(days=1)


def watched(
    store: Store, generation: Generation, left_out: Sequence[str], most: float | None
) -> Drift | None:
    """Compare a night's rows with those of the nights learnt from, and tell what moved.

    Returns None where there are none before.

    Raises
    ------
    BadInput
        A column, or the labels, drifted by more than `most`; the night is not learnt from.
    """
    usual = [store.of_night(night) for night in generation.before.used][-NIGHTS:]
    if not usual:
        return None
    days = [store.of_night(night) for night in generation.before.used]
    days = [one for one in days if _is_weeks_before(one, generation)][-SAME_WEEKDAY:]
    drift = drift_of(
        Dataset.open(generation.data), _data_of(usual), _data_of(days), _history(usual), left_out
    )
    document = json.loads(json.dumps(drift.as_document()))
    generation.folder.write(DRIFT, seal(document, indent=1))
    beyond = drift.over(most)
    if beyond:
        _tell(store, generation, "; ".join(one.sentence for one in beyond[:3]), refused=True)
        raise BadInput(
            f"The new rows are unlike those before: {beyond[0].sentence}, and max_drift is "
            f"{most:g}. Nothing was learnt. If the rows are right, refresh once with a larger "
            "max_drift; if not, mend the files and give the generation up: "
            f"{command('store', 'abandon', store.folder.url)}."
        )
    if drift.sentence:
        _tell(store, generation, drift.sentence, refused=False)
    return drift


def _tell(store: Store, generation: Generation, why: str, *, refused: bool) -> None:
    if all(one.why != why for one in generation.drift):  # a schedule tries again every hour
        event = DriftReported(generation=generation.number, why=why, refused=refused)
        write_event(store.folder, event)


def _is_weeks_before(one: Generation, tonight: Generation) -> bool:
    """Return whether a night began whole weeks before, by half a day: on the same weekday."""
    then, now = (datetime.fromisoformat(each.begun) for each in (one, tonight))
    return round((now - then) / DAY) % WEEK_NIGHTS == 0


def _data_of(nights: Sequence[Generation]) -> list[Dataset]:
    return [Dataset.open(one.data) for one in nights]


def _history(nights: Sequence[Generation]) -> list[Vector]:
    """Return the indices of nights, of those that were compared and whose record is whole."""
    every: list[Vector] = []
    for one in nights:
        with suppress(FileNotFoundError, ValueError, KeyError):
            every.append(indices_in(unseal(one.folder.read(DRIFT))))
    return every
