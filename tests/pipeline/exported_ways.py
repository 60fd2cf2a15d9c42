"""Exported models as ways to score odd cells: SQL in each database, ONNX, MLflow.

What a format cannot carry is said here: a tensor of ONNX has numbers or text, and no dates; no
database has a text (`TextTerm`) in its model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from onnxruntime import InferenceSession

import fewpass.mlflow
from fewpass.pipeline.models.export.export_formats import as_onnx
from fewpass.pipeline.models.export.plain_model import of_run
from fewpass.pipeline.models.export.sql_select import as_select
from fewpass.pipeline.tables.encoding.cells import hashable
from fewpass.pipeline.tables.encoding.python_cells import arrow_cells
from fewpass.pipeline.tables.encoding.terms import (
    ColumnTerms,
    HashTerm,
    NumberCell,
    TextTerm,
    WordCell,
)
from tests.pipeline.odd_cells import (
    NOT_CARRIED,
    REFUSED,
    Answer,
    Row,
    Trained,
    Way,
    is_nothing,
    together,
    typed,
)


class _Described(NamedTuple):
    """A recipe without the columns that SQL has not: where nothing is in them, they add 0."""

    columns: tuple[ColumnTerms, ...]

    def described(self) -> tuple[ColumnTerms, ...]:
        return self.columns


def by_sql(dialect: str, databases: Any) -> Way:
    """Return the way of one database; what is refused has no score."""

    def way(model: Trained, rows: Sequence[Row]) -> list[Answer]:
        plain = of_run(str(model.run))
        known = tuple(
            one for one in plain.recipe.described() if not isinstance(one.terms[0], TextTerm)
        )
        left_out = {*model.columns} - {name for one in known for name in one.columns}
        carried = [
            typed([row]) is not None and all(is_nothing(row[name]) for name in left_out)
            for row in rows
        ]
        if not any(carried):
            return [NOT_CARRIED] * len(rows)
        table = typed([*compress(rows, carried)])
        table = table.cast(pa.schema([_stored(field) for field in table.schema]))
        words = {
            one.columns: _words(rows, one.columns)
            for one in known
            if isinstance(one.terms[0], HashTerm)
        }
        select = as_select(plain._replace(recipe=_Described(known)), dialect, "input", words)
        scores = databases.answers(dialect, select, table).column("score").to_pylist()
        found = iter(REFUSED if score is None else score for score in scores)
        return [next(found) if one else NOT_CARRIED for one in carried]

    return way


def _stored(field: Any) -> Any:
    return field.with_type(pa.string()) if pa.types.is_null(field.type) else field


def _words(rows: Sequence[Row], columns: tuple[str, ...]) -> list[str]:
    cells = [hashable(arrow_cells([row[columns[0]]])) for row in rows if len(columns) == 1]
    return sorted({"", *(word for one in cells for word in one.drop_null().to_pylist())})


def by_onnx(model: Trained, rows: Sequence[Row]) -> list[Answer]:
    """Numbers as float64 and words as text, each a column (n, 1)."""
    reads, session = _session(model.run)
    answers: list[Answer] = []
    for row in rows:
        feeds = {name: _tensor(row[name], reads[name]) for name in model.columns}
        if any(feed is None for feed in feeds.values()):
            answers.append(NOT_CARRIED)
            continue
        (scores,) = session.run(["scores"], feeds)
        answers.append(float(scores[0]))
    return answers


@cache
def _session(run: Path) -> tuple[dict[str, Any], InferenceSession]:
    plain = of_run(str(run))
    described = plain.recipe.described()
    reads = {one.columns[0]: one.read for one in described if len(one.columns) == 1}
    return reads, InferenceSession(as_onnx(plain))


def _tensor(cell: Any, read: Any) -> Any:
    """Return a cell as a model takes it; None where it is of no type of the input's."""
    if isinstance(read, WordCell):
        is_text = isinstance(cell, str) or is_nothing(cell)
        return np.array([["" if is_nothing(cell) else cell]], object) if is_text else None
    if is_nothing(cell):
        return np.array([[math.nan]])
    if not isinstance(read, NumberCell) or isinstance(cell, str):
        return None
    try:
        return np.array([[float(cell)]])
    except (TypeError, OverflowError):
        return None


#: MLflow has `fewpass.load` score rows behind its signature: a column of each kind is enough.
_OF_MLFLOW = ("x", "city", "day")


def _by_mlflow(model: Trained, rows: Sequence[Row]) -> Any:
    return _loaded_by_mlflow(model.run).predict(pd.DataFrame(list(rows), dtype=object))["score"]


@cache
def _loaded_by_mlflow(run: Path) -> Any:
    from mlflow import pyfunc  # two seconds

    place = run.with_suffix(".mlflow")
    fewpass.mlflow.save_model(str(run), place)
    return pyfunc.load_model(str(place))


#: Frames through the signature of the stored model.
by_mlflow = together(_by_mlflow, lambda row: any(not is_nothing(row[name]) for name in _OF_MLFLOW))
