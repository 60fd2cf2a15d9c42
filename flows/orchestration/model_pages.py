"""Prefect's pages of a model's predictions, next to those of the one published before it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from prefect.logging import get_run_logger

from fewpass.flows.orchestration.artifacts import show_table
from fewpass.flows.orchestration.scheduled import durable_task
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.explaining.importance import Importance, importance
from fewpass.pipeline.models.refresh.named_run import run_at
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.planning.engines import engine_for_pass
from fewpass.pipeline.reporting.comparison_page import verdict
from fewpass.pipeline.reporting.figure_rows import importance_rows
from fewpass.pipeline.runs.model import Model, load_model
from fewpass.pipeline.scoring.compared_rows import (
    ComparedRows,
    ComparedSlice,
    ShownRow,
    compared_rows,
)
from fewpass.pipeline.scoring.paired_figures import Difference, ModelComparison, compare
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.pipeline.settings.metric_registry import METRICS, capitalised
from fewpass.pipeline.sizes import counted
from fewpass.storage.dataset import Dataset

MOST_COLUMNS = 40  # of a table
MOST_CELLS = 15  # of a row that is shown, and of one of its lists
THIS, OTHER = "this model", "published before"


class CloseLook(NamedTuple):
    """Predictions of some rows by one model, or by a new one and the one published before."""

    figures: ModelComparison | None  # of two models
    columns: tuple[Importance | None, ...]  # of each model; None where it is unknown
    rows: ComparedRows


def show_compared(new_run: str, before: str | None, dataset: str, where: Execution) -> None:
    """Show a model next to the one published before: figures, columns, slices, the worst rows.

    What cannot be shown is logged: a page that lacks it costs no flow run.

    Parameters
    ----------
    new_run, before
        Addresses of two runs, or of a store; None: no model was published before.
    dataset
        Data set whose rows neither has learnt from.
    """
    runs = (new_run,) if before is None else (before, new_run)
    try:
        seen = look_closely.with_options(task_run_name="look at rows")(runs, dataset, where)
    except BadInput as error:  # of other labels, or other columns
        get_run_logger().warning("No rows of %s are shown: %s", dataset, error)
    else:
        show_look(runs, dataset, seen)


def show_look(runs: Sequence[str], dataset: str, seen: CloseLook) -> None:
    """Show what was seen of rows on the page of the last run's flow."""
    run, rows = runs[-1], seen.rows
    first = "" if rows.rows == rows.of else f"the first {rows.rows:,} of "
    where = f"{first}{counted(rows.of, 'row')} of {dataset}"
    each = {
        "beside": (f"{run} beside {runs[0]}, on {where}", figure_rows(seen.figures)),
        "columns": (f"columns by importance to {run}", _importance_rows(seen.columns)),
        "slices": (f"{run} on slices of {where}", compared_slice_rows(rows.slices)),
        "worst": (f"rows that {run} is worst on, of {where}", row_rows(rows.worst)),
        "fallen": (f"rows that {run} has become worst on, of {where}", row_rows(rows.fallen)),
    }
    for what, (about, table) in each.items():
        if table:
            show_table(run, what, table, about)


@durable_task("look at rows")
def look_closely(
    runs: Sequence[str], dataset: str, where: Execution, matching: Matching = BY_NAME
) -> CloseLook:
    """Read rows some times, and return what the models of runs make of them."""
    models, data = [load_model(run_at(run)) for run in runs], Dataset.open(dataset)
    with engine_for_pass(where, data) as executor:
        figures = compare(models, data, executor, matching) if len(models) > 1 else None
        columns = tuple(_importance(model, data, executor, matching) for model in models)
    names = [one.name for one in columns[-1].terms] if columns[-1] else []
    return CloseLook(figures, columns, compared_rows(models, data, names, matching))


def _importance(
    model: Model, data: Dataset, executor: Executor, matching: Matching
) -> Importance | None:
    with suppress(BadInput):  # the mean features of the rows that it learnt from are gone
        return importance(model, data, executor, rules=matching)
    return None


