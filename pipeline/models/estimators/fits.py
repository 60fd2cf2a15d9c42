"""Fits: an estimator's parameters and rows become a plan, a training, a model.

All of the machinery is imported here and nowhere else in this room, when the first fit begins:
importing an estimator takes little longer than scikit-learn.
"""

# ruff: noqa: SLF001 - the other half of the estimators

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from sklearn.exceptions import ConvergenceWarning

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.estimators.batches import learn, method_of
from fewpass.pipeline.models.estimators.interruptible import interruptible
from fewpass.pipeline.models.estimators.meanings import (
    MOST_PASSES,
    budget_of,
    is_auto,
    scaling_of,
    seed_of,
    share_of,
    strength,
    written_lam,
)
from fewpass.pipeline.planning.problem import loss_word
from fewpass.pipeline.reporting.notebooks import progress
from fewpass.pipeline.rows.scaling import Scaler, measured, scaled, unscaled
from fewpass.pipeline.runs.outcome import Trained
from fewpass.pipeline.settings.ingest_plan import ScalingKind
from fewpass.pipeline.settings.regularisation import AUTO
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_passes
from fewpass.pipeline.training.chosen_lam import with_chosen_lam
from fewpass.pipeline.training.in_memory import train_in_memory
from fewpass.solvers.bad_input import refusal
from fewpass.solvers.protocol import Weights
from fewpass.solvers.registry import (
    LOSS_OF_CLASSES,
    LOSSES,
    METHODS,
    SECOND_ORDER,
    loss_class,
    method_class,
)
from fewpass.storage.column_schema import Groups, groups_of
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import DenseTable, Table, take

FEW_VALUES = 1 << 22  # that a pass takes some ten milliseconds for

Vector = NDArray[np.float64]


def fit_rows(model: Any, table: Table, d: int, at: Weights | None) -> None:
    """Train on a table of d columns, from the weights `at` if there are any; take the model."""
    table, held_out = parts_of(model, table, at)
    scaler = fitted_scaler(scaling_of(model.scale), table, d)
    plan = plan_of(model, total_weight(table), held_out="memory" if held_out else None)
    dataset, held_out_rows = (
        part
        and MemoryDataset(
            scaler.apply(part),
            d,
            model._described(part.target, part.weight),
            groups_of_model(model),
        )
        for part in (table, held_out)
    )
    assert dataset is not None, "only held-out rows may be none"
    if model.memory is not None:
        plan = plan.model_copy(update={"memory": budget_of(model.memory)})
    plan, origin = with_chosen_lam(plan, dataset, held_out_rows)
    start = None if at is None else (scaled(at, scaler), getattr(model, "rows_seen_", 0))
    trained = interruptible(
        kernels_of(model),
        lambda stop, tell: train_in_memory(plan, dataset, start, stop, held_out_rows, tell),
        progress(model.verbose, plan.passes),
        brief=table.nnz <= FEW_VALUES,
    )
    model._take(unscaled(trained.weights, scaler))
    model._see(dataset.manifest.targets, more=at is not None)
    store_result(model, trained, plan, table.n_rows)
    if origin:
        model.candidates_ = origin.as_facts()["candidates"]
    model._last, model._weight_seen = None, total_weight(table)


def groups_of_model(model: Any) -> Groups | None:
    """Return the group of every feature (d,), where a table was encoded."""
    recipe = getattr(getattr(model, "encoder_", None), "recipe_", None)
    if recipe is None or not recipe.groups:
        return None
    return groups_of(recipe.n_outputs, recipe.groups)


def parts_of(model: Any, table: Table, at: Weights | None) -> tuple[Table, Table | None]:
    """Return the rows to train on, and the held-out rows if there are any, drawn by the seed."""
    share = held_out_share(model)
    if not share:
        return table, None
    if at is not None and not model.early_stopping:
        raise ValueError(
            "warm_start=True goes on from one model, and held_out chooses among several. Leave "
            "one of them out."
        )
    from sklearn.model_selection import train_test_split  # noqa: PLC0415 - a first fit waits for it

    kinds = None if model._takes_numbers else table.target
    parts = train_test_split(
        np.arange(table.n_rows), test_size=share, random_state=seed_of(model.random_state),
        stratify=kinds,
    )  # fmt: skip
    train, test = (take(table, np.sort(part)) for part in parts)
    return train, test


