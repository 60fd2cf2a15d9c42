"""What looks closer at plans, models, methods, data sets and runs."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from fewpass.flows.options import (
    OUTPUT,
    PLAN_SOURCE,
    READING,
    STRAIGHT,
    TRAINING,
    WHERE,
    Method,
    Output,
    PlanSource,
    Reading,
    Straight,
    Training,
    Where,
    whole,
)


def plan(
    dataset: str,
    /,
    *,
    training: Training = TRAINING,
    reading: Reading = READING,
    straight: Straight = STRAIGHT,
    where: Where = WHERE,
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

    return run_plan(dataset, training, where, plan_source, output, reading, straight)


def weights(
    run: str,
    /,
    *,
    top: Annotated[int, whole(1)] = 20,
    label: Annotated[str | None, Parameter(name="--class")] = None,
    csv: bool = False,
    names: str | None = None,
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
    names
        Vowpal Wabbit text whose first 4 MB name hashed columns that the model has no names of.
    """
    from fewpass.flows.weights import run_weights

    return run_weights(run, top, label, csv, names, output)


def methods(name: Method | None = None, /, *, output: Output = OUTPUT) -> int:
    """List the training methods, or show what one of them needs and its settings.

    Parameters
    ----------
    name
        Word of a method, as --solver takes it.
    """
    from fewpass.flows.methods import run_methods

    return run_methods(name, output)


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
