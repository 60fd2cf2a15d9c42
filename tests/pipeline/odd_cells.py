"""One model of all kinds of columns, odd cells of each, and every way to score a row.

What differs between two ways is a fault: the same score, or refused by all that can carry the cell.
CSV is text alone: it tells neither an empty text nor a boolean from what they are written as.  JSON
has no dates, no NaN and nothing infinite.  Arrow, and so Parquet and polars, has no whole numbers
beyond 64 bits.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
import re
import runpy
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

import fewpass
from fewpass.pipeline.models.export.export_formats import as_json
from fewpass.pipeline.models.export.plain_model import of_run

PROJECT = Path(__file__).parents[2]
REFUSED, NOT_CARRIED = "refused", "not carried"
Row = Mapping[str, Any]
#: A score of a row, or one of the two words above.
Answer = float | str
Utc, East = dt.UTC, dt.timezone(dt.timedelta(hours=2))


class Trained(NamedTuple):
    """A run, loaded as services do, and a folder for files."""

    run: Path
    model: Any
    pipeline: Any  # of scikit-learn
    document: dict[str, Any]  # model.json
    columns: tuple[str, ...]
    written: dict[str, str]  # how numbers are, by column
    folder: Path
    alone: dict[str, Answer]  # what `predict_one` said of rows: many ways ask it first


def training_rows(n: int = 900) -> dict[str, list[Any]]:
    """Return columns of every kind that a file of text has, with gaps."""
    rng = np.random.default_rng(7)
    gaps = lambda cells: [None if k % 11 == 0 else c for k, c in enumerate(cells)]  # noqa: E731
    days = [dt.datetime(2021, 1, 1) + dt.timedelta(hours=31 * k) for k in range(n)]  # noqa: DTZ001
    rng.shuffle(days)
    amounts = np.exp(rng.normal(5, 2, n)).round(2)
    pick = lambda *of: rng.choice(of, n).tolist()  # noqa: E731
    words = ["good", "bad", "film", "very", "dull", "great"]
    columns = {
        "x": rng.normal(size=n).round(3).tolist(),
        "count": gaps(rng.integers(0, 50, n).tolist()),
        "money": gaps([f"${a:,.2f}" for a in amounts]),
        "preis": [f"{a:,.2f} €".translate(str.maketrans(",.", ".,")) for a in amounts],
        "took": [f"{k % 24:02d}:{k % 60:02d}:07" for k in range(n)],
        "city": gaps(pick("Bern", "Oslo", "Rome", "3 Forks")),
        "code": gaps([int(c) for c in pick(1, 2, 3, 10)]),
        "flag": pick("true", "false"),
        "user": [f"{k % 300}" for k in rng.integers(0, 3000, n)],
        "day": gaps([d.date().isoformat() for d in days]),
        "us": [d.strftime("%m/%d/%Y") for d in days],
        "compact": [d.strftime("%Y%m%d") for d in days],
        "at": gaps([d.isoformat(" ") for d in days]),
        "zoned": [d.replace(tzinfo=Utc).isoformat(" ") for d in days],
        "ts": [int(d.replace(tzinfo=Utc).timestamp()) for d in days],
        "ms": [1000 * int(d.replace(tzinfo=Utc).timestamp()) for d in days],
        "review": gaps([" ".join(rng.choice(words, 7)) for _ in range(n)]),
    }
    signal = np.array([0 if c is None else len(str(c)) for c in columns["city"]])
    noise = rng.normal(size=n)
    columns["label"] = (columns["x"] + signal - signal.mean() + noise > 0).astype(int).tolist()
    return columns


#: What nobody can tell by looking at the cells.
KINDS = {"code": "category", "user": "hash", "ts": "date", "ms": "date", "review": "text"}
#: Columns of lists, which no file of text has.
LISTS = {"tags": "words", "vector": "numbers"}


def trained(folder: Path, encode: str = "linear", **reading: Any) -> Trained:
    """Train a model on a table of text."""
    columns = training_rows()
    pd.DataFrame(columns, dtype=object).to_csv(folder / "train.csv", index=False)
    data, run = folder / f"{encode}.set", folder / f"{encode}.run"
    fewpass.ingest(
        folder / "train.csv", data, label="label", encode=encode, column=KINDS, **reading
    )
    fewpass.train(data, run, lam=0.001, passes=5)
    loaded = fewpass.load(run)
    columns.pop("label")
    document = json.loads(as_json(of_run(str(run))))
    written = {one["columns"][0]: one["read"].get("written") for one in document["columns"]}
    return Trained(
        run, loaded, fewpass.from_run(run), document, tuple(columns), written, folder, {}
    )


# -- odd cells -------------------------------------------------------------------------------------

_NOTHING = [None, math.nan, np.float64("nan"), pd.NA, pd.NaT, ""]
_MOMENT = dt.datetime(2022, 5, 5, 10, 30)  # noqa: DTZ001 - of no zone
_NUMBERS = [
    7, 7.0, -1.5, True, 10**15, 2**53 + 1, 10**20, 10**400, math.inf, -math.inf, Decimal("2.50"),
    np.int64(7), np.float32(0.1), "7", "7.0", " 7 ", "+7", "1e1", "1E1", ".5", "5.", "1_000", "１２",
    "٣", "1e400", "0x10", "inf", "nan", "NaN", "NA", "n/a", "unknown", "?", "-", "12 kg", "1,5",
    "1,250", "12.5", "1,5e3", "1.5e3", "2E2", "2E2 €", "SEK 7,5", "CHF 7.5", "ca. 5", "$1,250.50", "1.250,5 €", "(12)", "12%", "11:47:00", "11:47", "8:05 PM", "007",
    "true", "False", dt.date(2022, 5, 5), _MOMENT, "word",
]  # fmt: skip
_WORDS = [
    "Bern", "bern", " Bern", "nowhere", "NA", "null", "None", "nan", "?", "-", "N/A", "unknown", "3",
    "3.0", "3.00", 3, 3.0, np.int64(3), np.float32(3), "1E1", 1e1, 10, "10", "10.0", 2.5, "2.5",
    10**15, 1e15, 1e16, 10**20, True, False, "True", "TRUE", "true", "1", 1, "0", math.inf,
    Decimal(3), Decimal("3.0"), dt.date(2022, 5, 5), _MOMENT, "2022-05-05", "3 Forks", "a,b", 'a"b',
    "12E456", "１２", "good film", "Good FILM",
]  # fmt: skip
_DATES = [
    "2022-05-05", "2022-5-5", " 2022-05-05 ", "2022-05-05 10:30:00", "2022-05-05T10:30",
    "2022-05-05T10:30:00Z", "2022-05-05 10:30:00+00", "2022-05-05 10:30:00+02",
    "2022-05-05 10:30:00+0200", "2022-05-05 10:30:00 +02:00", "2022-05-05 10:30:00.5",
    "2022-05-05 10:30:00,123456789", "2022-3-1 5:07:00", "2022-3-10T05:00Z",
    "2022-05-05 24:00:00", "2022-05-05 05:60:00", "1969-12-31 23:59:59.5",
    "1957-10-4 19:28:34.75", "2022-02-30", "0000-00-00", "9999-12-31", "0001-01-01",
    "1850-01-01", "2150-01-01", "05/06/2022", "5/6/2022", "05/06/22", "20220505", "2022-W05",
    "2022-05", "2022", "May 5, 2022", "５", "NA", "null", "unknown", "?", "soon", "1651740000",
    dt.date(2022, 5, 5), _MOMENT, _MOMENT.replace(tzinfo=Utc), _MOMENT.replace(tzinfo=East),
    pd.Timestamp("2022-05-05 10:30:00.5"), np.datetime64("2022-05-05"), dt.date(9999, 12, 31),
    1651740000, 1651740000.0, 1651740000000, 1651740000000.0, 1651740000 * 10**6,
    1651740000 * 10**9, 20220505, 20220505.0, 1.5, 0, -5, 9999999999, -62135596800, 10**20, 10**400,
    math.inf, True, Decimal(20220505),
]  # fmt: skip
#: Cells to try by column.
ODD_CELLS: dict[str, list[Any]] = {
    **dict.fromkeys(("x", "count", "money", "preis", "took"), _NOTHING + _NUMBERS),
    **dict.fromkeys(("city", "code", "flag", "user", "review"), _NOTHING + _WORDS),
    **dict.fromkeys(("day", "us", "compact", "at", "zoned", "ts", "ms"), _NOTHING + _DATES),
}


class Case(NamedTuple):
    """An odd cell in a row whose other cells are missing."""

    column: str
    cell: Any

    def row(self, columns: Sequence[str]) -> Row:
        """Return the row."""
        return dict.fromkeys(columns) | {self.column: self.cell}

    def __str__(self) -> str:
        return f"{self.column} = {type(self.cell).__name__} {self.cell!r:.40}"


CASES = [Case(column, cell) for column, cells in ODD_CELLS.items() for cell in cells]


# -- ways ------------------------------------------------------------------------------------------


def _refused(score: Callable[[], Any]) -> Answer:
    """Return a score; or that the row is refused, in words of ours."""
    try:
        return float(score())
    except ValueError as error:  # BadInput is one
        assert len(str(error)) > 20, "a sentence"
        return REFUSED
    except (ArithmeticError, LookupError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"[:60]


def _each(score: Callable[[Trained, Row], Any]) -> Way:
    return lambda model, rows: [_refused(lambda row=row: score(model, row)) for row in rows]


def is_nothing(cell: Any) -> bool:
    return (
        cell is None
        or cell is pd.NA
        or cell is pd.NaT
        or (isinstance(cell, float) and cell != cell)
    )


def typed(rows: Sequence[Row]) -> Any:
    """Return rows as an Arrow table, each column by Arrow's own rules; None where it has no type."""
    columns = {
        name: [None if is_nothing(row[name]) else row[name] for row in rows] for name in rows[0]
    }
    try:
        return pa.table({name: pa.array(cells) for name, cells in columns.items()})
    except (OverflowError, TypeError, pa.ArrowException):
        return None


