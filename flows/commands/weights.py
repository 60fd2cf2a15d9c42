"""`fewpass weights`."""

# ruff: noqa: PLC0415

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from csv import writer as csv_writer
from typing import TYPE_CHECKING, Annotated

from fewpass.flows.display.printing import printable
from fewpass.flows.options import (
    OUTPUT,
    Output,
    named,
    whole,
)
from fewpass.flows.refusals import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.reporting.largest_weights import NamedWeight
    from fewpass.pipeline.runs.model import Model


def weights(
    run: str,
    /,
    *,
    top: Annotated[int, whole(1)] = 20,
    label: Annotated[str | None, named("--class")] = None,
    csv: bool = False,
    by_column: bool = False,
    held_out: str | None = None,
    names: str | None = None,
    output: Output = OUTPUT,
) -> int:
    """List the largest weights of a run's model, with the names of the features.

    Parameters
    ----------
    run
        Folder or address of the run, or of a store that has published one.
    top
        How many, of each class [default: 20].
    label
        One class of a model of several [default: each].
    csv
        Print them as CSV.
    by_column
        List the columns of the source by how important they are, in place of features: their share
        of the scores' variance, and how much the loss grows without each.
    held_out
        Data set whose rows say so [default: that of the training, or what ingest stored next to
        its data set with --test-fraction; else the rows learnt from].
    names
        Vowpal Wabbit text whose first 4 MB name hashed columns that the model has no names of.
    """
    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.models.refresh.store_state import run_at
    from fewpass.pipeline.reporting.largest_weights import classes_of, largest_weights
    from fewpass.pipeline.runs.model import load_model

    model = load_model(run_at(run))
    if by_column:
        return _by_column(Terminal(output), model, held_out, top)
    if held_out is not None:
        raise UsageError("--held-out is for the importance of columns: add --by-column.")
    labels = (label,) if label is not None else classes_of(model) or (None,)
    given_names = _names(model, names)
    rows = [
        (of, weight) for of in labels for weight in largest_weights(model, top, of, given_names)
    ]
    intercept = model.weights.intercept
    facts = {
        "run": model.run.url,
        "intercept": getattr(intercept, "tolist", lambda: intercept)(),
        "weights": [{"label": of} | weight._asdict() for of, weight in rows],
    }
    Terminal(output).result(facts, _as_csv(rows) if csv else weights_table(rows))
    return 0


def _by_column(terminal: Terminal, model: Model, held_out: str | None, top: int) -> int:
    """List the columns by their importance on held-out rows, or on those of the training."""
    from fewpass.flows.cluster import engine_for_pass
    from fewpass.flows.commands.evaluation_tables import importance_facts, importance_table
    from fewpass.flows.commands.report_tables import held_out_rows
    from fewpass.flows.display.bars import rows_display
    from fewpass.pipeline.explaining.importance import importance
    from fewpass.pipeline.settings.execution import Execution
    from fewpass.storage.dataset import Dataset

    plan = model.record.plan
    data = held_out_rows(plan, held_out)
    if data is None:
        if plan.source is not None:
            raise UsageError("No rows were stored: --held-out DATASET names some.")
        terminal.say("There are no held-out rows: those that were learnt from.", style="yellow")
        data = Dataset.open(plan.dataset)
    with (
        engine_for_pass(Execution(), data) as executor,
        rows_display(terminal, "Columns", data.n_rows) as count,
    ):
        figures = importance(model, data, executor, count)
    facts = {"run": model.run.url, "dataset": data.folder.url} | importance_facts(figures)
    terminal.result(facts, importance_table(figures, top))
    return 0


def _names(model: Model, source: str | None) -> Mapping[int, str]:
    """Return names of hashed columns by more of the text than the model remembers."""
    from fewpass.pipeline.reporting.largest_weights import NO_NAMES

    if source is None:
        return NO_NAMES
    if model.record.columns is not None:
        raise UsageError("--names is for Vowpal Wabbit text, but this model knows its columns.")
    from fewpass.pipeline.tables.readers.vw_names import names_in  # Arrow, for this alone

    return names_in(source, model.record.n_features)


def weights_table(rows: Sequence[tuple[str | None, NamedWeight]]) -> Table:
    """Lay weights out, one below the other, each with its class where there are several."""
    from fewpass.flows.display.console import titled_table

    table = titled_table("Largest weights")
    several = any(of is not None for of, _ in rows)
    for name in ["class"] * several + ["feature"]:
        table.add_column(name, style="cyan", overflow="fold")
    table.add_column("weight", justify="right")
    units = any(weight.per_unit not in (None, weight.weight) for _, weight in rows)
    if units:
        table.add_column("per unit of the source", justify="right")
    for of, weight in rows:
        per_unit = "" if weight.per_unit is None else f"{weight.per_unit:.6g}"
        cells = [printable(weight.feature), f"{weight.weight:+.6g}", *([per_unit] * units)]
        table.add_row(*([printable(of or "")] * several), *cells)
    return table


def _as_csv(rows: Sequence[tuple[str | None, NamedWeight]]) -> str:
    text = io.StringIO()
    writer = csv_writer(text, lineterminator="\n")
    writer.writerow(("class", "feature", "weight", "per_unit"))
    for of, weight in rows:
        writer.writerow((of or "", *weight))
    return text.getvalue().rstrip("\n")
