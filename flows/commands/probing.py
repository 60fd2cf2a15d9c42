"""`fewpass health`: whether what a night needs is there, for the probe of a container."""
# ruff: noqa: PLC0415

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from fewpass.flows.display.printing import printable
from fewpass.flows.options import OUTPUT, Output, named
from fewpass.flows.refusals import UsageError
from fewpass.pipeline.durations import parse_seconds
from fewpass.pipeline.sizes import counted
from fewpass.storage.redaction import without_secrets

DATE = "{date}"
NOBODY = "no process is training it"
SERVICES = ("http://", "https://")
SCHEDULERS = ("tcp://", "tls://")


class Health(NamedTuple):
    """One place that was looked at."""

    place: str
    healthy: bool
    why: str


def health(
    *places: Annotated[str, named("PLACE...")], timeout: str = "5s", output: Output = OUTPUT
) -> int:
    """Look whether places are in order, and exit with 1 where one is not: a probe's command.

    A run is in order unless its process is dead or makes no progress; a schedule, an address with
    {date} in it, when its newest run is, and is finished or being trained; a store when its
    published model can be found; a data set when its manifest is whole; a server (http://...) when
    it answers with status 200, as http://127.0.0.1:4200/api/health of Prefect and
    http://127.0.0.1:8787/health of Dask do; a Dask scheduler or worker (tcp://...) when it takes a
    connection.

    Parameters
    ----------
    places
        Runs, schedules, stores and data sets, servers and schedulers.
    timeout
        How long a server may take to answer.
    """
    from fewpass.flows.display.console import Terminal

    if not places:
        raise UsageError(
            "Name what is to be looked at: runs, stores, data sets, http:// or tcp://."
        )
    patience_s = float(parse_seconds(timeout))
    looked = [_looked_at(place, patience_s) for place in places]
    facts = {"healthy": all(one.healthy for one in looked), "places": [o._asdict() for o in looked]}
    Terminal(output).result(facts, _lines(looked))
    return 0 if facts["healthy"] else 1


def _looked_at(place: str, patience_s: float) -> Health:
    if place.startswith(SERVICES):
        return _service(place, patience_s)
    if place.startswith(SCHEDULERS):
        return _scheduler(place, patience_s)
    try:
        return _folder(place)
    except (OSError, ValueError) as error:
        return Health(place, healthy=False, why=str(error))


def _service(place: str, patience_s: float) -> Health:
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    shown = without_secrets(place)
    try:
        with urlopen(place, timeout=patience_s) as answer:  # noqa: S310 - http(s), looked at above
            status = int(answer.status)
    except HTTPError as error:
        status = error.code
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        return Health(shown, healthy=False, why=f"no answer ({reason})")
    return Health(shown, healthy=status == 200, why=f"answers with status {status}")


def _scheduler(place: str, patience_s: float) -> Health:
    host, _, port = place.partition("://")[2].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=patience_s):
            return Health(place, healthy=True, why="takes connections")
    except ValueError:
        raise UsageError(f"{place} has no port. Write for example tcp://127.0.0.1:8786.") from None
    except OSError as error:
        return Health(place, healthy=False, why=f"takes no connection ({error})")


def _folder(place: str) -> Health:
    from fewpass.pipeline.models.refresh.store_state import published
    from fewpass.storage.dataset import Dataset
    from fewpass.storage.folder import Folder
    from fewpass.storage.kinds import instead, kind_of

    if DATE in place:
        return _newest_run(place)
    folder = Folder(place)
    kind = kind_of(folder)
    if kind == "run":
        return _run(place)
    if kind == "store":
        current = published(place)
        said = current.sentence() if current else "nothing is published yet"
        return Health(place, current is not None, said)
    if kind == "data set":
        rows = Dataset.open(place).manifest.n_rows
        return Health(place, healthy=True, why=f"a data set of {counted(rows, 'row')}")
    return Health(place, healthy=False, why=instead(folder, "any"))


def _newest_run(pattern: str) -> Health:
    from fewpass.pipeline.runs.run_series import runs_of

    newest = next(runs_of(pattern), None)
    if newest is None:
        return Health(pattern, healthy=False, why="no run is there yet")
    name, looked = newest.folder.name, _run(newest.url)
    at_rest = looked.why == NOBODY
    why = f"{name}: {looked.why}" + (", and it is not finished" if at_rest else "")
    return Health(pattern, looked.healthy and not at_rest, why)


def _run(place: str) -> Health:
    from fewpass.flows.dead_runs import examine_folder
    from fewpass.pipeline.runs.run_folder import RunFolder
    from fewpass.pipeline.runs.run_series import is_finished

    looked = examine_folder(place, fix=False)
    if looked.alive is None:
        why = "it is finished" if is_finished(RunFolder(place)) else NOBODY
        return Health(place, healthy=True, why=why)
    return Health(place, looked.alive and not looked.stalled, looked.why)


def _lines(looked: Sequence[Health]) -> str:
    return "\n".join(
        printable(f"{one.place}: {'ok' if one.healthy else 'NOT OK'}, {one.why}") for one in looked
    )
