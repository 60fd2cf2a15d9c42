"""Rows that judge what a straight training has learnt: a data set, or rows that were put aside."""

from __future__ import annotations

from typing import Any

from fewpass.pipeline.runs.engine import Training
from fewpass.pipeline.runs.grid import Choice
from fewpass.pipeline.scoring.choosing_lam import AsRead, choose_lam
from fewpass.pipeline.straight.first_rows import FirstRows, RowsOfSource
from fewpass.solvers.protocol import Certificate, Solver, State
from fewpass.storage.dataset import Dataset


def judges_of(training: Training, first: FirstRows, width: int) -> Dataset | None:
    """Return the rows that nothing was learnt from, if there are any."""
    if first.plan.held_out is not None:
        return Dataset.open(first.plan.held_out, training.storage_options)
    table, data, fixed = first.intake.judges.table(), first.dataset, first.intake.fixed
    if table is None:
        return None
    return RowsOfSource(
        table, width, fixed.targets, fixed.scaler, data.schema, data.hashed_names, data.place
    )


def record_of(training: Training, width: int) -> Any:
    """Return the run's record, of as many columns as there are by now."""
    return training.run.record().model_copy(update={"n_features": width})


def choose(
    training: Training, judges: Dataset, width: int, lams: tuple[float, ...], solver: Solver,
    state: State, certificate: Certificate | None,
) -> Choice | None:  # fmt: skip
    """Choose among the models of several lam by their loss on the judges."""
    executor, record = training.executor, record_of(training, width)
    head = executor.submit_small("weights", narrowed, solver, state, width)
    return choose_lam(
        record, judges, judges, AsRead(), lams, head,
        certificate, executor,
    )  # fmt: skip


def narrowed(solver: Solver, state: State, width: int) -> Any:
    """Return a state's weights of the columns that there are."""
    weights = solver.weights(state)
    return weights._replace(coef=weights.coef[..., :width])
