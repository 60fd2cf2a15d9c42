"""`fewpass cross-validate`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

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

#: Figures that a table has, of those that there are; --json has all.
SHOWN = ("loss", "error", "auc", "mae", "r2")


@takes(CrossValidationPlan, Execution, but=("source",))
class CrossValidationOptions:
    """What to train on all folds but one, and where tasks run."""

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
    """Cross-validate a training: a model for each fold, all in the same passes, each certified.

    Chunks of the shuffled data set are dealt to folds. It takes the options of train, tells how
    good each fold's model is on the rows it has not learnt from, and stores nothing.

    Parameters
    ----------
    dataset
        Data set made by ingest.
    """
    from rich.console import Group

    from fewpass.flows.cluster import engine_for_training
    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.outcomes import cross_validation_facts
    from fewpass.flows.settings import as_toml, training_settings
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
            plan, executor, lambda event: show(0.0, format_passes(event.cursor.passes, ".3g"))
        )
    facts = {"dataset": dataset, "results": [*map(cross_validation_facts, results)]}
    tables = [*map(fold_table, results), *([lam_table(results)] if len(results) > 1 else [])]
    terminal.result(facts, Group(*tables))
    return 0


def fold_table(result: CrossValidated) -> Table:
    """Lay out what became of every fold, and the means with their standard errors."""
    from fewpass.flows.display.console import titled_table

    means = {one.metric: one for one in result.means if one.metric in SHOWN}
    table = titled_table(
        f"lam {result.lam:.6g}, {result.solver}, "
        f"{format_passes(result.passes, '.3g')} for all folds"
    )
    for name in ("fold", "rows", "objective", "above\noptimum", *means):
        table.add_column(name, justify="right", no_wrap=True)
    for fold in result.folds:
        figures = [_figure(fold.evaluation, name) for name in means]
        table.add_row(
            f"{fold.fold}", f"{fold.rows:,}", f"{fold.objective:.6g}", f"{fold.gap:.1e}", *figures
        )
    table.add_row("mean", "", "", "", *(f"{one.mean:.5g}" for one in means.values()), style="bold")
    errors = (f"+- {one.standard_error:.2g}" for one in means.values())
    table.add_row("standard error", "", "", "", *errors)
    return table


def _figure(evaluation: Any, name: str) -> str:
    from fewpass.pipeline.scoring.metric import Metric

    figure = Metric(name).figure(evaluation)  # type: ignore[arg-type]
    return "-" if figure is None else f"{figure:.5g}"


def lam_table(results: Sequence[CrossValidated]) -> Table:
    """Lay out the mean loss of every lam, the least marked."""
    from fewpass.flows.display.console import titled_table

    table = titled_table("Mean over folds")
    for name in ("lam", "loss", "standard\nerror", ""):
        table.add_column(name, justify="right", no_wrap=True)
    losses = [next(one for one in each.means if one.metric == "loss") for each in results]
    least = min(loss.mean for loss in losses)
    for each, loss in zip(results, losses, strict=True):
        best = "least" if loss.mean == least else ""
        table.add_row(f"{each.lam:.6g}", f"{loss.mean:.6g}", f"{loss.standard_error:.2g}", best)
    return table
