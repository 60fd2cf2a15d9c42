"""The engine that a training or a pass runs on: what was asked for, or what suits its length."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import Executor, open_executor
from fewpass.pipeline.planning.place import place_for, place_of, seconds_of_pass
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.storage.dataset import Dataset


def engine_for_training(
    asked: Execution, plan: TrainingPlan, options: dict[str, Any] | None = None
) -> AbstractContextManager[Executor]:
    """Open what a training runs on; `options` are those of its data set's storage.

    Raises
    ------
    BadInput
        A cluster was asked for, and rows of a source are read once.
    OSError
        No scheduler answers, or no worker comes.
    """
    if plan.source is None:
        return open_executor(*place_of(asked, plan, Dataset.open(plan.dataset, options).manifest))
    if asked.engine != "threads":
        raise BadInput(
            "Rows that are learnt while they are read go through this process alone. Leave "
            "`scheduler` and `workers` out, or make a data set of them first (`ingest_into` does)."
        )
    return open_executor(asked, "rows are read once")


def engine_for_pass(asked: Execution, data: Dataset) -> AbstractContextManager[Executor]:
    """Open what one pass over a data set runs on; OSError as above."""
    return open_executor(*place_for(asked, seconds_of_pass(data.manifest)))
