"""What classifier and regressor share: from parameters and rows to a plan, a training, a model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from pipeline.estimators.batches import METHOD, Learnt, learn
from pipeline.estimators.interruptible import interruptible
from pipeline.estimators.lazy import example_of, lazily
from pipeline.estimators.parameters import (
    MOST_PASSES,
    budget_of,
    scaling_of,
    seed_of,
    share_of,
    strength,
    strengths,
)
from pipeline.estimators.rows import checked, fitted_scaler
from pipeline.estimators.stored import (
    Stored,
    Task,
    Wanted,
    is_paths,
    is_stored,
    stored,
    train_stored,
)
from pipeline.estimators.work_folder import work_folder
from pipeline.export.formats import export, to_sklearn
from pipeline.export.plain_model import PlainModel
from pipeline.ingestion.scaling import Scaler, scaled, unscaled
from pipeline.settings.training_plan import TrainingPlan
from pipeline.training.in_memory import train_in_memory
from pipeline.training.model import stored_weights
from pipeline.training.outcome import Trained
from solvers.protocol import Weights
from solvers.registry import LOSSES, loss_class
from storage.in_memory import MemoryDataset
from storage.manifest import Labels, Values
from storage.table import Table, take

Vector = NDArray[np.float64]
Described = Callable[[Vector], Labels | Values]


class LinearModel(BaseEstimator):
    """Base of the estimators; see `LinearClassifier` and `LinearRegressor`."""

    _takes_numbers: ClassVar[bool]  # or labels
    _last: Learnt | None  # what came of the last batch; None after a fit

    def decision(self, X: Any) -> Vector:
        """Return X coef^T + intercept, (n,) or (n, K)."""
        check_is_fitted(self)
        if is_paths(X):
            raise ValueError(
                "X names files, but rows are predicted here. Read them first, or predict files "
                "with the command `fewpass predict`."
            )
        X = checked(self, X, reset=False)
        scores: Vector = X @ self.coef_.T + self.intercept_
        return scores.ravel() if scores.ndim == 1 or scores.shape[1] == 1 else scores

    # -- fit -------------------------------------------------------------------------------------

    def _fit(self, table: Table, described: Described, at: Weights | None) -> None:
        """Train on a table, from the weights `at` if there are any, and take the model.

        `described` says of targets what a manifest does.
        """
        d = self.n_features_in_
        table, held_out = self._parts(table, at)
        scaler = fitted_scaler(scaling_of(self.scale), table, d)
        plan = self._plan(total_weight(table), held_out="memory" if held_out else None)
        dataset, judges = (
            part and MemoryDataset(scaler.apply(part), d, described(part.target))
            for part in (table, held_out)
        )
        assert dataset is not None, "only held-out rows may be none"
        start = None if at is None else (scaled(at, scaler), getattr(self, "rows_seen_", 0))
        found = interruptible(
            self._kernels(), lambda stop: train_in_memory(plan, dataset, start, stop, judges)
        )
        self._take(unscaled(found.weights, scaler))
        self._tell(found, plan, table.n_rows)
        self._last, self._weight_seen = None, total_weight(table)

    def _parts(self, table: Table, at: Weights | None) -> tuple[Table, Table | None]:
        """Return the rows to train on and those to judge by, drawn by the seed, if any are."""
        share = self._share()
        if not share:
            return table, None
        if at is not None and not self.early_stopping:
            raise ValueError(
                "warm_start=True goes on from one model, and held_out chooses among several. Leave "
                "one of them out."
            )
        kinds = None if self._takes_numbers else table.target
        parts = train_test_split(
            np.arange(table.n_rows), test_size=share, random_state=seed_of(self.random_state),
            stratify=kinds,
        )  # fmt: skip
        train, judge = (take(table, np.sort(part)) for part in parts)
        return train, judge

    def _fit_stored(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Store rows that are not in memory, train on them, and take the model."""
        at = self._model() if self.warm_start and hasattr(self, "coef_") else None
        if self.warm_start and self.folder is not None:
            raise ValueError(
                "warm_start=True begins at coef_, of which a run in folder=... knows nothing. "
                "Leave one of them out."
            )
        with work_folder(self.folder) as folder:
            rows = stored(X, y, sample_weight, self._wanted(), folder)
            self._know(rows, at)
            class_weight = getattr(self, "class_weight", None)
            plan = self._plan(
                rows.total_weight(class_weight),
                dataset=rows.dataset.folder.url,
                passes=self.passes,
                memory=budget_of(self.memory),
                class_weight=rows.weights_by_label(class_weight),
                held_out=rows.held_out,
            )
            scaler = Scaler.of(rows.dataset)
            start = None
            if at is not None:
                start = stored_weights(scaled(at, scaler), rows.dataset), self.rows_seen_
            found = interruptible(
                self._kernels(),
                lambda stop: train_stored(plan, folder.run, self.scheduler, start, stop),
            )
            self._take(unscaled(found.weights, scaler))
            self._tell(found, plan, rows.dataset.n_rows)
            self._last, self._weight_seen = None, rows.total_weight(None)
            self.dataset_ = rows.dataset.folder.url if folder.kept else None
            self.run_ = folder.run if folder.kept else None

    def _wanted(self) -> Wanted:
        task: Task = "regression" if self._takes_numbers else "classification"
        return Wanted(
            task, scaling_of(self.scale), budget_of(self.memory), seed_of(self.random_state),
            self._share(),
        )  # fmt: skip

    def _kernels(self) -> str:
        """Return whose kernels a fit may have to compile."""
        kind = self.solver.get("kind") if isinstance(self.solver, Mapping) else self.solver
        return f"{kind}, loss {self.loss}"

    def _share(self) -> float:
        return share_of(self.held_out, self.early_stopping, self.validation_fraction)

    def _know(self, rows: Stored, at: Weights | None) -> None:
        """Take over how wide the rows are and what their columns are called."""
        d = rows.dataset.n_features
        if at is not None and at.coef.shape[-1] != d:
            raise ValueError(
                f"warm_start goes on with {at.coef.shape[-1]} features, but X has {d}. Fit anew "
                "with warm_start=False."
            )
        self.n_features_in_ = d
        names = rows.feature_names
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _partial_fit(self, table: Table, targets: Labels | Values) -> None:
        """Take one step per row, from where the batch before ended or at the present model."""
        if self.scale != "none":
            raise ValueError(
                f"scale={self.scale!r} needs all rows at once, and partial_fit sees a batch. Scale "
                "before, with scikit-learn's StandardScaler and its own partial_fit."
            )
        seen = getattr(self, "rows_seen_", 0)
        last, before = getattr(self, "_last", None), getattr(self, "_weight_seen", float(seen))
        n = before + total_weight(table)
        plan = self._plan(n, solver=METHOD, tol=None, passes=1, early_stopping=False)
        at = (self._model(), seen) if last is None and hasattr(self, "coef_") else None
        batch = MemoryDataset(table, self.n_features_in_, targets)
        found = interruptible(self._kernels(), lambda _stop: learn(plan, batch, last, at))
        self._take(found.weights)
        self._last, self._weight_seen = found, n
        self.rows_seen_ = seen + table.n_rows
        self.n_iter_, self.solver_, self.lam_ = 1, "asgd", strength(self.lam, n)
        self.passes_ = 1.0
        self.objective_: float | None = None
        self.certificate_: float | None = None

    def _plan(self, n: float, **instead: Any) -> TrainingPlan:
        """Return the plan that the parameters mean; ValueError names the one that is wrong."""
        self._require_loss()
        open_end = self.tol is not None or self.early_stopping
        lams = strengths(self.lam, n) if instead.get("held_out") else [strength(self.lam, n)]
        given = {
            "dataset": "memory",
            "loss": self.loss,
            "smoothing": self.smoothing,
            "lam": ",".join(map(repr, lams)),
            "solver": self._solver(),
            "tol": self.tol,
            "passes": MOST_PASSES if self.passes is None and open_end else self.passes,
            "early_stopping": bool(self.early_stopping),
            "n_iter_no_change": self.n_iter_no_change,
            "intercept": "free" if self.fit_intercept else "none",
            "seed": seed_of(self.random_state),
        } | instead
        try:
            # A pass for the certificate where no tolerance asks for one.
            return TrainingPlan(
                certify=True, **{name: value for name, value in given.items() if value is not None}
            )
        except ValidationError as error:
            raise ValueError(self._refusal(error)) from error

    def _require_loss(self) -> None:
        """Refuse a loss of the other estimator; one that there is not is refused by the plan."""
        known = isinstance(self.loss, str) and self.loss in LOSSES
        if known and loss_class(self.loss).takes_numbers != self._takes_numbers:
            suits = [w for w in LOSSES if loss_class(w).takes_numbers == self._takes_numbers]
            raise ValueError(
                f"loss={self.loss!r} is not for {type(self).__name__}. Choose one of "
                f"{', '.join(suits)}."
            )

    def _solver(self) -> Any:
        kind = self.solver.get("kind") if isinstance(self.solver, Mapping) else self.solver
        if kind == "simba":
            raise ValueError(
                "solver='simba' reads single columns and is not for estimators. Choose 'auto', or "
                "train it with the command `fewpass train`."
            )
        return dict(self.solver) if isinstance(self.solver, Mapping) else self.solver

    def _refusal(self, error: ValidationError) -> str:
        first = error.errors()[0]
        told = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:  # about several together
            return told
        name = str(first["loc"][0])
        return f"{type(self).__name__} cannot take {name}={first['input']!r}: {told}."

    def _take(self, weights: Weights) -> None:
        """Keep a model as the attributes of a fitted estimator."""
        raise NotImplementedError

    def _model(self) -> Weights:
        """Return the model that the attributes hold."""
        raise NotImplementedError

    def _tell(self, found: Trained, plan: TrainingPlan, n_rows: int) -> None:
        """Keep what came of a training; warn where the tolerance is not certified."""
        cursor, certified = found.cursor, found.certified
        self.passes_ = cursor.passes
        self.n_iter_ = max(1, math.ceil(cursor.passes))
        self.rows_seen_ = cursor.rows_before + round(cursor.passes * n_rows)
        self.solver_, self.lam_ = found.solver, found.lam
        chosen_from = found.choice.candidates if found.choice else ()
        self.candidates_ = [candidate._asdict() for candidate in chosen_from]
        self.objective_ = certified.objective if certified else None
        self.certificate_ = certified.gap if certified else None
        seen = found.validation
        self.validation_curve_ = seen and np.array([(p.passes, p.loss) for p in seen.curve])
        by_choice = seen is not None and (
            seen.is_over(plan.n_iter_no_change) or not seen.is_at_best
        )
        if found.converged is False and not by_choice:
            proven = "nothing" if certified is None else f"{certified.relative:.3g}"
            warnings.warn(
                f"tol={plan.tol:g} was not reached in {cursor.passes:.4g} passes: {proven} is "
                "certified. More passes, a larger lam or scale='standard' would help.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _is_stored(self, X: Any) -> bool:
        return is_stored(X, budget_of(self.memory))

    def _lazily(self, method: Callable[[Any], NDArray[Any]], X: Any) -> NDArray[Any]:
        """Return what a method gives for a Dask collection: an array of Dask's own."""
        check_is_fitted(self)
        found: NDArray[Any] = lazily(method, X, example_of(self.n_features_in_, X))
        return found

    def to_sklearn(self) -> Any:
        """Return a model of scikit-learn's own with the same predictions.

        `LogisticRegression`, `LinearSVC` or `LinearRegression`; of several logistic classes a
        `OneVsRestClassifier`.  Its converters (skl2onnx, skops, ...) take it.
        """
        return to_sklearn(self._plain())

    def save_model(self, path: Any) -> None:
        """Write the model for other programs, by the suffix of the path.

        .onnx, .safetensors, .liblinear or .skops; it appears whole or not at all.

        Raises
        ------
        ValueError
            When there is no such format, or the model does not fit it.
        """
        export(self._plain(), path)

    def _plain(self) -> PlainModel:
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return PlainModel(
            np.atleast_2d(self.coef_), np.atleast_1d(np.asarray(self.intercept_, float)),
            getattr(self, "classes_", None), self.loss, self.lam_,
            None if names is None else tuple(names), self.certificate_,
        )  # fmt: skip

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def total_weight(table: Table) -> float:
    """Return the n of lam = A/n: the sum of the row weights."""
    return float(table.n_rows if table.weight is None else table.weight.sum())
