"""The engine that tasks run on; reaching a Dask cluster, or saying why not.

What opens one is imported when it does: a command that threads do all of need not wait.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from fewpass.flows import cluster_logs
from fewpass.flows.refusals import BadPlace
from fewpass.flows.spared_imports import allow_frames
from fewpass.pipeline.errors import NoWorkers
from fewpass.pipeline.settings.execution import LOCAL, NONE, Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.storage.dataset import Dataset

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor

_ADDRESS = re.compile(r"\w+://\S+|[^\s/:]+:\d+")


def engine_for_training(place: Execution, plan: TrainingPlan) -> AbstractContextManager[Executor]:
    """Open what a training runs on: what `place` asks for, or what suits its length."""
    if plan.source is not None:
        if place.engine != "threads":
            raise BadPlace(
                "Rows that are learnt while they are read go through this process alone. Leave "
                "--scheduler and --workers out, or keep them as a data set (--keep)."
            )
        return cluster(place, "rows are read once")
    from fewpass.pipeline.planning.place import place_of

    return cluster(*place_of(place, plan, Dataset.open(plan.dataset).manifest))


def engine_for_pass(place: Execution, data: Dataset) -> AbstractContextManager[Executor]:
    """Open what one pass over a data set runs on."""
    from fewpass.pipeline.planning.place import place_for, seconds_of_pass

    return cluster(*place_for(place, seconds_of_pass(data.manifest)))


def cluster_of(place: Execution) -> AbstractContextManager[Executor | None]:
    """Open the cluster that is asked for; None where threads of this process do all."""
    return nullcontext() if place.engine == "threads" else cluster(place)


@contextmanager
def cluster(place: Execution, why: str = "") -> Iterator[Executor]:
    """Open the executor that `place` names; BadPlace or ConnectionError when it cannot be."""
    scheduler = place.scheduler
    here = scheduler in (None, LOCAL, NONE)
    if not here and not _ADDRESS.fullmatch(str(scheduler)):
        raise BadPlace(
            f'--scheduler is "{scheduler}", which is no address. Give one like '
            'tcp://10.0.0.5:8786, "local" for one in this process, or "none" to do without Dask.'
        )
    if place.engine != "threads":
        cluster_logs.set_level()
        allow_frames()  # Bokeh, which Dask's dashboard is made with, asks whether they are there
    from fewpass.pipeline.passes.executor import open_executor

    with ExitStack() as stack:
        try:
            executor = stack.enter_context(open_executor(place, why))
        except OSError as error:
            if here or isinstance(error, NoWorkers):
                raise
            advice = "Start one there, or leave --scheduler out to train in this process."
            if str(scheduler).startswith("tcp://") and "reset by peer" in str(error):
                advice = "If it talks over TLS, its address begins with tls://."
            raise ConnectionError(
                f"No Dask scheduler answers at {scheduler} ({error}). {advice}"
            ) from error
        yield executor
