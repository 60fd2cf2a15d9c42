"""What the commands do, as functions: see `fewpass` for the list."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fewpass.pipeline.errors import BadInput, did_you_mean
from fewpass.pipeline.execution.executor import open_executor
from fewpass.pipeline.ingestion import phases
from fewpass.pipeline.ingestion.result import IngestResult
from fewpass.pipeline.plan.place import Place, place_for, place_of, seconds_of_pass
from fewpass.pipeline.refresh import generations
from fewpass.pipeline.refresh.publishing import Publication, run_at
from fewpass.pipeline.reporting.html import ShownResult
from fewpass.pipeline.reporting.live import progress
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.runs.model import load_model as model_of
from fewpass.pipeline.runs.outcome import Event, TrainingResult
from fewpass.pipeline.scoring import evaluate as evaluation
from fewpass.pipeline.scoring import predict as prediction
from fewpass.pipeline.scoring.evaluate_rows import evaluate_rows, require_here
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.matching import BY_NAME, Matching
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import parse_bytes
from fewpass.pipeline.straight.telling import is_source
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset

Address = str | os.PathLike[str]
Settings = TypeVar("Settings", bound=BaseModel)
ANYWHERE = Execution()


def ingest(sources: Address | Sequence[Address], dataset: Address, **settings: Any) -> IngestResult:
    """Make a data set of files, as `fewpass ingest` does; at once if it is there already.

    Parameters
    ----------
    sources
        Files, folders, globs or addresses: CSV, Parquet, JSON lines, Arrow IPC, LIBSVM, Vowpal
        Wabbit's text, NPY, NPZ.
    dataset
        Folder or address of the data set.
    **settings
        Fields of `IngestPlan` (test_fraction, scale, memory, ...) and of `SourceOptions` (label,
        weight, drop, missing, ...).

    Raises
    ------
    BadInput
        Settings or rows that cannot be used; it is a ValueError.
    FileNotFoundError, PermissionError, OSError
        A source that is not there, a target that cannot be written, a full disk.
    """
    reading = {k: settings.pop(k) for k in list(settings) if k in SourceOptions.model_fields}
    plan = {
        "sources": [os.fspath(source) for source in _several(sources)],
        "dataset": os.fspath(dataset),
        "options": reading,
    }
    return phases.ingest(_valid(IngestPlan, plan | settings))


def train(
    dataset: Address,
    run: Address,
    *,
    execution: Execution = ANYWHERE,
    on_event: Callable[[Event], None] = lambda _: None,
    verbose: int | None = None,
    **settings: Any,
) -> TrainingResult:
    """Train a model on a data set, or go on with the same training, as `fewpass train` does.

    Parameters
    ----------
    dataset
        Folder or address of a data set; or a source, which is learnt while it is read, once.
    run
        Folder or address that log, snapshots and model lie in; the same call again goes on from the
        newest snapshot, or returns what is there.
    execution
        Where to train: threads of this process, or Dask; changes no bit.
    on_event
        Called after every span, snapshot and certificate.
    verbose
        Whether a training of more than a second shows how far it is: None in notebooks, 1
        everywhere, 0 nowhere.
    **settings
        Fields of `TrainingPlan` (loss, lam, tol, passes, solver, memory, ...); for a source, those
        of `SourceReading` (test_fraction, scale, ...) and `SourceOptions` (label, ...), too.

    Raises
    ------
    BadInput, PlanMismatch
        Settings that cannot be used, another plan in `run`; both are ValueErrors.
    Diverged
        When the loss explodes whatever the step.
    """
    plan = _valid(TrainingPlan, {"dataset": os.fspath(dataset)} | _with_source(dataset, settings))
    if plan.source is not None:
        place = Place(execution, "rows are read once")
    else:
        place = place_of(execution, plan, Dataset.open(plan.dataset).manifest)
    with open_executor(*place) as executor:
        training = TrainingRun.start(plan, os.fspath(run), executor)
        show = progress(verbose, training.plan.passes)
        for event in training:
            on_event(event)
            if show:
                show(event)
    return ShownResult.of(training.result)


def load_model(run: Address) -> Model:
    """Read the newest weights of a run, or of the one that is published in a folder.

    `weights.coef` (d,) or (K, d) and `weights.intercept` are for rows scaled by `shift` and
    `scale`: (x - shift) * scale.

    Raises BadInput when there is none yet, Damaged when it is not as it was written.
    """
    return model_of(run_at(os.fspath(run)))


def evaluate(
    run: Address,
    dataset: Address | Sequence[Address],
    *,
    execution: Execution = ANYWHERE,
    matching: Matching = BY_NAME,
    memory: int | str | None = None,
    **reading: Any,
) -> evaluation.Evaluation:
    """Say how a run's model does on a data set or on rows of files, as `fewpass evaluate` does.

    Parameters
    ----------
    run
        Whose model.
    dataset
        A data set; or what `ingest` reads, with labels.
    execution
        Where a data set is read; files are read in this process.
    matching
        How columns are matched with the model's.
    memory
        Budget to read files in, such as "256MB" [default: 1 GiB, and what the weights take].
    **reading
        Fields of `SourceOptions`, for files.

    Raises
    ------
    BadInput
        When rows cannot be read, or columns, scaling or labels are not the model's.
    """
    model, places = load_model(run), [os.fspath(one) for one in _several(dataset)]
    if len(places) == 1 and not is_source(places[0]):
        data = Dataset.open(places[0])
        with open_executor(*place_for(execution, seconds_of_pass(data.manifest))) as executor:
            return evaluation.evaluate(model, data, executor, rules=matching)
    require_here(execution)
    options = _valid(SourceOptions, matching.model_dump() | reading)
    return evaluate_rows(
        model, places, options, memory=None if memory is None else parse_bytes(memory)
    ).evaluation


def predict(
    run: Address,
    inputs: Address | Sequence[Address],
    output: Address,
    *,
    probability: bool = False,
    memory: int | str | None = None,
    **reading: Any,
) -> prediction.PredictionResult:
    """Score files of any size into a file, as `fewpass predict` does.

    Parameters
    ----------
    run
        Whose model.
    inputs
        What `ingest` reads, labels optional; or a data set.
    output
        A .parquet, .csv or .npy file; it appears whole or not at all.
    probability
        Add a column per class: by the run's `calibrate`, else by the logistic loss.
    memory
        Budget, such as "256MB" [default: 1 GiB, and what the weights take].
    **reading
        Fields of `SourceOptions`.

    Raises
    ------
    BadInput
        When rows cannot be read, or are not of the model's columns; when there are no
        probabilities.
    """
    options = _valid(SourceOptions, reading)
    return prediction.predict(
        load_model(run),
        [os.fspath(one) for one in _several(inputs)],
        os.fspath(output),
        options,
        probability=probability,
        memory=None if memory is None else parse_bytes(memory),
    )


def _with_source(address: Address, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of a training, those for reading in their place where there is a source."""
    if not is_source(os.fspath(address)):
        return settings
    options = {k: v for k, v in settings.items() if k in SourceOptions.model_fields}
    how = {k: v for k, v in settings.items() if k in SourceReading.model_fields}
    rest = {k: v for k, v in settings.items() if k not in options and k not in how}
    return rest | {"source": how | {"sources": (os.fspath(address),), "options": options}}