def kernels_of(model: Any) -> str:
    """Return whose kernels a fit may have to compile."""
    kind = model.solver.get("kind") if isinstance(model.solver, Mapping) else model.solver
    chosen = "" if kind == "auto" else f"{kind}, "
    return f"{chosen}loss {model.loss}"


def held_out_share(model: Any) -> float:
    """Return the share of the rows that is held out, 0 for none."""
    return share_of(model.held_out, model.early_stopping, model.validation_fraction)


def learn_batch(model: Any, table: Table) -> None:
    """Take one step per row, from where the batch before ended or at the present model."""
    targets = model._described(table.target, table.weight)
    if model.scale != "none":
        raise ValueError(
            f"scale={model.scale!r} needs all rows at once, and partial_fit sees a batch. Scale "
            "before, with scikit-learn's StandardScaler and its own partial_fit."
        )
    if is_auto(model.lam):
        raise ValueError(
            'lam="auto" chooses by all rows, and partial_fit sees a batch. Give a number or "1/n".'
        )
    seen = getattr(model, "rows_seen_", 0)
    last, before = getattr(model, "_last", None), getattr(model, "_weight_seen", float(seen))
    n = before + total_weight(table)
    together = model.loss == LOSS_OF_CLASSES or getattr(model, "loss_", "") == LOSS_OF_CLASSES
    method = method_of(model.solver, targets, together=together)
    loss, classes = (LOSS_OF_CLASSES, "auto") if together else (model.loss, "ovr")
    plan = plan_of(
        model, n, solver=method, tol=None, passes=1, early_stopping=False, n_iter_no_change=None,
        loss=loss, classes=classes,
    )  # fmt: skip
    last = last if last is not None and last.method == method["kind"] else None
    at = (model._model(), seen) if last is None and hasattr(model, "coef_") else None
    batch = MemoryDataset(table, model.n_features_in_, targets, groups_of_model(model))
    learned = interruptible(kernels_of(model), lambda _stop, _tell: learn(plan, batch, last, at))
    model._take(learned.weights)
    model._see(targets, more=seen > 0)
    model._last, model._weight_seen = learned, n
    model.rows_seen_ = seen + table.n_rows
    model.n_iter_, model.solver_, model.lam_ = 1, learned.method, strength(model.lam, n)
    model.loss_ = loss_word(plan, targets)
    model.passes_ = 1.0
    model.objective_ = model.certificate_ = model.dataset_ = model.run_ = None


def plan_of(model: Any, n: float, **instead: Any) -> TrainingPlan:
    """Return the plan that the parameters mean; ValueError names the one that is wrong."""
    require_loss(model)
    require_plain(model)
    open_end = model.tol is not None or model.early_stopping
    several = bool(instead.get("held_out"))
    lam = AUTO if is_auto(model.lam) else written_lam(model.lam, n, several=several)
    given = {
        "dataset": "memory",
        "loss": model.loss,
        **{name: getattr(model, name) for name in loss_class(model.loss).parameters()},
        "lam": lam,
        "penalty": model.penalty,
        "l1_ratio": model.l1_ratio,
        "solver": solver_given(model),
        "tol": model.tol,
        "passes": MOST_PASSES if model.passes is None and open_end else model.passes,
        "early_stopping": bool(model.early_stopping),
        "n_iter_no_change": model.n_iter_no_change if model.early_stopping else None,
        "intercept": "free" if model.fit_intercept else "none",
        "classes": getattr(model, "multi_class", None),
        "seed": seed_of(model.random_state),
    } | instead
    try:
        # A pass for the certificate where no tolerance asks for one.
        return TrainingPlan.model_validate(
            {"certify": True} | {name: value for name, value in given.items() if value is not None}
        )
    except ValidationError as error:
        raise BadInput(refusal(error, TrainingPlan, partial(_parameter, model))) from error


