"""`fewpass plan`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from fewpass.flows.options import (
    OUTPUT,
    PLAN_SOURCE,
    TRAINING,
    Output,
    PlanSource,
    TrainingOptions,
)
from fewpass.pipeline.errors import BadInput

IS_READ_ONCE = (
    "A source of rows is read once, and by a plan not at all: with --dry-run the settings are "
    "shown. Ingest it, and plan on the data set, for passes, bytes and memory."
)


def plan(
    dataset: str,
    /,
    *,
    training: TrainingOptions = TRAINING,
    plan_source: PlanSource = PLAN_SOURCE,
    output: Output = OUTPUT,
) -> int:
    """Predict what a training takes: passes, bytes and memory; suggest what would help.

    Takes the options of train.  Reads the data set's statistics, and writes nothing.

    Parameters
    ----------
    dataset
        Data set made by ingest.
    """
    from fewpass.flows.commands import plan_tables
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.settings import as_toml, training_settings
    from fewpass.pipeline.settings.flat_settings import flat
    from fewpass.pipeline.tables.stream.sources import is_source

    terminal, from_source = Terminal(output), is_source(dataset)
    if from_source and not plan_source.dry_run:
        raise BadInput(IS_READ_ONCE)
    plan, place = training_settings(dataset, training, plan_source, is_source=from_source)
    if plan_source.dry_run:
        terminal.result(flat(plan, place), as_toml(plan, place))
        return 0
    terminal.plan(as_toml(plan, place))
    plan_tables.print_forecast(terminal, dataset, plan, place)
    return 0