def models(store: Address) -> list[generations.GenerationState]:
    """Return the models of a refresh's store, as `fewpass models` lists them; oldest first.

    Raises BadInput where there is none.
    """
    return generations.models(os.fspath(store))


def publish(
    store: Address, generation: int, *, after: int | None = None, why: str = ""
) -> Publication:
    """Make a generation's model the one to use, newer or older, as `fewpass publish` does.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    generation
        Its number, from 1.
    after
        Number of the publication that is followed now; by default whichever it is.
    why
        Kept with the publication.

    Raises
    ------
    BadInput
        When there is no such generation, it is not decided yet, or its model is published;
        PublishedMeanwhile, which is one, when somebody else published since `after`.
    """
    return generations.publish_generation(os.fspath(store), generation, after=after, why=why)


def _several(given: Address | Sequence[Address]) -> Sequence[Address]:
    return [given] if isinstance(given, str | os.PathLike) else given


def _meant(name: str, kind: type[BaseModel]) -> str:
    """Say which setting was probably meant: its name has the same beginning, or is near."""
    longer = [known for known in kind.model_fields if name.startswith(known)]
    return did_you_mean(longer[0] if longer else name, kind.model_fields)


def _valid(kind: type[Settings], values: dict[str, Any]) -> Settings:
    """Make settings; BadInput names the one that is wrong."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or kind.__name__
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            raise BadInput(f'There is no setting "{name}".{_meant(name, kind)}') from error
        raise BadInput(f"{name}: {first['msg'].removeprefix('Value error, ')}") from error