def require_loss(model: Any) -> None:
    """Refuse an unknown loss, and one of the other estimator."""
    suits = [w for w in LOSSES if loss_class(w).takes_numbers == model._takes_numbers]
    if model.loss not in suits:
        raise ValueError(
            f"loss={model.loss!r} is not for {type(model).__name__}. Choose one of "
            f"{', '.join(suits)}."
        )


def require_plain(model: Any) -> None:
    """Refuse parameters that no plan checks, or none without early stopping."""
    budget_of(model.memory)
    if model.penalty is None:
        raise ValueError("penalty is None, and no proof goes without. Give 'l2' and a small lam.")
    if model.solver is None:
        raise ValueError("solver is None. Give 'auto', or the name of a method.")
    patience = model.n_iter_no_change
    if patience is not None and (not isinstance(patience, int | np.integer) or patience < 1):
        raise ValueError(f"n_iter_no_change is {patience!r}. Give a whole number of at least 1.")
    if not isinstance(model.fit_intercept, bool | np.bool_):
        raise ValueError(  # noqa: TRY004 - as of all parameters
            f"fit_intercept is {model.fit_intercept!r}. Give True or False."
        )
    if model.verbose not in (None, 0, 1):
        raise ValueError(f"verbose is {model.verbose!r}. Give None, 0 or 1.")


def solver_given(model: Any) -> Any:
    """Return the method as plans have it; ValueError when it is none for estimators."""
    kind = model.solver.get("kind") if isinstance(model.solver, Mapping) else model.solver
    if isinstance(model.solver, Mapping) and kind is None:
        raise ValueError(
            f"solver={model.solver!r} names no method. Give {{'kind': {SECOND_ORDER!r}}}, for "
            "example."
        )
    if kind in METHODS and method_class(kind).goal == "steps":
        raise ValueError(
            f"solver={kind!r} reads single columns and is not for estimators. Choose 'auto', or "
            "train it with the command `fewpass train`."
        )
    return dict(model.solver) if isinstance(model.solver, Mapping) else model.solver


def _parameter(model: Any, path: tuple[str, ...]) -> str:
    """Return what an estimator calls a setting."""
    named = {"seed": "random_state", "classes": "multi_class"}
    return f"{type(model).__name__}'s {named.get(path[0], '.'.join(path))}"


def store_result(model: Any, trained: Trained, plan: TrainingPlan, n_rows: int) -> None:
    """Store the result of a training as attributes; warn if the tolerance is not certified."""
    cursor, certified = trained.cursor, trained.certified
    model.passes_ = cursor.passes
    model.n_iter_ = max(1, math.ceil(cursor.passes))
    model.rows_seen_ = cursor.rows_before + round(cursor.passes * n_rows)
    model.solver_, model.lam_, model.loss_ = trained.solver, trained.lam, trained.loss
    chosen_from = trained.choice.candidates if trained.choice else ()
    model.candidates_ = [candidate._asdict() for candidate in chosen_from]
    model.objective_ = certified.objective if certified else None
    model.certificate_ = certified.gap if certified else None
    model.dataset_ = model.run_ = None  # of rows that are not in memory, where those are kept
    seen = trained.validation
    model.validation_curve_ = seen and np.array([(p.passes, p.loss) for p in seen.curve])
    by_choice = seen is not None and (seen.is_over(plan.n_iter_no_change) or not seen.is_at_best)
    if trained.converged is False and not by_choice:
        proven = "nothing" if certified is None else f"{certified.relative:.3g}"
        warnings.warn(
            f"tol={plan.tol:g} was not reached in {format_passes(cursor.passes, '.4g')}: {proven} "
            "is certified. More passes, a larger lam or scale='standard' would help.",
            ConvergenceWarning,
            stacklevel=4,
        )


def fitted_scaler(kind: ScalingKind, table: Table, n_features: int) -> Scaler:
    """Return the scaling of a kind that suits these rows; each counts once, whatever its weight."""
    columns = measured(kind, "dense" if isinstance(table, DenseTable) else "sparse", n_features)
    if columns is not None:
        columns.add(table)
    return Scaler.fitted(kind, columns, n_features)


def total_weight(table: Table) -> float:
    """Return the n of lam = A/n: the sum of the row weights."""
    return float(table.n_rows if table.weight is None else table.weight.sum())
