"""{date} and {time}: the scheduled start that stands in the addresses of a flow run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import prefect.runtime
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import DeploymentSchedule, FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from pydantic import BaseModel

from fewpass.storage.redaction import without_secrets

M = TypeVar("M", bound=BaseModel)

#: Labels of a flow run: the start that its addresses have, and, with the name of a parameter
#: behind, an address as it was asked for, with its {date}.
START, ASKED = "fewpass.start", "fewpass.asked."

#: Hour of a date from which it is written with its time: clocks change by up to two hours.
LATE = 22

#: By flow: the parameters of the rows that it reads, and of where it puts what it makes of them.
ROWS_AND_PLACE = {
    "append": ("plan.sources", "plan.dataset"),
    "ingest": ("plan.sources", "plan.dataset"),
    "predict": ("inputs", "out"),
}


def named(what: str, parameter: str) -> Callable[[], str]:
    """Name flow runs by what they make and when: short, and each of them another.

    A late run that does the work of a newer one has the time of that.

    Parameters
    ----------
    what
        The flow's verb.
    parameter
        Path of the parameter that holds the address, such as `plan.store`.
    """

    def name() -> str:
        given = without_secrets(str(_at(prefect.runtime.flow_run.parameters, parameter)))
        start = newest_due() if "{" in given else prefect.runtime.flow_run.scheduled_start_time
        start = start or datetime.now(UTC)
        place = with_date(given, start).rstrip("/")
        return f"{what} {'/'.join(place.split('/')[-2:])}, {start:%Y-%m-%d %H:%M:%S}"

    return name


def dated(given: str | tuple[str, ...], parameter: str) -> Any:
    """Put the scheduled start into {date} and {time}: a repeated run finds its folder again.

    After an outage the runs that were missed are all due at once.  The first of them does the work
    of the newest, and those behind it find that done; but rows of each day are read by its own run
    (`reads_its_day`).  What was chosen becomes the flow run's parameter of that name: tried again
    it takes the same one, and `fewpass check` knows where to look.

    Parameters
    ----------
    given
        An address, or several.
    parameter
        Path of the parameter that they are, such as `plan.dataset`.
    """
    every = (given,) if isinstance(given, str) else given
    if not any("{" in one for one in every):
        return given
    chosen = tuple(with_date(one, newest_due()) for one in every)
    now = chosen[0] if isinstance(given, str) else chosen
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(prefect.runtime.flow_run.id)
        if isinstance(given, str):
            client.update_flow_run_labels(run.id, {ASKED + parameter: given})
        parameters = replaced(run.parameters, parameter, now)
        client.update_flow_run(run.id, parameters=parameters)
    return now


def as_asked(given: str, parameter: str) -> str:
    """Return an address as it was before `dated` put the start into it, maybe in an earlier try."""
    with get_client(sync_client=True) as client:
        labels = client.read_flow_run(prefect.runtime.flow_run.id).labels
    return str(labels.get(ASKED + parameter, given))


def of_the_day(plan: M, *names: str) -> M:
    """Return a plan whose addresses of these names have the scheduled start in them."""
    given = {name: getattr(plan, name) for name in names}
    places = {name: dated(one, f"plan.{name}") for name, one in given.items() if one is not None}
    return plan.model_copy(update=places)


def replaced(parameters: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return parameters with another value at a path."""
    first, _, rest = path.partition(".")
    return parameters | {first: replaced(parameters[first], rest, value) if rest else value}


def newest_due() -> datetime:
    """Return the scheduled start of this run, or of a later one that is due and asks for the same.

    In the zone of the schedule: a date is the one that clocks of that zone show.

    Once it was asked for it stays, also where the run is tried again: all that it makes is called
    the same.
    """
    return _newest_due(str(prefect.runtime.flow_run.id))


@lru_cache(maxsize=1)
def _newest_due(flow_run: str) -> datetime:
    with get_client(sync_client=True) as client:
        run, schedules = client.read_flow_run(UUID(flow_run)), list[DeploymentSchedule]()
        if run.deployment_id is not None:
            schedules = client.read_deployment(run.deployment_id).schedules
        chosen = at_first(START, lambda: _in_utc(max(_due(client, run, schedules))).isoformat())
    return datetime.fromisoformat(chosen).astimezone(_zone_of(run, schedules))


