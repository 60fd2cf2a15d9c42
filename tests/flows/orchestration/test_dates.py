"""{date} and {time} of scheduled starts."""

import re
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from fewpass.pipeline.runs.run_series import PLACEHOLDERS


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/London", "America/New_York", "Australia/Lord_Howe"]
)
@pytest.mark.parametrize("address", ["nightly/{date}", "nightly/{date}T{time}"])
def test_daily_starts_of_a_year_have_folders_of_their_own_in_the_order_of_time(zone, address):
    """At each half hour of the day, as clocks of the zone show it."""
    from fewpass.flows.orchestration.scheduled import with_date

    shape = re.escape(address).replace(r"\{", "{").replace(r"\}", "}")
    for placeholder, written in PLACEHOLDERS.items():
        shape = shape.replace(placeholder, written)
    days = [datetime(2026, 1, 1) + timedelta(days=k) for k in range(366)]  # noqa: DTZ001 - local
    for half_hour in range(48):
        clock = time(half_hour // 2, 30 * (half_hour % 2), tzinfo=ZoneInfo(zone))
        starts = [datetime.combine(day, clock).astimezone(UTC) for day in days]
        names = [with_date(address, start) for start in starts]
        assert len({*names}) == len(days)
        assert names == sorted(names)
        assert all(re.fullmatch(shape, name) for name in names)