def _carried_by_arrow(row: Row) -> bool:
    return typed([row]) is not None


def together(
    score: Callable[[Trained, Sequence[Row]], Any],
    is_carried: Callable[[Row], bool] = lambda _: True,
) -> Way:
    """Rows that `predict_one` takes in one call, and all others alone."""

    def way(model: Trained, rows: Sequence[Row]) -> list[Answer]:
        carried = [is_carried(row) for row in rows]
        alone = _alone(model, rows)
        good = [k for k, one in enumerate(alone) if carried[k] and not isinstance(one, str)]
        try:
            many = score(model, [rows[k] for k in good]) if good else ()
            scores = dict(zip(good, many, strict=True))
        except ValueError:
            scores = {}
        return [
            float(scores[k]) if k in scores
            else _refused(lambda row=row: score(model, [row])[0]) if carried[k]
            else NOT_CARRIED
            for k, row in enumerate(rows)
        ]  # fmt: skip

    return way


def _alone(model: Trained, rows: Sequence[Row]) -> list[Answer]:
    """What `predict_one` says of each row; a row is told from others by its cells and their types."""
    keys = [repr(row) for row in rows]
    for key, row in zip(keys, rows, strict=True):
        if key not in model.alone:
            model.alone[key] = _refused(lambda row=row: model.model.predict_one(row)["score"])
    return [model.alone[key] for key in keys]


