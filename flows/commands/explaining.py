"""`fewpass explain`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fewpass.flows.display.printing import printable
from fewpass.flows.options import FIXED, OUTPUT, Output, given, named, takes
from fewpass.flows.refusals import UsageError
from fewpass.pipeline.settings.prediction_plan import ExplanationPlan
from fewpass.pipeline.sizes import counted

if TYPE_CHECKING:
    from rich.table import Table

    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.explaining.explain import ExplainedRow
    from fewpass.pipeline.runs.model import Model

SHOWN = 40  # characters of a value
TERMS = 8  # of a row


@takes(ExplanationPlan, but=FIXED)
class ExplanationOptions:
    """Options of an explanation, and of reading rows."""


EXPLANATION = ExplanationOptions()


def explain(
    run: str,
    inputs: Annotated[str | None, named("INPUT")] = None,
    out: str | None = None,
    /,
    *,
    function: str | None = None,
    html: bool = False,
    weights: bool = False,
    csv: bool = False,
    names: str | None = None,
    by_column: bool = False,
    held_out: str | None = None,
    asked: ExplanationOptions = EXPLANATION,
    output: Output = OUTPUT,
) -> int:
    """Show what `fewpass.explain` finds.

    With --json all functions are written, point by point.

    Parameters
    ----------
    function
        Print the function of this column, or pair A:B.
    html
        Draw functions on a page, RUN/report/functions.html.
    weights
        Show the weights of an additive model, not its functions.
    csv
        Print weights as CSV.
    names
        Vowpal Wabbit text that names hashed columns. Its first 4 MB are read, for columns that the
        model has no names of.
    by_column
        List columns by importance: share of the scores' variance, and how much the loss grows
        without each.
    held_out
        Data set to measure it on, with --by-column [default: that of the training, or what ingest
        stored next to its data set with --test-fraction; else the rows learnt from].
    """
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.settings import checked
    from fewpass.pipeline.models.refresh.named_run import run_at
    from fewpass.pipeline.reporting.model_shapes import is_additive
    from fewpass.pipeline.runs.model import load_model

    of_weights = {"--weights": weights, "--csv": csv, "--names": names}
    of_shapes = {"--function": function, "--html": html}
    of_columns = {"--by-column": by_column, "--held-out": held_out}
    plan = checked(ExplanationPlan, given(asked))
    terminal, model = Terminal(output), load_model(run_at(run))
    if inputs is not None:
        _leave_out({**of_weights, **of_shapes, **of_columns}, "a model as a whole", "INPUT")
        plan.refuse_others(written=out is not None)
        return _explain_rows(terminal, model, inputs, out, plan)
    plan.refuse_reading()
    from fewpass.flows.commands.explained_model import show_columns, show_shapes, show_weights

    if by_column:
        others = {**of_weights, **of_shapes, "--class": plan.class_label}
        _leave_out(others, "functions and weights", "--by-column")
        show_columns(terminal, model, held_out, plan.top)
        return 0
    if held_out is not None:
        raise UsageError("--held-out is for the importance of columns: add --by-column.")
    if any(of_shapes.values()) or (is_additive(model) and not any(of_weights.values())):
        _leave_out(of_weights, "weights", next((n for n, v in of_shapes.items() if v), ""))
        if function is not None:
            _leave_out({"--top": plan.top}, "several functions", "--function")
        show_shapes(terminal, model, plan.class_label, plan.top, function, html=html)
    else:
        show_weights(terminal, model, plan.class_label, plan.top, names, csv=csv)
    return 0


def _leave_out(options: dict[str, Any], about: str, other: str) -> None:
    """Refuse an option that is about another thing than was asked for."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{name} is about {about}. Leave {name} or {other} out.")


def _explain_rows(
    terminal: Terminal, model: Model, input_: str, out: str | None, plan: ExplanationPlan
) -> int:
    from rich.console import Group

    from fewpass.flows.commands.predicting import say_what_was_odd
    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import facts_table
    from fewpass.pipeline.explaining import explain as explaining

    if out is None:
        shown = explaining.explain_rows(model, [input_], plan)
        facts = {"run": model.run.url, "rows": [_facts(one) for one in shown]}
        terminal.result(facts, Group(*(row_table(one, plan.top or TERMS) for one in shown)))
        return 0
    with work_display(terminal, "Explaining") as show:
        result = explaining.explain(
            model, [input_], out, plan, lambda now: show(now.fraction, counted(now.rows, "row"))
        )
    say_what_was_odd(terminal, result)
    written = {
        "at": result.output, "rows": result.rows, "skipped rows": result.skipped or None,
        "columns": len(result.columns),
    }  # fmt: skip
    terminal.result(result._asdict(), facts_table("Contributions", written))
    return 0


def _facts(row: ExplainedRow) -> dict[str, Any]:
    return row._asdict() | {"terms": [_plain(one._asdict()) for one in row.terms]}


def _plain(term: dict[str, Any]) -> dict[str, Any]:
    """Write values that JSON has no word for, such as dates, as text."""
    value = term["value"]
    usual = value is None or isinstance(value, bool | int | float | str)
    return term | {"value": value if usual else str(value)}


def row_table(row: ExplainedRow, top: int) -> Table:
    """Lay out what columns contribute to a row's score."""
    from fewpass.flows.display.console import titled_table

    of = "" if row.label is None else f" of {row.label}"
    title = f"Row {row.row}: predicted {row.predicted}, score{of} {row.score:.6g}"
    table = titled_table(title)
    table.add_column("column", style="cyan", overflow="fold")
    table.add_column("value", overflow="fold")
    table.add_column("contributes", justify="right")
    table.add_row("(base: the mean score)", "", f"{row.base:+.6g}")
    if row.offset:
        table.add_row("(offset)", "", f"{row.offset:+.6g}")
    for one in row.terms[:top]:
        value = "missing" if one.value is None else f"{one.value!s:.{SHOWN}}"
        table.add_row(printable(one.name), printable(value), f"{one.contribution:+.6g}")
    if rest := row.terms[top:]:
        more = sum(one.contribution for one in rest)
        table.add_row(f"({len(rest):,} others)", "", f"{more:+.6g}")
    return table
