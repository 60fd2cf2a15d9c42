"""The commands and their words.

Each command's work is in a module of its own, imported only when the command runs: help and
refusals need not wait for numba and Dask.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from flows.errors import UsageError
from flows.options import (
    INGEST,
    MATCHING,
    OUTPUT,
    PLAN_SOURCE,
    READING,
    STRAIGHT,
    TRAINING,
    WHERE,
    Ingest,
    Matching,
    Output,
    PlanSource,
    Reading,
    Straight,
    Training,
    Where,
)


def ingest(
    source: str,
    /,
    *paths: Annotated[str, Parameter(name="DATASET")],
    ingest: Ingest = INGEST,
    reading: Reading = READING,
    plan_source: PlanSource = PLAN_SOURCE,
    output: Output = OUTPUT,
) -> int:
    """Make a shuffled, checksummed data set of text, columns or arrays.

    Reads LIBSVM, CSV, Parquet, NPY and NPZ files, plain or compressed, in bounded memory.  Killed
    half-way, it leaves nothing that looks complete, and the same command again finishes the job.

    Parameters
    ----------
    source
        File, glob or address to read; more may follow.
    paths
        After the sources, the folder or address of the data set to make.
    """
    if not paths:
        raise UsageError("ingest needs a source and, last, the data set to make of it.")
    from flows.ingesting import run_ingest

    *more, dataset = paths
    return run_ingest((source, *more), dataset, ingest, reading, plan_source, output)


def columns(dataset: str, /, *, memory: str = "1GiB", output: Output = OUTPUT) -> int:
    """Keep a data set by column, too, in files that can be mapped: what --solver simba reads.

    The copy lies in DATASET/by-column, uncompressed, by row and by column.  Killed half-way, it
    leaves nothing that looks complete.

    Parameters
    ----------
    dataset
        Data set made by ingest, on this machine.
    memory
        Memory to use at most beyond what the libraries take [default: 1GiB].
    """
    from flows.ingesting import run_columns

    return run_columns(dataset, memory, output)


def plan(
    dataset: str,
    /,
    *,
    training: Training = TRAINING,
    where: Where = WHERE,
    plan_source: PlanSource = PLAN_SOURCE,
    output: Output = OUTPUT,
) -> int:
    """Foresee what a training takes: passes, bytes, memory, time, and what would help.

    Takes the options of train.  Reads the data set's statistics and a few chunks, and writes
    nothing.

    Parameters
    ----------
    dataset
        Data set made by ingest.
    """
    from flows.planning import run_plan

    return run_plan(dataset, training, where, plan_source, output)


def train(
    dataset: str,
    run: str,
    /,
    *,
    training: Training = TRAINING,
    reading: Reading = READING,
    straight: Straight = STRAIGHT,
    where: Where = WHERE,
    plan_source: PlanSource = PLAN_SOURCE,
    require_tol: bool = False,
    output: Output = OUTPUT,
) -> int:
    """Train a model on a data set, in one pass unless told otherwise.

    Given what ingest reads instead (a file, a folder, a glob, an address, - for standard input), it
    learns the rows while it reads them, once, and stores none.

    The same command again goes on with a run that was cut short; a finished run is left alone.

    Parameters
    ----------
    dataset
        Data set made by ingest, or a source of rows.
    run
        Folder or address for the run: its plan, snapshots and log.
    require_tol
        Exit with 1 when the tolerance was missed; the model is there all the same.
    """
    from flows.training import run_train

    return run_train(
        dataset, run, training, where, plan_source, output, reading, straight,
        require_tol=require_tol,
    )  # fmt: skip


def resume(
    run: str,
    /,
    *,
    where: Where = WHERE,
    require_tol: bool = False,
    output: Output = OUTPUT,
) -> int:
    """Continue a run from its newest whole snapshot; the model is the same bit for bit.

    Parameters
    ----------
    run
        Folder or address of the run.
    require_tol
        Exit with 1 when the tolerance was missed; the model is there all the same.
    """
    from flows.training import run_resume

    return run_resume(run, where, output, require_tol=require_tol)


def evaluate(
    run: str,
    dataset: str,
    /,
    *,
    reliability: bool = False,
    memory: str | None = None,
    matching: Matching = MATCHING,
    where: Where = WHERE,
    output: Output = OUTPUT,
) -> int:
    """Say how good a run's model is on a data set.

    Parameters
    ----------
    run
        Folder or address of the run.
    dataset
        Data set made by ingest (with --like, or split off by --test-fraction).
    reliability
        Say whether its probabilities come true, too: Brier score, log loss, calibration error, and
        the reliability diagram in RUN/report/reliability.png.
    memory
        Memory to use at most beyond what the libraries take [default: as in training].
    """
    from flows.scoring import run_evaluate

    return run_evaluate(run, dataset, reliability, memory, matching, where, output)


def predict(
    run: str,
    input_: Annotated[str, Parameter(name="INPUT")],
    out: str,
    /,
    *,
    probability: bool = False,
    defuse: bool = False,
    memory: str = "1GiB",
    threads: int | None = None,
    reading: Reading = READING,
    output: Output = OUTPUT,
) -> int:
    """Score every row of an input, in its order, into a .parquet, .csv or .npy file, or a pipe.

    Parameters
    ----------
    run
        Folder or address of the run.
    input_
        File, glob or address that ingest could read, labels optional; or a data set.
    out
        File to write; its ending says what kind. A - stands for CSV on standard output.
    probability
        Add a column per class, and last that of the positive label, or of the label predicted: by
        --calibrate of the training, else by the logistic loss.
    defuse
        In .csv, put a ' before labels that a spreadsheet would run as a formula.
    memory
        Memory to use at most beyond what the libraries take [default: 1GiB].
    threads
        Threads that read and score [default: one per core].
    """
    from flows.scoring import run_predict

    return run_predict(run, input_, out, probability, defuse, memory, threads, reading, output)


def models(store: str, /, *, output: Output = OUTPUT) -> int:
    """List the models of a refresh's store: how good each is, and which one is used.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    """
    from flows.publishing import run_models

    return run_models(store, output)


