"""What the commands do, as functions: see `fewpass` for the list."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.executors.executor import open_executor
from fewpass.pipeline.models import retraining
from fewpass.pipeline.models.refresh import abandoning, generations
from fewpass.pipeline.models.refresh.publications import Publication, run_at
from fewpass.pipeline.reporting.notebooks import ShownResult, progress
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.model import Model, within
from fewpass.pipeline.runs.model import load_model as model_of
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.scoring import evaluation, prediction
from fewpass.pipeline.scoring.evaluate_rows import evaluate_rows, require_file, require_here
from fewpass.pipeline.scoring.row_metrics import AskedMetrics
from fewpass.pipeline.scoring.scored_file import PredictionResult
from fewpass.pipeline.settings.change_plans import AppendPlan, ForgetPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import plan_of
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.settings.regularisation import AUTO, Lam
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import parse_bytes
from fewpass.pipeline.tables.changing import appending
from fewpass.pipeline.tables.changing.appending import AppendResult
from fewpass.pipeline.tables.changing.forgetting import ForgetResult
from fewpass.pipeline.tables.ingest import phases
from fewpass.pipeline.tables.ingest.progress import IngestResult
from fewpass.pipeline.tables.stream.sources import is_source, read_first_rows
from fewpass.pipeline.training import cross_validation
from fewpass.pipeline.training.cross_validation import CrossValidated
from fewpass.pipeline.training.planning.place import Place, place_for, place_of, seconds_of_pass
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset

Address = str | os.PathLike[str]
ANYWHERE = Execution()


def ingest(sources: Address | Sequence[Address], dataset: Address, **settings: Any) -> IngestResult:
    """Make a data set from files, as `fewpass ingest` does.

    If the same call has made it before, it returns at once.

    Parameters
    ----------
    sources
        A file, folder, glob or address, or a list of them: CSV, Parquet, JSON lines, Arrow IPC,
        ARFF, LIBSVM, Vowpal Wabbit text, NPY, NPZ.
    dataset
        Folder or address of the data set.
    **settings
        Fields of `IngestPlan` (test_fraction, scale, memory, ...) and of `SourceOptions` (label,
        weight, drop, missing, ...).

    Returns
    -------
    IngestResult
        dataset, rows, features, labels, test_dataset, test_rows, encoded (what became of each
        column), notes, seconds, ...: what `fewpass ingest --json` prints.

    Raises
    ------
    BadInput
        Settings or rows that cannot be used.  A ValueError.
    FileNotFoundError, PermissionError, OSError
        A source that does not exist, a target that cannot be written, a full disk.
    """
    places = {"sources": _addresses(sources), "dataset": os.fspath(dataset)}
    return phases.ingest(plan_of(IngestPlan, settings | places))


def append(dataset: Address, sources: Address | Sequence[Address], **settings: Any) -> AppendResult:
    """Append the rows of files to a data set, as `fewpass append` does.

    The data set becomes a new generation of itself, with another fingerprint.  The same call again
    finishes one that was killed, and appends no file twice.

    Parameters
    ----------
    dataset
        Folder or address of a data set made by `ingest`.
    sources
        A file, folder, glob or address, or a list of them, with the columns of the data set.
    **settings
        Fields of `AppendPlan` (memory, threads, again, storage_options) and of `SourceOptions`.

    Returns
    -------
    AppendResult
        dataset, generation, rows, appended, test_dataset, test_rows, test_appended, already,
        parent, fingerprint, ...: what `fewpass append --json` prints.

    Raises
    ------
    BadInput
        Files with other columns, types or labels; bad rows.  A ValueError.
    NotADataset, FileNotFoundError, PermissionError, OSError
        No data set, no file, a folder that cannot be written, a full disk.
    """
    places = {"sources": _addresses(sources), "dataset": os.fspath(dataset)}
    return appending.append(plan_of(AppendPlan, settings | places))


def forget(
    dataset: Address,
    where: str,
    *,
    runs: Address | None = None,
    retrain: bool = False,
    warm: bool = False,
    execution: Execution = ANYWHERE,
    **settings: Any,
) -> ForgetResult:
    """Delete rows of a data set for good, as `fewpass forget` does.

    Nothing of them is left in the data set nor in its test rows, and its fingerprint is another.
    The same call again finishes one that was killed.

    Parameters
    ----------
    dataset
        Folder or address of a data set that was ingested with `keep`.
    where
        Which rows, by kept columns: "id in FILE" (a line of the file for each value),
        'city == "north"', "age < 18", joined by "and".
    runs
        Folder to look for models in, three deep; default the one that the data set lies in.
    retrain
        Whether to train the models that have learnt from the rows anew, each into a new run next to
        the old one.
    warm
        Whether these begin at the old weights: free of the rows as far as the certificate says.
    execution
        Where to train.
    **settings
        Fields of `ForgetPlan`: memory, threads, storage_options.

    Returns
    -------
    ForgetResult
        dataset, generation, rows, forgotten, test_dataset, test_rows, test_forgotten, unmatched,
        models, retrained, fingerprint, ...: what `fewpass forget --json` prints.

    Raises
    ------
    BadInput
        A condition that cannot be read, or on a column that is not kept; no row would be left.  A
        ValueError.
    NotADataset, FileNotFoundError, PermissionError, OSError
        No data set, no list of values, a folder that cannot be written, a full disk.
    """
    _require_execution(execution)
    plan = plan_of(ForgetPlan, settings | {"dataset": os.fspath(dataset), "where": where})
    place = None if runs is None else os.fspath(runs)
    return retraining.forgotten_everywhere(
        plan, runs=place, retrain=retrain, warm=warm, execution=execution
    )


def train(
    dataset: Address,
    run: Address,
    *,
    execution: Execution = ANYWHERE,
    on_event: Callable[[Event], None] = lambda _: None,
    verbose: int | None = None,
    **settings: Any,
) -> TrainingResult:
    """Train a model, as `fewpass train` does.

    The same call again continues an interrupted training, and returns a finished one.

    Parameters
    ----------
    dataset
        Folder or address of a data set; or a file, which is read once and not stored.
    run
        Folder or address for log, snapshots and model.
    execution
        Where to train: threads of this process, or Dask.  The model is the same, bit for bit.
    on_event
        Called after every span, snapshot and certificate with an event: `kind`, `cursor` and
        `facts`, an object with the fields of its kind in the log.
    verbose
        Show progress if training takes more than a second: None in notebooks, 1 always, 0 never.
    **settings
        Fields of `TrainingPlan` (loss, lam, tol, passes, solver, memory, ...).  For a file also
        those of `SourceOptions` (label, ...), and scale, task, test_fraction, expected_rows.

    Returns
    -------
    TrainingResult
        objective, certificate, relative_gap, tol, converged, passes, solver, loss, lam,
        candidates, calibration, seconds, ...: what `fewpass train --json` prints.  A notebook shows
        it as a table with the loss curve.

    Raises
    ------
    BadInput, PlanMismatch
        Settings that cannot be used; a run that has another plan.  Both are ValueErrors.
    Diverged
        If the loss explodes whatever the step size.
    """
    _require_execution(execution)
    places: dict[str, Any] = {"dataset": os.fspath(dataset)}
    if is_source(places["dataset"]):
        places["sources"] = (places["dataset"],)
    else:
        refuse_reading(settings, places["dataset"])
    plan = plan_of(TrainingPlan, settings | places)
    if plan.source is not None:
        place = Place(execution, "rows are read once")
    else:
        place = place_of(execution, plan, Dataset.open(plan.dataset).manifest)
    with open_executor(*place) as executor:
        training = TrainingRun.start(plan, os.fspath(run), executor, open_source=read_first_rows)
        show = progress(verbose, training.plan.passes)
        for event in training:
            on_event(event)
            if show:
                show(event)
    return ShownResult.of(training.result)


def load_model(run: Address) -> Model:
    """Read the newest model of a run, or the one that is published in a store.

    Parameters
    ----------
    run
        Folder or address of a run, or of a store that `prefect run refresh` writes to.

    Returns
    -------
    Model
        `weights.coef` (d,) or (K, d), `weights.intercept`, and `lam`.  Where `scale` and `shift`
        (d,) are not None, the weights are for scaled rows, (x - shift) * scale.

    Raises
    ------
    BadInput
        If there is no model yet.
    Damaged
        If it is damaged.  An OSError.
    """
    return model_of(run_at(os.fspath(run)))


def evaluate(
    run: Address,
    dataset: Address | Sequence[Address],
    *,
    execution: Execution = ANYWHERE,
    memory: int | str | None = None,
    by: Sequence[str] = (),
    threshold: float | None = None,
    top: float = 0.1,
    **reading: Any,
) -> evaluation.Evaluation:
    """Evaluate a model on labelled rows, as `fewpass evaluate` does.

    Parameters
    ----------
    run
        The run whose model to use.
    dataset
        A data set, or files that `ingest` reads.
    execution
        Where to read a data set.  Files are read in this process.
    memory
        Memory limit, such as "256MB" [default: as in training; for files 1 GiB, and the weights].
    by
        Columns of the files whose values are slices, each evaluated by itself: `slices`.  Of
        numbers with the edges of ranges, as in "age:20,40,60".
    threshold
        Of the probability of the second of two labels [default: where the score is above 0].
    top
        Share of the rows with the highest scores whose lift is measured.
    **reading
        Fields of `SourceOptions`; for a data set only `unknown_features` and `by_position`.

    Returns
    -------
    Evaluation
        rows, objective, loss, error, auc, mse, r2, classes, metrics (f1, log_loss, mae, ...):
        what `fewpass evaluate --json` prints; None where a figure has no meaning.

    Raises
    ------
    BadInput
        If rows cannot be read, or if columns, scaling or labels are not the model's.
    """
    _require_execution(execution)
    model, places, asked = load_model(run), _addresses(dataset), AskedMetrics(threshold, top)
    limit = None if memory is None else parse_bytes(memory)
    if len(places) == 1 and not is_source(places[0]):
        refuse_reading(reading.keys() - Matching.model_fields.keys(), places[0])
        require_file(by, places[0])
        data, rules = Dataset.open(places[0]), plan_of(Matching, reading)
        with open_executor(*place_for(execution, seconds_of_pass(data.manifest))) as executor:
            return evaluation.evaluate(
                within(model, limit), data, executor, rules=rules, asked=asked
            )
    require_here(execution)
    options = plan_of(SourceOptions, reading)
    return evaluate_rows(model, places, options, by=by, asked=asked, memory=limit).evaluation


def cross_validate(
    dataset: Address,
    *,
    folds: int = 5,
    execution: Execution = ANYWHERE,
    folder: Address | None = None,
    **settings: Any,
) -> list[CrossValidated]:
    """Cross-validate a training, as `fewpass cross-validate` does.

    Parameters
    ----------
    dataset
        Folder or address of a shuffled data set, whose chunks are dealt to folds.
    folds
        How many.
    execution
        Where to train.
    folder
        Folder for snapshots and numbers per row, which workers of a cluster reach [default: a
        temporary one, which goes at the end].
    **settings
        Fields of `TrainingPlan` (loss, lam, tol, solver, memory, ...); tol is 1e-3 by default.

    Returns
    -------
    list of CrossValidated
        For each lam: lam, solver, passes, seconds, folds (fold, rows, objective, gap, evaluation),
        means (metric, mean, standard_error).

    Raises
    ------
    BadInput
        The rows are not shuffled or lie in fewer chunks than folds, or settings cannot be used.
    """
    _require_execution(execution)
    lam = Lam.of(settings.pop("lam", AUTO))
    own = {"dataset": os.fspath(dataset), "lam": lam.each[0]}
    plan = plan_of(TrainingPlan, {"tol": cross_validation.USUAL_TOL} | settings | own)
    place = place_of(execution, plan, Dataset.open(plan.dataset).manifest)
    with ExitStack() as stack:
        executor = stack.enter_context(open_executor(*place))
        temporary = TemporaryDirectory(prefix="fewpass-folds-")
        url = stack.enter_context(temporary) if folder is None else os.fspath(folder)
        return cross_validation.cross_validate(plan, url, executor, folds, lam=lam)


def predict(
    run: Address,
    inputs: Address | Sequence[Address],
    output: Address,
    *,
    overwrite: bool = False,
    probability: bool = False,
    clip: bool = True,
    keep: Sequence[str] = (),
    threshold: float | None = None,
    memory: int | str | None = None,
    **reading: Any,
) -> PredictionResult:
    """Write predictions for files of any size to a file, as `fewpass predict` does.

    Parameters
    ----------
    run
        The run whose model to use.
    inputs
        Files that `ingest` reads, with or without labels; or a data set.
    output
        A .parquet, .csv or .npy file.  It is either complete or does not exist.  A folder, with a
        slash at its end: a file for each of the inputs' files; the same call again goes on where
        one was killed.
    overwrite
        Replace `output` if it exists already; what fewpass wrote there itself, and nobody changed
        since, is replaced without.  Inputs, sources of the model's data set, and files
        in data sets and runs are never replaced.
    probability
        Add a column per class, and `probability`, that of the second of two labels or of the label
        predicted.  Needs the logistic loss, or a run trained with `calibrate`.
    clip
        Clip predicted numbers to the range of the targets that were learnt from, unless the run was
        trained with clip=False; False: write the linear function.
    keep
        Columns of the files that are written first, as they are, such as ids.
    threshold
        Predict the second of two labels where its probability is at least this [default: where the
        score is above 0].
    memory
        Memory limit, such as "256MB" [default: 1 GiB, and the weights].
    **reading
        Fields of `SourceOptions`.

    Returns
    -------
    PredictionResult
        output, rows, columns, seconds, ...: what `fewpass predict --json` prints.

    Raises
    ------
    BadInput
        If rows cannot be read, if their columns are not the model's, if it has no probabilities,
        or if `output` must not be written.
    """
    options = plan_of(SourceOptions, reading)
    return prediction.predict(
        load_model(run),
        _addresses(inputs),
        os.fspath(output),
        options,
        overwrite=overwrite,
        probability=probability,
        clip=clip,
        keep=keep,
        threshold=threshold,
        memory=None if memory is None else parse_bytes(memory),
    )


def _require_execution(given: Any) -> None:
    if not isinstance(given, Execution):
        raise BadInput(f"execution is {given!r}. Give Execution(scheduler='local'), for example.")


def models(store: Address) -> generations.GenerationList:
    """Return the models of a store that `prefect run refresh` writes to, oldest first.

    Parameters
    ----------
    store
        Folder or address of the store.

    Returns
    -------
    list of GenerationState
        generation, state, files, decision, publications.  The attribute `refused` of the list has
        the refused files: file, reason, size, changed, refused_at.

    Raises
    ------
    BadInput
        If there is none.
    """
    return generations.models(os.fspath(store))


def publish(
    store: Address, generation: int, *, after: int | None = None, why: str = ""
) -> Publication:
    """Make the model of a generation the one that readers of a store use.

    It may be newer or older than the present one.  `fewpass publish` does the same.

    Parameters
    ----------
    store
        Folder or address that `prefect run refresh` writes to.
    generation
        Number of the generation, from 1.
    after
        Number of the publication that this one replaces; by default the newest.
    why
        A reason, stored with the publication.

    Returns
    -------
    Publication
        number, generation, weights_sha256, published_at, by, why.

    Raises
    ------
    BadInput
        If there is no such generation, it is not finished, or its model is the published one.
    PublishedMeanwhile
        If somebody else has published since `after`.  A BadInput.
    """
    return generations.publish_generation(os.fspath(store), generation, after=after, why=why)


def abandon(store: Address, *, why: str = "") -> generations.Generation:
    """Give up the generation of a store that is not finished, as `fewpass refresh --abandon` does.

    What was made of it is not used.  The next refresh takes its files anew, those that are still
    there.

    Parameters
    ----------
    store
        Folder or address that `prefect run refresh` writes to.
    why
        A reason, stored with the generation.

    Returns
    -------
    Generation
        number, files, data, run.

    Raises
    ------
    BadInput
        If there is no generation, if all are finished, or if a refresh is at work.
    """
    return abandoning.abandon(os.fspath(store), why=why)


def _addresses(given: Address | Sequence[Address]) -> list[str]:
    several = [given] if isinstance(given, str | os.PathLike) else given
    return [os.fspath(one) for one in several]
