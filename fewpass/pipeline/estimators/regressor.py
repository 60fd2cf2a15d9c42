"""Least squares and Huber's loss, L2-regularised, with scikit-learn's contract."""
# ruff: noqa: PLC0415 - numba, pydantic and what reads files would make this import twice as long

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from fewpass.pipeline.estimators.kinds_of_rows import is_collection
from fewpass.pipeline.estimators.linear import LinearModel
from fewpass.pipeline.estimators.rows import checked, checked_weights, table_of, taken_out

if TYPE_CHECKING:  # what a fit needs is imported when one begins
    from fewpass.solvers.protocol import Weights
    from fewpass.storage.manifest import Values


class LinearRegressor(RegressorMixin, LinearModel):
    """Minimise mean_i phi(w . x_i + b, y_i) + (lam/2) ||w||^2, and prove how well.

    Parameters
    ----------
    loss : {"squared", "huber"}, default="squared"
        phi: half the squared residual, or that up to `smoothing` and linear beyond.
    lam : float, str or list of them, default="1/n"
        Strength of the regularisation: a number, or "A/n" with n the total row weight.  Several
        are trained in the same passes, and `held_out` rows choose the best.
        scikit-learn's `Ridge(alpha)` is lam = alpha/n.
    solver : str or dict, default="auto"
        A method's word, such as "newton", "psdca" or "asgd", or {"kind": word, setting: value}.
    tol : float or None, default=1e-6
        Stop at a certified gap to the optimum of tol * max(1, |objective|).  None with
        solver="auto" is one pass of several learners ("onepass").
    passes : int or None, default=None
        Passes over the rows at most; None is 1000, or 1 without tol.
    fit_intercept : bool, default=True
        Whether there is a b; it is charged a hundredth of what weights are.
    scale : {"none", "standard", "maxabs"}, default="none"
        How columns are scaled while training; coef_ and intercept_ are for columns as given.
    smoothing : float, default=1.0
        Huber's width.
    random_state : int, RandomState or None, default=None
        None is 0: equal fits give equal bits.
    warm_start : bool, default=False
        Whether `fit` begins at the coefficients of the fit before.
    held_out : float or None, default=None
        Share of the rows, drawn by `random_state`, that the model is not trained on: their mean
        loss chooses among several lam.
    early_stopping : bool, default=False
        Whether held-out rows are read after every epoch of the method: the model of their lowest
        mean loss is kept, and training stops when that no longer falls.
    n_iter_no_change : int, default=5
        Epochs without a lower loss, by a ten-thousandth, that stop it.
    validation_fraction : float, default=0.1
        Share of the rows that is held out for it, unless `held_out` says.
    encode : {"none", "auto", "always"}, default="none"
        Whether the columns of files and frames become numbers by a recipe, as `fewpass ingest`
        makes one: words, dates, gaps; "auto" where there are such.  Features are then what columns
        become, as float32 of files, and `predict` takes rows as they come.
    memory : int, str or None, default=None
        Budget for rows that are not in memory, such as "256MB"; None is 1 GiB.
    folder : path or None, default=None
        Where rows that are not in memory are stored and trained: `folder/data`, `folder/run`.
        The same call again goes on or returns what is there.  None is a temporary folder.
    scheduler : str or None, default=None
        Address of a Dask scheduler to train stored rows on, or "local" for one in this process;
        None trains in threads, without Dask.
    verbose : int or None, default=None
        Whether a fit of more than a second shows how far it is: None in notebooks, 1 everywhere,
        0 nowhere.

    Attributes
    ----------
    coef_ : ndarray (n_features,)
    intercept_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray (n_features,)
        Where X had names.
    encoder_ : TableEncoder
        Where columns were encoded: what became of them.
    n_iter_ : int
        Passes, rounded up.
    passes_ : float
        Rows read over rows.
    solver_ : str
        The method that was at work last.
    lam_ : float
        As a number.
    objective_ : float
        At coef_ and intercept_, on the scaled columns.
    certificate_ : float
        objective_ is at most this far above the optimum.
    rows_seen_ : int
        Visits to rows, of all fits that this one continued.
    candidates_ : list of dict
        Where rows were held out: of every lam its mean loss there, and the objective and the
        certified gap on the others.
    validation_curve_ : ndarray (epochs, 2) or None
        Where it may stop early: passes, and the mean loss of the held-out rows after them.
    dataset_, run_ : str or None
        Of rows that were not in memory, where data set and run are; None in a temporary folder.
    """

    _takes_numbers = True

    def __init__(
        self,
        *,
        loss: str = "squared",
        lam: Any = "1/n",
        solver: str | dict[str, Any] = "auto",
        tol: float | None = 1e-6,
        passes: int | None = None,
        fit_intercept: bool = True,
        scale: str = "none",
        smoothing: float = 1.0,
        random_state: Any = None,
        warm_start: bool = False,
        held_out: float | None = None,
        early_stopping: bool = False,
        n_iter_no_change: int = 5,
        validation_fraction: float = 0.1,
        encode: str = "none",
        memory: int | str | None = None,
        folder: Any = None,
        scheduler: str | None = None,
        verbose: int | None = None,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.solver = solver
        self.tol = tol
        self.passes = passes
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.smoothing = smoothing
        self.random_state = random_state
        self.warm_start = warm_start
        self.held_out = held_out
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.encode = encode
        self.memory = memory
        self.folder = folder
        self.scheduler = scheduler
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on X (n, d), dense or sparse, and numbers y (n,).

        A row of weight 2 counts like two rows, one of weight 0 not at all.

        Parameters
        ----------
        X : array, matrix, frame; Dask collection, list of delayed blocks; path or paths
            Rows.  Files are CSV, Parquet, LIBSVM, NPY or NPZ; a path may also be a data set's.
            A Dask bag holds texts, whose words are hashed to 2^20 columns.
        y : the same kind, (n,); of frames and files the name of a column
            Numbers; None for files whose targets have a fixed place.
        sample_weight : like y, default=None
            What rows count.

        Raises
        ------
        ValueError
            When rows, weights or parameters cannot be trained with.
        """
        if self._is_stored(X):
            self._fit_stored(X, y, sample_weight)
            return self
        at = self._model() if self.warm_start and hasattr(self, "coef_") else None
        X, y, sample_weight = taken_out(X, y, sample_weight)
        X = self._encoded(X, anew=at is None)
        X, y = checked(self, X, y=y, y_numeric=True, reset=at is None)
        y = np.asarray(y, np.float64)
        table = table_of(X, y, checked_weights(sample_weight, len(y)))
        self._fit(table, described, at)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from a batch by one step of averaged SGD per row, in the order given.

        However rows are cut into batches, the model is the same, as long as lam is a number; with
        "A/n", n grows with the rows.  The parameters solver, tol and passes do not matter.

        Raises
        ------
        ValueError
            When rows, weights or parameters cannot be trained with.
        """
        self._refuse_batch()
        first = not hasattr(self, "coef_")
        X, y = checked(self, X, y=y, y_numeric=True, reset=first)
        y = np.asarray(y, np.float64)
        table = table_of(X, y, checked_weights(sample_weight, len(y)))
        self._partial_fit(table, described(table.target))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions (n,) for X (n, d), of Dask's rows lazily."""
        if is_collection(X):
            return self._lazily(self.predict, X)
        return self.decision(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2, of Dask's rows block by block."""
        if is_collection(X):
            from fewpass.pipeline.estimators.lazy import sums_over

            sums = sums_over(self.predict, X, y, sample_weight, numbers=True)
            return 1.0 - sums.residual / sums.about_mean
        return float(super().score(*taken_out(X, y, sample_weight)))

    def _take(self, weights: Weights) -> None:
        self.coef_, self.intercept_ = weights.coef, float(weights.intercept)

    def _model(self) -> Weights:
        from fewpass.solvers.protocol import Weights

        return Weights(self.coef_, self.intercept_)


def described(y: np.ndarray) -> Values:
    """Describe targets as ingest would."""
    from fewpass.storage.manifest import Values

    return Values.model_construct(
        mean=float(y.mean()), variance=float(y.var()), minimum=float(y.min()),
        maximum=float(y.max()),
    )  # fmt: skip