def publish(
    store: str,
    generation: str,
    /,
    *,
    after: int | None = None,
    because: str = "",
    output: Output = OUTPUT,
) -> int:
    """Make the model of a generation the one to use: a newer one, or an older one again.

    Whoever evaluates, predicts or exports with the store uses it from then on, and the next refresh
    trains on from it.  Of two who publish at once one wins; the other is told, and exits with 2.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    generation
        Number of the generation, such as 000007.
    after
        Number of the publication that is followed now, as fewpass models told it; where it is
        another one by now, nothing is changed [default: whichever it is].
    because
        Why; kept with the publication.
    """
    from flows.publishing import run_publish

    return run_publish(store, generation, after, because, output)


def export(run: str, out: str, /, *, output: Output = OUTPUT) -> int:
    """Write a run's newest model for other programs, by the ending of the file.

    .onnx (float64 rows X in; label, scores, probabilities or prediction out), .safetensors (coef,
    intercept and what they mean), .liblinear (labels must be integers) or .skops (scikit-learn's
    own classes).  Scaling is undone: the model takes rows as the sources had them.

    Parameters
    ----------
    run
        Folder or address of the run, or of a store that has published one.
    out
        File to write; its ending says what kind.
    """
    from flows.exporting import run_export

    return run_export(run, out, output)


def weights(
    run: str,
    /,
    *,
    top: int = 20,
    label: Annotated[str | None, Parameter(name="--class")] = None,
    csv: bool = False,
    output: Output = OUTPUT,
) -> int:
    """Tell the largest weights of a run's newest model, by the names of its features.

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
    """
    from flows.weights import run_weights

    return run_weights(run, top, label, csv, output)


def methods(name: str | None = None, /, *, output: Output = OUTPUT) -> int:
    """Tell the methods of training in a line each, or what one of them needs and can be told.

    Parameters
    ----------
    name
        Word of a method, as --solver takes it.
    """
    from flows.methods import run_methods

    return run_methods(name, output)