# -- tables ---------------------------------------------------------------------------------------


def figure_rows(figures: ModelComparison | None) -> list[dict[str, str]]:
    """Lay out the figures of two models, the first published before; none of one alone."""
    if figures is None:
        return []
    old, new = figures.models
    rows = [
        {"figure": capitalised(one.metric)} | _compared(one, was)
        for one, was in zip(new.differences, old.differences, strict=True)
    ]
    if new.evaluation.auc is not None and old.evaluation.auc is not None:
        auc = (new.evaluation.auc, old.evaluation.auc)
        apart = {"difference": f"{auc[0] - auc[1]:+.4f}", "verdict": "-"}
        rows.append({"figure": "AUC", THIS: f"{auc[0]:.4f}", OTHER: f"{auc[1]:.4f}"} | apart)
    return rows


def _compared(new: Difference, old: Difference) -> dict[str, str]:
    return {
        THIS: f"{new.value:.5g}", OTHER: f"{old.value:.5g}",
        "difference": f"{new.difference:+.2g} +- {new.within:.2g}", "verdict": verdict(new),
    }  # fmt: skip


def _importance_rows(each: Sequence[Importance | None]) -> list[dict[str, str]]:
    new, old = each[-1], each[0] if len(each) > 1 else None
    return importance_rows(new, MOST_COLUMNS, old) if new else []


def compared_slice_rows(slices: Sequence[ComparedSlice]) -> list[dict[str, str]]:
    """Lay out what models make of slices: the log loss where there is one, and the error."""
    return [_slice_row(one) for one in slices]


def _slice_row(one: ComparedSlice) -> dict[str, str]:
    row = {"column": one.column, "value": one.value, "rows": f"{one.rows:,}"}
    old, new = (
        {figure.metric: figure for figure in one.figures[m]} for m in (0, len(one.figures) - 1)
    )
    main = "log_loss" if "log_loss" in new else next(iter(new))
    if len(one.figures) == 1:
        shown = dict.fromkeys((main, *(name for name in ("error",) if name in new)))
        return row | {METRICS[name].words: _figure(new[name]) for name in shown}
    name = METRICS[main].words
    row["verdict"] = verdict(new[main])
    row["difference"] = f"{new[main].difference:+.2g} +- {new[main].within:.2g}"
    row |= {name: _figure(new[main]), f"{name}, {OTHER}": _figure(old[main])}
    if main == "log_loss":
        row |= {"error": _figure(new["error"]), f"error, {OTHER}": _figure(old["error"])}
    return row


def _figure(one: Difference) -> str:
    return f"{one.value:.2%}" if one.metric == "error" else f"{one.value:.4g}"


def row_rows(rows: Sequence[ShownRow]) -> list[dict[str, str]]:
    """Lay out single rows: what models make of them, then what their source has."""
    return [_row_row(one) for one in rows]


def _row_row(one: ShownRow) -> dict[str, str]:
    (label, target), *cells = one.cells.items()
    row = {"loss": f"{one.losses[-1]:.4g}", f"row: {label}": _cell(target)}
    row["predicted"] = _cell(one.predicted[-1])
    if len(one.losses) > 1:
        row |= {f"loss, {OTHER}": f"{one.losses[0]:.4g}"}
        row |= {f"predicted, {OTHER}": _cell(one.predicted[0])}
    return row | {f"row: {name}": _cell(value) for name, value in cells[:MOST_CELLS]}


def _cell(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, list):  # features of a row of very many, those that are not 0
        more = f" and {len(value) - MOST_CELLS:,} more" * (len(value) > MOST_CELLS)
        each = (f"{one['feature']} {one['value']:.4g}" for one in value[:MOST_CELLS])
        return f"{', '.join(each)}{more}"
    return f"{value:.8g}" if isinstance(value, float) else str(value)
