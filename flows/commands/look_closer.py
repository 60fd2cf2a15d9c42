"""What looks closer at plans, models, methods, data sets and runs."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Annotated

from fewpass.flows.options import (
    OUTPUT,
    PLAN_SOURCE,
    TRAINING,
    WHERE,
    Output,
    PlanSource,
    TrainingOptions,
    Where,
    whole,
)


def plan(
    dataset: str,
    /,
    *,
    training: TrainingOptions = TRAINING,
    plan_source: PlanSource = PLAN_SOURCE,
    output: Output = OUTPUT,
) -> int:
    """Predict what a training takes: passes, bytes, memory and time; suggest what would help.

    Takes the options of train.  Reads the data set's statistics and a few chunks, or the first
    rows of a source, and writes nothing.

    Parameters
    ----------
    dataset
        Data set made by ingest, or a source of rows.
    """
    from fewpass.flows.planning import run_plan

    return run_plan(dataset, training, plan_source, output)


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


def inspect(path: str, /, *, output: Output = OUTPUT) -> int:
    """Show what a data set, a run or a snapshot contains.

    Parameters
    ----------
    path
        Folder or address of the data set, the run, or a snapshot in it.
    """
    from fewpass.flows.looking import run_inspect

    return run_inspect(path, output)


def verify(path: str, /, *, output: Output = OUTPUT) -> int:
    """Check every byte of a data set or run; name what is damaged, and exit with 1 if anything is.

    Parameters
    ----------
    path
        Folder or address of the data set, the run, or a snapshot in it.
    """
    from fewpass.flows.looking import run_verify

    return run_verify(path, output)


def dashboard(
    *runs: str, port: Annotated[int, whole(0, 65535)] = 8788, output: Output = OUTPUT
) -> int:
    """Serve a page on 127.0.0.1 that shows how runs are going.

    /fewpass is the page, /fewpass/metrics what Prometheus reads.

    Parameters
    ----------
    runs
        Folders or addresses of runs, or of a refresh's store: its generations as they come.
    port
        Port of this machine to serve on; 0 takes a free one [default: 8788].
    """
    from fewpass.flows.looking import run_dashboard

    return run_dashboard(runs, port, output)
