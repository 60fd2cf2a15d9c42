"""What pages, pictures and tables of shapes have in common: rows, words, the order of levels."""

import numpy as np
import pytest

from fewpass.pipeline.drawing.charts import MOST_TICKS, calendar_ticks, calendar_words
from fewpass.pipeline.reporting.shown_shapes import (
    cell_words,
    number_words,
    point_words,
    shown_levels,
    stretches,
    within_sample,
)
from fewpass.pipeline.tables.encoding.additive_shapes import ColumnCurve, LevelSteps
from fewpass.pipeline.tables.encoding.category_recipe import in_order
from fewpass.pipeline.tables.encoding.date_parts import LEVELS_OF
from fewpass.pipeline.tables.encoding.variables import MISSING, RARE, Variable


def curve(grid, masses, origin=None, part=""):
    values = np.zeros(len(grid) + 1)
    return ColumnCurve(Variable("x", part), np.array(grid), values, np.array(masses), origin)


def seconds(day):
    return float(np.datetime64(day, "s").astype(np.int64))


def test_rows_lie_around_the_points_that_have_some():
    """Whole numbers are as dense as each other; beyond the last rows there are none."""
    months = stretches(curve([1.0, 2.0, 3.0, 4.0, 40.0], [5.0, 5.0, 5.0, 5.0, 0.0, 9.0]))
    assert [part.density for part in months] == [1.0] * 4
    assert [(part.start, part.end) for part in months][-1] == (3.5, 4.5)
    gap = stretches(curve([0.0, 1.0, 2.0, 9.0, 10.0, 11.0], [1, 1, 1, 0, 1, 1, 0.0]))
    assert gap[2].end <= 3.0 and gap[3].start >= 9.0
    assert not stretches(curve([0.0, 9.0], [5.0, 5.0, 0.0]))


def test_a_value_of_many_rows_leaves_others_to_be_seen():
    parts = stretches(curve([0.0, 1e-3, *range(1, 9)], [1e4, *[9.0] * 9, 0.0]))
    assert parts[0].density == 1.0 and max(part.density for part in parts) == 1.0
    assert within_sample(curve([0.0, 1.0, 2.0], [0.0, 3.0, 1.0, 0.0])) == slice(1, 3)


def test_levels_come_by_rows_and_numbers_and_parts_of_dates_in_their_order():
    names = ("a", "b", "c", RARE, MISSING)
    own = LevelSteps(Variable("town"), names, np.arange(5.0), np.array([1.0, 9, 5, 3, 0]))
    assert [level.name for level in shown_levels(own, 2)] == ["b", "c", RARE]
    stars = LevelSteps(Variable("stars"), ("1", "2", "10", RARE, MISSING), *np.zeros((2, 5)))
    stars.masses[:] = [3.0, 5, 9, 0, 2]
    assert [level.name for level in shown_levels(stars, 2)] == ["2", "10", MISSING]
    assert in_order(["Oct", "sept.", "May", "march"]) == ("march", "May", "sept.", "Oct")
    assert in_order(["Tue", "Mon", "never"]) == ("Mon", "Tue", "never")  # as all words
    months = (*LEVELS_OF["month"], MISSING)
    own = LevelSteps(Variable("day", "month"), months, np.zeros(13), np.arange(13.0)[::-1])
    assert [level.name for level in shown_levels(own, 30)] == [*months[:12]]


def test_numbers_are_as_short_as_tells_them_apart():
    assert number_words("", [-93.281, -93.28, -93.2]) == ["-93.281", "-93.28", "-93.2"]
    assert number_words("", [-93.32899999999999, 1e6]) == ["-93.3", "1000000"]
    assert number_words("time of day", [0.0002778, 8.769, 23.9999]) == ["00:00", "08:46", "24:00"]
    assert cell_words(np.array([[0.5234, -0.0004], [1e-9, 0.1]])) == [
        ["+0.52", "0"],
        ["0", "+0.10"],
    ]
    assert cell_words(np.array([[183.4, -2.2]])) == [["+183", "-2"]]


def test_days_are_dates():
    days = curve([0.0, 59.0], [1.0, 1.0, 0.0], seconds("2025-01-01"), "days")
    assert point_words(days) == ["2025-01-01", "2025-03-01"]


@pytest.mark.parametrize(
    ("low", "high", "first"),
    [
        ("1969-01-01", "1991-06-30", "1970"), ("2017-01-01", "2018-01-01", "2017-01"),
        ("2024-02-25", "2024-03-10", "2024-02-2"), ("1969-12-30", "1970-01-02", "1969-12-30"),
    ],
)  # fmt: skip
def test_dates_along_an_axis_are_firsts_of_what_they_name(low, high, first):
    ticks = calendar_ticks(seconds(low), seconds(high))
    assert 1 < len(ticks) <= MOST_TICKS and seconds(low) <= ticks[0] <= ticks[-1] <= seconds(high)
    words = calendar_words(ticks)
    assert words[0].startswith(first) and len(set(words)) == len(words)
    assert [seconds(word) for word in words] == ticks