def _due(
    client: SyncPrefectClient, run: FlowRun, schedules: Sequence[DeploymentSchedule]
) -> list[datetime]:
    """Return the starts whose work this run may do, its own among them."""
    start: datetime = prefect.runtime.flow_run.scheduled_start_time
    asks_alone = reads_its_day(prefect.runtime.flow_run.flow_name, dict(run.parameters))
    if run.deployment_id is None or not run.auto_scheduled or asks_alone:
        return [start]
    return [start, *_later_ones(client, run, run.deployment_id, start, schedules)]


def _in_utc(start: datetime) -> datetime:
    return datetime.fromtimestamp(start.timestamp(), UTC)  # Prefect's have zones of their own


def reads_its_day(flow: str, parameters: Mapping[str, Any]) -> bool:
    """Say whether a flow run reads rows of its own day, and leaves those of others where they are.

    No newer run reads these rows, so it does not do the work.  Where all days' rows go to one
    place, each in place of the ones before, the newest are all that is wanted.
    """
    if flow not in ROWS_AND_PLACE:
        return False
    rows, place = (_at(parameters, path) for path in ROWS_AND_PLACE[flow])
    if "{" not in "".join([rows] if isinstance(rows, str) else rows or ()):
        return False
    is_one_file = not (parameters.get("table") or str(place).endswith(("/", ".delta")))
    takes_a_place = flow == "ingest" or (flow == "predict" and is_one_file)
    return "{" in str(place) or not takes_a_place


def _at(parameters: Any, path: str) -> Any:
    """Return the parameter of a path; nothing where there is none, and the run will be refused."""
    for part in path.split("."):
        inner = parameters if isinstance(parameters, dict) else dict(parameters or ())
        parameters = inner.get(part, "")
    return parameters


def at_first(label: str, make: Callable[[], str]) -> str:
    """Return what was made when this flow run first asked for it, which is a label of it since.

    So who tries it again knows how things were before the first try.
    """
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(prefect.runtime.flow_run.id)
        if label not in run.labels:
            made = make()
            client.update_flow_run_labels(run.id, {label: made})
            return made
    return str(run.labels[label])


def _zone_of(run: FlowRun, schedules: Sequence[DeploymentSchedule]) -> tzinfo:
    """Return the zone of the schedule that made a run, or of all of them; UTC where they differ."""
    own = [one for one in schedules if one.id == _schedule_of(run)]
    zones = {getattr(one.schedule, "timezone", None) for one in own or schedules}
    name = zones.pop() if len(zones) == 1 else None
    return UTC if name is None else ZoneInfo(name)


def _later_ones(
    client: SyncPrefectClient, run: FlowRun, deployment: UUID, start: datetime,
    schedules: Sequence[DeploymentSchedule],
) -> list[datetime]:  # fmt: skip
    """Return the starts after this one that are due, of the deployment's schedules of this work.

    Those have the same parameters of their own.  Also runs that are at work or have ended: the
    order in which late ones begin is nobody's.
    """
    own = _schedule_of(run)
    asked = [one.parameters for one in schedules if one.id == own]
    alike = {own, *(one.id for one in schedules if one.parameters in asked)}
    runs = client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            deployment_id=FlowRunFilterDeploymentId(any_=[deployment]),
            expected_start_time=FlowRunFilterExpectedStartTime.model_validate(
                {"after_": start, "before_": datetime.now(UTC)}
            ),
            state=FlowRunFilterState(
                type=FlowRunFilterStateType(not_any_=[StateType.CANCELLING, StateType.CANCELLED])
            ),
        ),
        sort=FlowRunSort.EXPECTED_START_TIME_DESC,
    )
    return [
        one.expected_start_time
        for one in runs
        if one.auto_scheduled and one.expected_start_time and _schedule_of(one) in alike
    ]


def _schedule_of(run: FlowRun) -> UUID | None:
    return run.created_by.id if run.created_by else None


def with_date(url: str, start: datetime | None) -> str:
    """Put a time into {date} and {time}, as clocks of its zone show it.

    A daily schedule in a zone with summer time starts twice on one date of UTC when clocks change,
    after midnight and before the next: where no schedule says in which zone the date is meant,
    dates so late have their time behind them.  The second of an hour that comes twice is a B.
    """
    if start is None:
        return url
    late = start.tzinfo == UTC and start.hour >= LATE and "{time}" not in url
    date = f"{start:%Y-%m-%dT%H%M}" if late else f"{start:%Y-%m-%d}"
    return url.replace("{date}", date).replace(
        "{time}", f"{start:%H}{'B' * start.fold}{start:%M%S}"
    )
