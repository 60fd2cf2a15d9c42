"""The flows' signatures: what can be asked of each, in types and in words.

Each flow's work is in a module of its own, imported only when the flow runs (`made_flow` puts the
two together): a request that is refused waits for neither Prefect's engine nor numba.  So these
functions have parameters and words, and nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field, NonNegativeInt, PositiveInt

from fewpass.pipeline.errors import did_you_mean
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.matching import BY_NAME, Matching
from fewpass.pipeline.settings.model import Workers
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import ByteSize

HERE = Execution()  # in this process, with Dask where that takes long
READING = SourceOptions()


class IngestRequest(IngestPlan):
    """An ingest plan as Prefect may keep it: without credentials."""

    storage_options: dict[str, Any] = Field(
        default_factory=dict,
        max_length=0,
        description="Not taken here: credentials come from the environment.",
    )


def ingest(plan: IngestRequest) -> Any:
    """Make a shuffled, checksummed data set of text, columns or arrays.

    Parameters
    ----------
    plan
        Sources, and the data set to make of them: as in `fewpass ingest`.
    """


def train(plan: TrainingPlan, run: str, where: Execution = HERE, require_tol: bool = False) -> Any:
    """Train a model on a data set; a run that was cut short goes on.

    Parameters
    ----------
    plan
        What to train, on what, how far: as in `fewpass train`.
    run
        Folder or address for the run; {date} and {time} stand for the scheduled start.
    where
        Where tasks run: a Dask scheduler's address, or in this process.
    require_tol
        The flow run fails when the tolerance was missed; the model is there all the same.
    """


def evaluate(run: str, dataset: str, matching: Matching = BY_NAME, where: Execution = HERE) -> Any:
    """Say how good a run's model is on a data set.

    Parameters
    ----------
    run
        Folder or address of the run, or of a refresh's store; {date} and {time} stand for the
        scheduled start.
    dataset
        Data set made by ingest; or a file, glob or address that ingest could read, with labels.
    matching
        How its columns are matched with the model's.
    where
        Where tasks run: a Dask scheduler's address, or in this process.
    """


def predict(
    run: str,
    inputs: tuple[str, ...],
    out: str,
    options: SourceOptions = READING,
    overwrite: bool = False,
    probability: bool = False,
    defuse: bool = False,
    memory: ByteSize | None = None,
    threads: Workers | None = None,
) -> Any:
    """Score every row of an input, in its order, into a .parquet, .csv or .npy file.

    Parameters
    ----------
    run
        Folder or address of the run, or of a refresh's store; {date} and {time} stand for the
        scheduled start.
    inputs
        Files, globs or addresses that ingest could read, labels optional; or one data set.
    out
        File to write; {date} and {time} stand for the scheduled start.
    options
        How to read the inputs.
    overwrite
        Replace the file if it is there, as a schedule that always writes to one file needs; never
        an input, a source of the model's data set, or what lies in a data set or a run.
    probability
        Add a column per class, and last that of the positive label, or of the label predicted.
    defuse
        In .csv, put a ' before labels that a spreadsheet would run as a formula.
    memory
        Memory limit, in addition to what the libraries take.
    threads
        Threads that read and score; default one per core.
    """


def refresh(plan: RefreshPlan, where: Execution = HERE, abandon: bool = False) -> Any:
    """Ingest new files, train on them from the published model on, publish unless that is worse.

    Parameters
    ----------
    plan
        Where files appear, where everything goes, when a model is good enough.
    where
        Where tasks run: a Dask scheduler's address, or in this process.
    abandon
        Give up the generation that is not finished, and do nothing else: the next refresh takes its
        files anew.
    """


def models(store: str) -> Any:
    """List the models of a refresh's store: how good each is, and which one is used.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    """


def publish(
    store: str, generation: PositiveInt, because: str = "", after: NonNegativeInt | None = None
) -> Any:
    """Make the model of a generation the one to use: a newer one, or an older one again.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    generation
        Number of the generation.
    because
        Why; kept with the publication.
    after
        Number of the publication that is followed now; where it is another one, nothing is changed.
    """


_ALL: tuple[Callable[..., Any], ...] = (
    ingest, train, evaluate, predict, refresh, models, publish,
)  # fmt: skip
REQUESTS = {made.__name__: made for made in _ALL}


def request_named(name: str) -> Callable[..., Any]:
    """Return what can be asked of a flow; ValueError where there is none of that name."""
    if name not in REQUESTS:
        meant = did_you_mean(name, REQUESTS)
        raise ValueError(f'There is no flow "{name}".{meant} There are {", ".join(REQUESTS)}.')
    return REQUESTS[name]