def _by_table(of: str, frame: Callable[[Any], Any] = lambda table: table) -> Way:
    def score(model: Trained, rows: Sequence[Row]) -> Any:
        return getattr(model, of).decision_function(frame(typed(rows)))

    return together(score, _carried_by_arrow)


def _by_pandas(of: str, dtype: Any = None) -> Way:
    def score(model: Trained, rows: Sequence[Row]) -> Any:
        return getattr(model, of).decision_function(pd.DataFrame(list(rows), dtype=dtype))

    return together(score)


def _by_file(extension: str, write: Callable[[Path, Sequence[Row]], bool]) -> Way:
    """Rows in a file, bad ones skipped: those that are not in the output are refused."""

    def way(model: Trained, rows: Sequence[Row]) -> list[Answer]:
        path, out = model.folder / f"rows.{extension}", model.folder / "scores.parquet"
        if not write(path, [{"id": f"r{k}", **row} for k, row in enumerate(rows)]):
            return [NOT_CARRIED] * len(rows)
        try:
            fewpass.predict(model.run, path, out, keep=["id"], on_bad_row="skip", overwrite=True)
        except ValueError:
            return [REFUSED] * len(rows)
        found = pd.read_parquet(out)
        scores = dict(zip(found["id"], found["score"], strict=True))
        return [scores.get(f"r{k}", REFUSED) for k in range(len(rows))]

    return way


def _csv(path: Path, rows: Sequence[Row]) -> bool:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow(["" if is_nothing(cell) else cell for cell in row.values()])
    path.write_text(text.getvalue(), encoding="utf-8")
    return True


def _by_csv(model: Trained, rows: Sequence[Row]) -> list[Answer]:
    """As Python and pandas write cells: whole numbers with gaps among them get a point."""
    found = _by_file("csv", _csv)(model, rows)
    return [
        one if _is_text_of(model, row) else NOT_CARRIED
        for one, row in zip(found, rows, strict=True)
    ]


