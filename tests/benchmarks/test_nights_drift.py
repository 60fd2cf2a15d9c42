"""Some of what the nights' specification asks of drift, at a size that takes seconds."""

import pytest

from benchmarks.nights_drift import (
    World,
    alarms,
    drift_of_another_unit,
    moved,
    nights_with_a_date,
    power,
)


@pytest.mark.parametrize(
    "world",
    [World(20, 5, 2000, 0.1, True), World(20, 0, 2000, 0.2, True), World(20, 5, 50_000, 0.1)],
    ids=str,
)
def test_stable_months_have_no_alarm(world):
    assert alarms(world, 2, seed=1) == 0.0


def test_what_moved_is_reported():
    assert power(World(20, 5, 2000), moved(0.25, 7), 2, seed=1) == 1.0
    drift = drift_of_another_unit(World(20, 0, 2000, 0.05), seed=1)
    assert drift.columns[0].column == drift.reported[0].column == "column 1"
    assert drift.n_reported == 1


def test_a_date_is_never_reported():
    assert nights_with_a_date(0) == 0