def report(
    run: str,
    /,
    *,
    html: bool = False,
    held_out: str | None = None,
    where: Where = WHERE,
    output: Output = OUTPUT,
) -> int:
    """Tell what a run did, and draw it: its loss curve into RUN/report/loss.png, and more there.

    Parameters
    ----------
    run
        Folder or address of the run.
    html
        Make one page of it to send to others, RUN/report/report.html: figures and curves of
        held-out rows, how it learnt, largest weights, data, times, and how to reproduce it.
    held_out
        Data set for that page to judge the model by [default: that of the training, or what
        ingest put beside its data set with --test-fraction].
    """
    from flows.reporting import run_report

    return run_report(run, html, held_out, where, output)


def inspect(path: str, /, *, output: Output = OUTPUT) -> int:
    """Tell what a data set, a run or a snapshot is.

    Parameters
    ----------
    path
        Folder or address of the data set, the run, or a snapshot in it.
    """
    from flows.looking import run_inspect

    return run_inspect(path, output)


def verify(path: str, /, *, output: Output = OUTPUT) -> int:
    """Read every byte and name each object that is not as it was written; exit 1 if any is.

    Parameters
    ----------
    path
        Folder or address of the data set, the run, or a snapshot in it.
    """
    from flows.looking import run_verify

    return run_verify(path, output)


def warm_up(
    *,
    losses: str | None = None,
    layouts: str | None = None,
    processes: int | None = None,
    output: Output = OUTPUT,
) -> int:
    """Compile the kernels of the usual trainings ahead, in parallel: for images and services.

    Compiled kernels lie in ~/.cache/fewpass (XDG_CACHE_HOME); what is there is not compiled again.

    Parameters
    ----------
    losses
        Losses, separated by commas [default: logistic,squared].
    layouts
        Kinds of rows: dense, sparse [default: dense,sparse].
    processes
        That compile at a time [default: one per core].
    """
    from flows.warming import run_warm_up

    return run_warm_up(losses, layouts, processes, output)


def doctor(*runs: str, dry_run: bool = False, output: Output = OUTPUT) -> int:
    """Find runs that are believed alive and are dead; free them, and say what would go on.

    Looks at the runs named or below the folders named, and at all runs of the Prefect server in
    PREFECT_API_URL.  A dead flow run is marked crashed, which frees its concurrency slot, and its
    lease is removed.  One that is alive and has made no progress for ten times as long as is usual
    for it is told as stalled, and the exit status is 1.

    Parameters
    ----------
    runs
        Folders or addresses of runs, or of what they lie in.
    dry_run
        Change nothing; exit with 1 when something is dead.
    """
    from flows.doctor import run_doctor

    return run_doctor(runs, dry_run, output)


def dashboard(*runs: str, port: int = 8788, output: Output = OUTPUT) -> int:
    """Serve the page about learning for runs, finished or not, on 127.0.0.1.

    /fewpass is the page, /fewpass/metrics what Prometheus reads.

    Parameters
    ----------
    runs
        Folders or addresses of runs, or of a refresh's store: its generations as they come.
    port
        Port of this machine to serve on; 0 takes a free one [default: 8788].
    """
    from flows.looking import run_dashboard

    return run_dashboard(runs, port, output)


def demo(
    folder: str = "demo-output",
    /,
    *,
    size: str = "600MB",
    memory: str = "256MB",
    seed: int = 0,
    output: Output = OUTPUT,
) -> int:
    """Make click-log-like data larger than the memory budget, and do the whole job on it.

    Parameters
    ----------
    folder
        Folder for everything that is made [default: demo-output].
    size
        Size of the text to make and ingest [default: 600MB].
    memory
        Memory to use at most beyond what the libraries take [default: 256MB].
    seed
        Where all randomness comes from [default: 0].
    """
    from flows.demo import run_demo

    return run_demo(folder, size, memory, seed, output)
