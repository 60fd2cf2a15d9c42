"""{date} and {time} of scheduled starts."""

import re
from datetime import UTC, datetime, time, timedelta
from types import SimpleNamespace
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from fewpass.pipeline.runs.run_series import PLACEHOLDERS


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/London", "America/New_York", "Australia/Lord_Howe"]
)
@pytest.mark.parametrize("address", ["nightly/{date}", "nightly/{date}T{time}"])
def test_daily_starts_of_a_year_have_folders_of_their_own_in_the_order_of_time(zone, address):
    """At each half hour of the day, as clocks of the zone show it."""
    from fewpass.flows.orchestration.scheduled_dates import with_date

    shape = re.escape(address).replace(r"\{", "{").replace(r"\}", "}")
    for placeholder, written in PLACEHOLDERS.items():
        shape = shape.replace(placeholder, written)
    days = [datetime(2026, 1, 1) + timedelta(days=k) for k in range(366)]  # noqa: DTZ001 - local
    for half_hour in range(48):
        clock = time(half_hour // 2, 30 * (half_hour % 2), tzinfo=ZoneInfo(zone))
        starts = [datetime.combine(day, clock).astimezone(UTC) for day in days]
        for own in (UTC, ZoneInfo(zone)):  # where no schedule says which zone is meant, and where
            names = [with_date(address, start.astimezone(own)) for start in starts]
            assert len({*names}) == len(days)
            assert names == sorted(names)
            assert all(re.fullmatch(shape, name) for name in names)
        if "{time}" not in address:
            assert names == [f"nightly/{day:%Y-%m-%d}" for day in days]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Australia/Lord_Howe"])
def test_starts_of_every_ten_minutes_have_folders_in_the_order_of_time(zone):
    """Also those of an hour, or of half an hour, that clocks show twice."""
    from fewpass.flows.orchestration.scheduled_dates import with_date

    first = datetime(2026, 1, 1, tzinfo=UTC)
    starts = [(first + timedelta(minutes=10 * k)) for k in range(365 * 144)]
    names = [with_date("{date}T{time}", start.astimezone(ZoneInfo(zone))) for start in starts]
    assert names == sorted({*names})
    assert all(re.fullmatch(PLACEHOLDERS["{time}"], name[11:]) for name in names)


def test_a_late_run_does_no_work_of_a_schedule_that_asks_for_something_else():
    """Its own, and those of the deployment with the same parameters, may be newer."""
    from fewpass.flows.orchestration.scheduled_dates import _later_ones

    north, south, as_north = uuid4(), uuid4(), uuid4()
    start = datetime(2026, 1, 1, 2, tzinfo=UTC)
    later = {which: start + timedelta(hours=k) for k, which in enumerate((north, as_north, south))}
    schedules = [
        SimpleNamespace(id=one, parameters={"run": "south" if one == south else "north"})
        for one in later
    ]
    runs = [
        SimpleNamespace(
            created_by=SimpleNamespace(id=one), auto_scheduled=True, expected_start_time=at
        )
        for one, at in later.items()
    ]  # fmt: skip
    client = SimpleNamespace(read_flow_runs=lambda **_: runs)
    assert max(_later_ones(client, runs[0], uuid4(), start, schedules)) == later[as_north]
    assert _later_ones(client, runs[2], uuid4(), start, schedules) == [later[south]]
    assert _later_ones(client, runs[0], uuid4(), start, []) == [start]  # its schedule was removed


NIGHT = datetime(2026, 1, 1, 2, tzinfo=UTC)


class LateRuns:
    """A server after an outage: three nights of one schedule are due, and the first begins."""

    def __init__(self, parameters):
        self.schedule, self.labels, self.parameters = uuid4(), {}, parameters

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read_flow_run(self, flow_run):
        return SimpleNamespace(
            id=flow_run, labels=self.labels, parameters=self.parameters, auto_scheduled=True,
            deployment_id=uuid4(), created_by=SimpleNamespace(id=self.schedule),
        )  # fmt: skip

    def read_deployment(self, _deployment):
        cron = SimpleNamespace(timezone="Asia/Tokyo")
        return SimpleNamespace(
            schedules=[SimpleNamespace(id=self.schedule, parameters={}, schedule=cron)]
        )

    def read_flow_runs(self, **_):
        own = SimpleNamespace(id=self.schedule)
        starts = (NIGHT + timedelta(days=k) for k in (1, 2))
        return [
            SimpleNamespace(created_by=own, auto_scheduled=True, expected_start_time=at)
            for at in starts
        ]

    def update_flow_run_labels(self, _flow_run, labels):
        self.labels |= labels


@pytest.mark.parametrize(
    ("flow", "parameters", "day"),
    [
        ("train", {"plan": {"dataset": "d"}, "run": "nightly/{date}"}, 3),
        ("append", {"plan": {"sources": ["{date}.csv"], "dataset": "d"}}, 1),
        ("append", {"plan": {"sources": ["inbox/*"], "dataset": "d"}}, 3),
        ("ingest", {"plan": {"sources": ["{date}.csv"], "dataset": "{date}"}}, 1),
        ("ingest", {"plan": {"sources": ["{date}.csv"], "dataset": "today"}}, 3),
        ("ingest", {"plan": {"sources": ["all.csv"], "dataset": "{date}"}}, 3),
        ("predict", {"run": "r", "inputs": ["{date}.csv"], "out": "{date}.parquet"}, 1),
        ("predict", {"run": "r", "inputs": ["{date}.csv"], "out": "scored/"}, 1),
        ("predict", {"run": "r", "inputs": ["{date}.csv"], "out": "s.sqlite", "table": "t"}, 1),
        ("predict", {"run": "r", "inputs": ["{date}.csv"], "out": "today.parquet"}, 3),
        ("predict", {"run": "r/{date}", "inputs": ["all.csv"], "out": "{date}.csv"}, 3),
    ],
)
def test_rows_of_a_day_are_read_by_its_own_run_however_late(flow, parameters, day, monkeypatch):
    """All else does the work of the newest; what was chosen stays where it is tried again."""
    from fewpass.flows.orchestration import scheduled_dates

    server = LateRuns(parameters)
    own = SimpleNamespace(id=str(uuid4()), flow_name=flow, scheduled_start_time=NIGHT)
    runtime = SimpleNamespace(flow_run=own)
    monkeypatch.setattr(scheduled_dates, "prefect", SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(scheduled_dates, "get_client", lambda **_: server)
    chosen = NIGHT.replace(day=day)
    for _ in range(2):
        due = scheduled_dates.newest_due()
        assert (due, str(due.tzinfo)) == (chosen, "Asia/Tokyo")
        server.parameters = {}  # with the dates in them by now
        scheduled_dates._newest_due.cache_clear()
