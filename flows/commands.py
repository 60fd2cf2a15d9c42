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
    OUTPUT,
    PLAN_SOURCE,
    READING,
    STRAIGHT,
    TRAINING,
    WHERE,
    Ingest,
    Method,
    Output,
    PlanSource,
    Reading,
    RequireTol,
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
    """Read a table, text or arrays into a data set: rows in random order, with checksums.

    Reads CSV, Parquet, JSON lines, Arrow, ARFF, LIBSVM, Vowpal Wabbit, NPY and NPZ files, plain or
    compressed, within a memory limit.  If it is killed, run the same command again to finish.

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
    """Store a data set by column as well, in files that --solver simba maps.

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
    """Predict what a training takes: passes, bytes, memory and time; suggest what would help.

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
    require_tol: RequireTol = False,
    output: Output = OUTPUT,
) -> int:
    """Train a model on a data set, in one pass or to a tolerance (--tol).

    Instead of a data set, it also takes what ingest reads (a file, a folder, a glob, an address;
    standard input is -), and then learns from the rows in one pass without storing them.

    If a training was interrupted, the same command continues it; a finished one is left alone.

    Parameters
    ----------
    dataset
        Data set made by ingest, or a source of rows.
    run
        Folder or address for the run: its plan, snapshots and log.
    require_tol
        Exit with 1 if the tolerance was missed; the model is kept all the same.
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
    require_tol: RequireTol = False,
    output: Output = OUTPUT,
) -> int:
    """Continue a training that was interrupted; the model will be the same, bit for bit.

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
    reading: Reading = READING,
    where: Where = WHERE,
    output: Output = OUTPUT,
) -> int:
    """Evaluate a run's model on a data set, such as the rows held out.

    Parameters
    ----------
    run
        Folder or address of the run.
    dataset
        Data set made by ingest (with --like, or split off by --test-fraction), or a file, glob or
        address that ingest could read, with labels: its columns are made features as those that
        the model was trained on.
    reliability
        Say whether its probabilities come true, too: Brier score, log loss, calibration error, and
        the reliability diagram in RUN/report/reliability.png.
    memory
        Memory to use at most beyond what the libraries take [default: as in training; of files
        1GiB].
    """
    from flows.scoring import run_evaluate

    return run_evaluate(run, dataset, reliability, memory, reading, where, output)


def predict(
    run: str,
    input_: Annotated[str, Parameter(name="INPUT")],
    out: str,
    /,
    *,
    probability: bool = False,
    defuse: bool = False,
    memory: str | None = None,
    threads: int | None = None,
    reading: Reading = READING,
    output: Output = OUTPUT,
) -> int:
    """Predict every row of a file or data set, and write a .parquet, .csv or .npy file.

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
        Memory to use at most beyond what the libraries take [default: 1GiB, and what the weights
        take].
    threads
        Threads that read and score [default: one per core].
    """
    from flows.scoring import run_predict

    return run_predict(run, input_, out, probability, defuse, memory, threads, reading, output)


def models(store: str, /, *, output: Output = OUTPUT) -> int:
    """List the models of a store that refresh writes: how good each is, which one is published.

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
    """Publish the model of a generation, newer or older, as the one to use.

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
    """Write a run's model for other programs: .onnx, .safetensors, .liblinear, .skops.

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
    """List the largest weights of a run's model, with the names of the features.

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


def methods(name: Method | None = None, /, *, output: Output = OUTPUT) -> int:
    """List the training methods, or show what one of them needs and its settings.

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
    """Report on a run: as text and curves in RUN/report, or as a page (--html).

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
    """Show what a data set, a run or a snapshot contains.

    Parameters
    ----------
    path
        Folder or address of the data set, the run, or a snapshot in it.
    """
    from flows.looking import run_inspect

    return run_inspect(path, output)


def verify(path: str, /, *, output: Output = OUTPUT) -> int:
    """Check every byte of a data set or run; name what is damaged, and exit with 1 if anything is.

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
    """Compile the usual kernels in advance, for container images and services.

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
    """Find runs whose process has died, free them, and say how to continue them.

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
    """Serve a page on 127.0.0.1 that shows how runs are going.

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
    """Go through a whole job on generated data larger than the memory limit.

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
