"""`fewpass explain`: the first rows of an input for people, or all rows into a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.explaining.explanation import Explainer
from fewpass.pipeline.explaining.score_terms import BETWEEN
from fewpass.pipeline.outputs import is_data_set
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.scored_file import (
    PredictionProgress,
    PredictionResult,
    ScoredOutput,
    written_rows,
)
from fewpass.pipeline.scoring.scored_rows import open_like
from fewpass.pipeline.scoring.scoring_budget import scored_pieces, scoring_budget
from fewpass.pipeline.settings.prediction_plan import ExplanationPlan
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.pipeline.tables.readers.source import ParsedRows, Piece, Source
from fewpass.pipeline.tables.stream.parsed_pieces import each_piece
from fewpass.storage.table import DenseTable, Table, cut

#: Columns of a file of contributions at most.
MOST_COLUMNS = 10_000


class TermOfRow(NamedTuple):
    """Contribution of one term to the score of a row."""

    name: str
    value: Any  # of the column, as the input has it; None where it is missing or not one
    contribution: float


class ExplainedRow(NamedTuple):
    """A row's score explained: score = base + offset + all contributions."""

    row: int  # from 1, of those that are not skipped
    predicted: Any
    label: Any  # that the score is of, where there are several scores
    score: float
    base: float  # the mean score of the rows that the model learnt from
    offset: float
    terms: tuple[TermOfRow, ...]  # the largest contribution first


def explain_rows(model: Model, inputs: Sequence[str], plan: ExplanationPlan) -> list[ExplainedRow]:
    """Explain the scores of the first rows of files.

    Parameters
    ----------
    model
        Of any run.
    inputs
        Files as for `fewpass predict`.
    plan
        How many rows, how they are read, and the class whose scores are explained.

    Raises
    ------
    BadInput
        Rows are unreadable or do not have the model's columns; there is no such class.
    """
    _require_files(inputs)
    explainer = Explainer.of(model, plan.class_label)
    model = explainer.model
    budget = scoring_budget(model, plan.memory)
    source = open_like(model, inputs, plan.options, budget, passes_features=True)
    size = scored_pieces(budget, model, 1).bytes
    return [*islice(_explained(explainer, source, size), plan.rows)]


def _explained(explainer: Explainer, source: Source, size: int) -> Iterator[ExplainedRow]:
    recipe = recipe_in(explainer.model.record.columns)
    names = [one.name for one in recipe.columns] if recipe else explainer.terms.names

    def parsed(_number: int, piece: Piece) -> ParsedRows:
        return source.parse(piece)

    before = 0
    with closing(each_piece(source.pieces(size), 1, 1, parsed)) as pieces:
        for one in pieces:
            cells = dict(zip(names, one.passed, strict=False))  # files of no table have none
            for first in range(one.table.n_rows):
                table = cut(one.table, first, first + 1)
                values = {name: column[first].as_py() for name, column in cells.items()}
                yield _row(explainer, table, values, before + first + 1)
            before += one.table.n_rows


def _row(explainer: Explainer, table: Table, values: dict[str, Any], number: int) -> ExplainedRow:
    why = explainer.explain(table)
    contributions = why.contributions[0]
    order = np.argsort(-np.abs(contributions), kind="stable").tolist()
    terms = tuple(
        TermOfRow(why.names[t], _value(explainer, table, values, t), float(contributions[t]))
        for t in order
        if contributions[t] != 0.0
    )
    label = None if why.labels is None else why.labels[0].item()
    return ExplainedRow(
        number, why.predicted[0].item(), label, float(why.score[0]), float(why.base[0]),
        float(why.offset[0]), terms,
    )  # fmt: skip


def _value(explainer: Explainer, table: Table, values: dict[str, Any], t: int) -> Any:
    """Return what stands in the column of a term, or in its two."""
    columns = explainer.terms.columns_of(t)
    if values:
        cells = [values.get(name) for name in columns]
        if len(cells) == 1:
            return cells[0]
        return BETWEEN.join("missing" if cell is None else str(cell) for cell in cells)
    if isinstance(table, DenseTable):
        return float(table.X[0, t])
    place = np.flatnonzero(table.indices == t)
    return float(table.data[place[0]]) if place.size else 0.0


def explain(
    model: Model,
    inputs: Sequence[str],
    output: str,
    plan: ExplanationPlan,
    on_progress: Callable[[PredictionProgress], None] = lambda _: None,
) -> PredictionResult:
    """Write what every column contributes to the score of every row.

    Parameters
    ----------
    output
        A .parquet or .csv file: predicted, label (of several classes), score, base, offset (where
        rows have some), and `contribution_NAME` for every column.
    plan
        How the input is read, the columns of it that are written first, and as for `explain_rows`.

    Raises
    ------
    BadInput
        As for `explain_rows`, or the output must not be written, or has too many columns.
    """
    _require_files(inputs)
    explainer = Explainer.of(model, plan.class_label)
    if output.endswith(".npy"):
        raise BadInput("Contributions are several numbers for each row. Write .parquet or .csv.")
    if (n := len(explainer.terms.names)) > MOST_COLUMNS:
        raise BadInput(
            f"The file would have {n:,} columns. Explain some rows (`rows`), which shows the "
            "largest contributions of each."
        )
    out = ScoredOutput(output, plan, on_progress)
    return written_rows(lambda _raw: explainer, model, inputs, out).result


def _require_files(inputs: Sequence[str]) -> None:
    for one in inputs:
        if is_data_set(one):
            raise BadInput(
                f"{one} is a data set, which has features and no columns as they were. Name the "
                "files that it was made of, or others like them."
            )
