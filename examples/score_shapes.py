"""Score rows by the shapes of a model.json: python score_shapes.py MODEL.json < ROWS.jsonl"""

import json
import math
import sys
from bisect import bisect_right
from datetime import UTC, datetime

DAY, YEAR = 86400, 365.25 * 86400
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def read_cell(cell, read):
    """Return a number, a moment (seconds since 1970) or a word; None: it is missing."""
    if cell is None or cell in ("", *read["missing"]):
        return None
    if read["cell"] == "moment" and isinstance(cell, str):
        when = datetime.fromisoformat(cell)
        return when.replace(tzinfo=when.tzinfo or UTC).timestamp() // 1
    return str(cell) if read["cell"] == "word" else float(cell)


def stepped(x, step):
    if step["step"] == "standardise":
        return (x - step["mean"]) / step["deviation"]
    first, last = step["first"], step["last"]  # in_years
    beyond = max(x - last, 0) - max(first - x, 0) if last - first >= YEAR else 0
    x -= math.copysign(math.ceil(abs(beyond) / YEAR), beyond) * YEAR
    return min(max(x, first), last)


def value_of(row, axis):
    """Return what a function is a function of: a number, or a word; None: it is missing."""
    x = read_cell(row.get(axis["column"]), axis["read"])
    if x is None or axis["part"] in ("", "days"):
        for step in axis["steps"] if x is not None else ():
            x = stepped(x, step)
        return x
    when = datetime.fromtimestamp(x, UTC)
    parts = {"weekday": WEEKDAYS[when.weekday()], "month": str(when.month), "hour": str(when.hour)}
    parts |= {"day of the year": when.timetuple().tm_yday, "time of day": x % DAY / 3600}
    return parts[axis["part"]]


def shares(row, axis):
    """Return the points next to a row, and its share of each; missing cells are at the last."""
    x, points = value_of(row, axis), axis["knots"] or axis["levels"]
    if x is None:
        return [(len(points), 1.0)]
    if axis["levels"]:
        return [(points.index(x) if x in points else len(points) - 1, 1.0)]
    k = min(max(bisect_right(points, x), 1), len(points) - 1)
    right = min(max((x - points[k - 1]) / (points[k] - points[k - 1]), 0.0), 1.0)
    return [(k - 1, 1.0 - right), (k, right)]


def scores(shapes, row):
    """Return the sum of all functions, for each score."""
    sums = list(shapes["constants"])
    for k in range(len(sums)):
        for one in shapes["columns"]:
            sums[k] += sum(s * one["values"][k][i] for i, s in shares(row, one["of"]))
        for one in shapes["pairs"]:
            a, b = shares(row, one["a"]), shares(row, one["b"])
            sums[k] += sum(s * t * one["values"][k][i][j] for i, s in a for j, t in b)
    return sums


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        shapes = json.load(file)["shapes"]
    for line in sys.stdin:
        print(json.dumps(scores(shapes, json.loads(line))))
