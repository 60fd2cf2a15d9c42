"""Least squares and Huber's loss, L2-regularised, with scikit-learn's contract."""
# ruff: noqa: PLC0415 - numba, pydantic and what reads files would make this import twice as long

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from fewpass.pipeline.models.estimators.kinds_of_rows import is_collection
from fewpass.pipeline.models.estimators.linear import LinearModel
from fewpass.pipeline.models.estimators.rows import checked, checked_weights, table_of, taken_out
from fewpass.solvers.registry import LOSS_OF_NUMBERS

if TYPE_CHECKING:  # what a fit needs is imported when one begins
    from fewpass.solvers.protocol import Weights
    from fewpass.storage.manifest import Values


class LinearRegressor(RegressorMixin, LinearModel):
    """Ridge or Huber regression, with a proof of how good it is.

    Minimises mean_i phi(w . x_i + b, y_i) + (lam/2) ||w||^2.

    Parameters
    ----------
    loss : {"squared", "huber"}, default="squared"
        The loss phi: half the squared residual; "huber" is linear beyond `smoothing`.
    lam : float, str or list of them, default="1/n"
        Strength of the penalty: a number, or "A/n", where n is the sum of the row weights.  Several
        values are trained in the same passes, and `held_out` rows choose the best.
        scikit-learn's `Ridge(alpha)` is lam = alpha/n.
    solver : str or dict, default="auto"
        Name of a method, such as "newton", "psdca" or "asgd", or {"kind": name, setting: value}.
    tol : float or None, default=1e-6
        Stop when the objective is proven to be at most tol * max(1, |objective|) above the optimum.
        None with solver="auto" makes one pass with several learners ("onepass"); methods of many
        passes stop at 1e-4 then.
    passes : int or None, default=None
        Largest number of passes over the rows.  None is 1000, or 100 if the rows are not in
        memory; without tol it is what the method usually takes.
    fit_intercept : bool, default=True
        Whether to fit an intercept b.  It is penalised with a hundredth of lam.
    scale : {"none", "standard", "maxabs"}, default="none"
        Scaling of the columns during training: "standard" to mean 0 and variance 1 (dense rows
        only), "maxabs" to largest absolute value 1.  coef_ and intercept_ are for unscaled rows.
    smoothing : float, default=1.0
        Residual beyond which Huber's loss is linear.
    random_state : int, RandomState or None, default=None
        Seed.  None is 0, so that the same fit always gives the same model, bit for bit.
    warm_start : bool, default=False
        Start `fit` from the coefficients of the previous fit.
    held_out : float or None, default=None
        Share of the rows, drawn by `random_state`, that is not trained on.  Their mean loss chooses
        among several values of lam.
    early_stopping : bool, default=False
        Evaluate held-out rows after every epoch of the method, keep the model with their lowest
        mean loss, and stop when it no longer falls.
    n_iter_no_change : int, default=5
        Early stopping: epochs without a lower loss (by a ten-thousandth) before training stops.
    validation_fraction : float, default=0.1
        Early stopping: share of the rows to hold out, unless `held_out` is given.
    encode : {"none", "auto", "always"}, default="none"
        Whether to encode the columns of files and frames (words, dates, missing values) as numbers,
        as `fewpass ingest` does; "auto" does so if a column needs it.  `predict` then takes raw
        rows.  Encoded features of files are float32.
    memory : int, str or None, default=None
        Memory limit for rows that are not in memory, such as "256MB".  None is 1 GiB.
    folder : path or None, default=None
        Where to keep rows that are not in memory (`folder/data`) and their training (`folder/run`).
        The same call continues an interrupted fit, and returns a finished one.  None is a temporary
        folder.
    scheduler : str or None, default=None
        Address of a Dask scheduler that trains rows that are not in memory, or "local" for one in
        this process.  None trains in threads, without Dask.
    verbose : int or None, default=None
        Show progress if a fit takes more than a second: None in notebooks, 1 always, 0 never.

    Attributes
    ----------
    coef_ : ndarray (n_features,)
    intercept_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray (n_features,)
        Where X had names.
    encoder_ : TableEncoder
        If columns were encoded: how.
    n_iter_ : int
        Passes, rounded up.
    passes_ : float
        Rows read, divided by the number of rows.
    solver_ : str
        The method that trained the model; the last one if `auto` switched.
    lam_ : float
        lam as a number.
    objective_ : float
        At coef_ and intercept_, on the scaled columns.
    certificate_ : float
        objective_ is at most this far above the optimum.
    rows_seen_ : int
        Rows read, including those of the fits that this one continued.
    candidates_ : list of dict
        If rows were held out: for every lam its mean loss on them, and
        objective and certified gap on the rows trained on.
    validation_curve_ : ndarray (epochs, 2) or None
        With early stopping: passes, and the mean loss of the held-out rows after them.
    dataset_, run_ : str or None
        For rows that are not in memory: where data set and run are.  None without `folder`.
    """

    _takes_numbers = True

    def __init__(
        self,
        *,
        loss: str = LOSS_OF_NUMBERS,
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
            Rows.  A path is that of a file (any format that `fewpass ingest` reads) or of a data
            set.  The words of a Dask bag of texts are hashed to 2^20 columns.
        y : the same kind, (n,); for frames and files the name of a column
            Numbers.  None for formats that have a place for it, and data sets.
        sample_weight : like y, default=None
            Row weights.

        Raises
        ------
        ValueError
            If rows, weights or parameters cannot be used; the message names them.
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
        """Learn from a batch, one step per row, in the order given.

        Several learners run side by side ("onepass").  With solver="asgd" averaged SGD runs alone;
        its model does not depend on how the rows are divided into batches if lam is a number (in
        "A/n", n grows with the rows).  tol and passes are not used, and nothing is certified.

        Parameters
        ----------
        X : (n, d)
            Rows, dense or sparse.
        y : (n,)
            Targets.
        sample_weight : (n,), default=None
            Row weights.

        Raises
        ------
        ValueError
            If rows, weights or parameters cannot be used; the message names them.
        """
        self._refuse_batch()
        first = not hasattr(self, "coef_")
        X, y = checked(self, X, y=y, y_numeric=True, reset=first)
        y = np.asarray(y, np.float64)
        table = table_of(X, y, checked_weights(sample_weight, len(y)))
        self._partial_fit(table, described(table.target))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions (n,) for X (n, d); for a Dask collection, a lazy Dask array."""
        if is_collection(X):
            return self._lazily(self.predict, X)
        return self.decision(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2; for Dask collections block by block."""
        if is_collection(X):
            from fewpass.pipeline.models.estimators.lazy import sums_over

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
