"""The log of a run that has been silent for a while."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_log import LOG
from fewpass.storage.seal import seal, unseal

Event = dict[str, Any]


def age(run: RunFolder, seconds: float, changed: Callable[[Event], Event] = dict) -> None:
    """Have the last event of a log happened so many seconds before now.

    By now, not by when it did: a machine that is busy may have taken a minute since.
    """
    events = [unseal(line + b"\n") for line in run.folder.read(LOG).splitlines()]
    times = [datetime.fromisoformat(event["time"]) for event in events]
    more = datetime.now(UTC) - times[-1] - timedelta(seconds=seconds)
    lines = []
    for event, time in zip(events, times, strict=True):
        del event["fingerprint"]
        event["time"] = (time + more).isoformat(timespec="milliseconds")
        lines.append(seal(changed(event), allow_nan=True))
    run.folder.write(LOG, b"".join(lines))
