"""`fewpass cross-validate`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from fewpass.flows.options import (
    OUTPUT,
    PLAN_SOURCE,
    TITLE,
    TITLES,
    Names,
    Output,
    PlanSource,
    takes,
)
from fewpass.pipeline.settings.cross_validation_plan import CrossValidationPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_passes

if TYPE_CHECKING:
    from rich.table import Table

    from fewpass.pipeline.training.cross_validation import CrossValidated


@takes(CrossValidationPlan, Execution, but=("source",))
class CrossValidationOptions:
    """Options of a cross-validation: the training on all folds but one, and where tasks run."""

    set: Names = field(default=(), metadata={TITLE: TITLES[TrainingPlan]})
    """A setting of the method itself, such as --set solver.gamma0=0.5; may be repeated.  Without
    --solver it is one of asgd."""


FOLDS = CrossValidationOptions()


def cross_validate(
    dataset: str,
    /,
    *,
    training: CrossValidationOptions = FOLDS,
    plan_source: PlanSource = PLAN_SOURCE,
    output: Output = OUTPUT,
) -> int:
    """Show what `fewpass.cross_validate` finds."""
    from rich.console import Group

    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.outcomes import cross_validation_facts
    from fewpass.flows.settings import as_toml, training_settings
    from fewpass.pipeline.planning.engines import engine_for_training
    from fewpass.pipeline.settings.flat_settings import flat
    from fewpass.pipeline.training.cross_validation import cross_validated

    terminal = Terminal(output)
    plan, place = training_settings(dataset, training, plan_source, CrossValidationPlan)
    if plan_source.dry_run:
        terminal.result(flat(plan, place), as_toml(plan, place))
        return 0
    terminal.plan(as_toml(plan, place))
    with (
        work_display(terminal, "Cross-validating") as show,
        engine_for_training(place, plan.of_one_lam) as executor,
    ):
        results = cross_validated(
            plan, executor, lambda event: show(None, format_passes(event.cursor.passes, ".3g"))
        )
    facts = {"dataset": dataset, "results": [*map(cross_validation_facts, results)]}
    tables = [*map(fold_table, results), *([lam_table(results)] if len(results) > 1 else [])]
    terminal.result(facts, Group(*tables))
    return 0


def fold_table(result: CrossValidated) -> Table:
    """Lay out what became of every fold, and the means with their standard errors."""
    from fewpass.flows.display.console import rows_table
    from fewpass.pipeline.reporting.figure_rows import fold_rows

    passes = format_passes(result.passes, ".3g")
    title = f"lam {result.lam:.6g}, {result.solver}, {passes} for all folds"
    return rows_table(title, fold_rows(result.folds, result.means))


def lam_table(results: Sequence[CrossValidated]) -> Table:
    """Lay out the mean loss of every lam, the least marked."""
    from fewpass.flows.display.console import rows_table

    losses = [next(one for one in each.means if one.metric == "loss") for each in results]
    least = min(loss.mean for loss in losses)
    rows = [
        {
            "lam": f"{each.lam:.6g}",
            "loss": f"{loss.mean:.6g} +- {loss.standard_error:.2g}",
            "": "least" if loss.mean == least else "",
        }
        for each, loss in zip(results, losses, strict=True)
    ]
    return rows_table("Mean over folds", rows, of_numbers=True)