def _is_text_of(model: Trained, row: Row) -> bool:
    """Say whether a cell is what its column takes its text for: there are no types in CSV."""
    ((column, cell),) = [(k, c) for k, c in row.items() if not is_nothing(c)] or [("", None)]
    if isinstance(cell, bool):
        return False
    if isinstance(cell, int | float | Decimal | np.number):
        plain = model.written.get(column) in (None, "plain")
        return plain and not re.search(r"e|\.\d*0$", str(cell).removesuffix(".0"))
    return True


def _json_lines(path: Path, rows: Sequence[Row]) -> bool:
    try:
        lines = [json.dumps(_as_json(row), allow_nan=False) + "\n" for row in rows]
    except (TypeError, ValueError):
        return False
    path.write_text("".join(lines), encoding="utf-8")
    return True


def _as_json(row: Row) -> dict[str, Any]:
    plain = lambda c: c.item() if isinstance(c, np.generic) else c  # noqa: E731
    return {name: None if is_nothing(cell) else plain(cell) for name, cell in row.items()}


def _parquet(path: Path, rows: Sequence[Row]) -> bool:
    table = typed(rows)
    if table is not None:
        pq.write_table(table, path)
    return table is not None


def _feather(path: Path, rows: Sequence[Row]) -> bool:
    table = typed(rows)
    if table is not None:
        pa.feather.write_feather(table, path)
    return table is not None


def _by_document(model: Trained, rows: Sequence[Row]) -> list[Answer]:
    """model.json, by examples/score_json.py."""
    answers: list[Answer] = []
    for row in rows:
        try:
            plain = json.loads(json.dumps(_as_json(row), allow_nan=False))
        except (TypeError, ValueError):
            answers.append(NOT_CARRIED)
            continue
        predict = scorer()["predict"]
        answers.append(_refused(lambda plain=plain: predict(model.document, plain)["scores"][0]))
    return answers


@cache
def scorer() -> dict[str, Any]:
    """Return the names of examples/score_json.py."""
    return runpy.run_path(str(PROJECT / "examples/score_json.py"), run_name="score")


#: Rows, whose odd cells are of one type and in one column, to answers.
Way = Callable[[Trained, Sequence[Row]], list[Answer]]
WAYS: dict[str, Way] = {
    "predict_one": _alone,
    "a list of one row": _each(lambda model, row: model.model.decision_function([row])[0]),
    "a list of rows": together(lambda model, rows: model.model.decision_function(list(rows))),
    "Arrow": _by_table("model"),
    "polars": _by_table("model", pl.from_arrow),
    "pandas, of objects": _by_pandas("model", object),
    "estimator of pandas": _by_pandas("pipeline"),
    "estimator of Arrow": _by_table("pipeline"),
    "CSV": _by_csv,
    "JSON lines": _by_file("jsonl", _json_lines),
    "Parquet": _by_file("parquet", _parquet),
    "Feather": _by_file("feather", _feather),
    "model.json": _by_document,
}


def answers(model: Trained, way: Way, cases: Sequence[Case]) -> list[Answer]:
    """Return what a way says of each case, those of cells of one type together."""
    found: dict[int, Answer] = {}
    of_types: dict[type, list[int]] = {}
    for k, case in enumerate(cases):
        of_types.setdefault(type(case.cell), []).append(k)
    for places in of_types.values():
        rows = [cases[k].row(model.columns) for k in places]
        found |= dict(zip(places, way(model, rows), strict=True))
    return [found[k] for k in range(len(cases))]


def differences(
    model: Trained, cases: Sequence[Case] = CASES, ways: Mapping[str, Way] = WAYS
) -> list[tuple[Case, str]]:
    """Return the cases of which ways say different things, and what each says."""
    every = {name: answers(model, way, cases) for name, way in ways.items()}
    wrong = []
    for k, case in enumerate(cases):
        said = {name: got[k] for name, got in every.items() if got[k] != NOT_CARRIED}
        if not _agree([*said.values()]):
            wrong.append((case, f"{case}: {_told(said)}"))
    return wrong


def _agree(found: Sequence[Answer]) -> bool:
    scores = [one for one in found if not isinstance(one, str)]
    if len(scores) not in (0, len(found)):
        return False
    return bool(not scores or max(scores) - min(scores) <= 1e-5 * (1 + abs(scores[0])))


def _told(said: Mapping[str, Answer]) -> str:
    groups: dict[str, list[str]] = {}
    for name, answer in said.items():
        key = answer if isinstance(answer, str) else f"{answer:.4f}"
        groups.setdefault(key, []).append(name)
    return "; ".join(f"{answer}: {', '.join(names)}" for answer, names in groups.items())
