"""What is done every day: rows into a data set, a model, its figures and predictions."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from fewpass.flows.errors import UsageError
from fewpass.flows.options import (
    INGEST,
    OUTPUT,
    PLAN_SOURCE,
    READING,
    STRAIGHT,
    TRAINING,
    WHERE,
    Ingest,
    Output,
    PlanSource,
    Reading,
    RequireTol,
    Straight,
    Training,
    Where,
    whole,
)
from fewpass.pipeline.settings.model import MOST_WORKERS


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
    from fewpass.flows.ingesting import run_ingest

    *more, dataset = paths
    return run_ingest((source, *more), dataset, ingest, reading, plan_source, output)


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
    from fewpass.flows.training import run_train

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
    from fewpass.flows.training import run_resume

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
        Memory limit, in addition to what the libraries take [default: as in training; of files
        1GiB].
    """
    from fewpass.flows.scoring import run_evaluate

    return run_evaluate(run, dataset, reliability, memory, reading, where, output)


def predict(
    run: str,
    input_: Annotated[str, Parameter(name="INPUT")],
    out: str,
    /,
    *,
    overwrite: bool = False,
    probability: bool = False,
    defuse: bool = False,
    memory: str | None = None,
    threads: Annotated[int | None, whole(1, MOST_WORKERS)] = None,
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
    overwrite
        Replace OUT if it exists already; never an input, a source of the model's data set, or what
        lies in a data set or a run.
    probability
        Add a column per class, and last that of the positive label, or of the label predicted: by
        --calibrate of the training, else by the logistic loss.
    defuse
        In .csv, put a ' before labels that a spreadsheet would run as a formula.
    memory
        Memory limit, in addition to what the libraries take [default: 1GiB, and what the weights
        take].
    threads
        Threads that read and score [default: one per core].
    """
    from fewpass.flows.scoring import run_predict

    return run_predict(
        run, input_, out, overwrite, probability, defuse, memory, threads, reading, output
    )


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
    from fewpass.flows.reporting import run_report

    return run_report(run, html, held_out, where, output)
