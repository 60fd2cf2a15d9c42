"""The parameters that both estimators have."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, TypeVar

from sklearn.base import BaseEstimator

from fewpass.solvers.registry import L2

Class = TypeVar("Class", bound=type)
_ATTRIBUTES = "\n\nAttributes\n----------\n"
_PARAMETERS = "\n\nParameters\n----------\n"


@dataclass(kw_only=True, eq=False, repr=False)
class SharedParameters(BaseEstimator):
    """Parameters and attributes of both estimators.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet", "group_lasso"}, default="l2"
        What weights are charged: squares, (lam/2) ||w||^2; sizes, lam sum |w_j|, which makes many
        of them exactly 0; or both.  "group_lasso": lam sum_g sqrt(d_g) ||w_g|| over the d_g
        features that one column of a table became, which makes whole columns 0; `encode` must make
        some.
    l1_ratio : float or None, default=None
        With "elasticnet": the share r of lam that is charged for sizes, as in scikit-learn,
        lam (r sum |w_j| + (1 - r)/2 ||w||^2).  None is 0.5.  With "group_lasso" that of the norms,
        and None is 1.
    lam : float, str or list of them, default="1/n"
        Strength of the penalty: a number, or "A/n", where n is the sum of the row weights, or, with
        sizes in the penalty, "Amax", where max is the smallest lam that makes all weights 0.
        Several values are trained in the same passes, and `held_out` rows choose the best; with
        sizes "path" is 20 values from "1max" to "0.01max".  "auto"
        chooses among 1000/n, 100/n, ... .01/n by rows held out for that (`held_out`, a fifth of the
        rows, or five folds of fewer than 10,000) and trains on all others, or on all.
    solver : str or dict, default="auto"
        Name of a method, such as "newton", "psdca" or "asgd", or {"kind": name, setting: value}.
    tol : float or None, default=1e-6
        Stop when the objective F is at most tol * max(F, F_0 / 1000) above the optimum, proven; F_0
        is the loss of the best constant prediction.  None with solver="auto" makes one pass with
        several learners ("onepass"); methods of many passes stop at 1e-3 then.
    passes : int or None, default=None
        Largest number of passes over the rows.  None is 1000, or 100 if the rows are not in
        memory; without tol it is what the method usually takes.
    fit_intercept : bool, default=True
        Whether to fit an intercept b.  Its distance from the best constant is penalised with a
        hundredth of lam.
    scale : {"none", "standard", "maxabs", "rms"}, default="none"
        Scaling of the columns during training: "standard" to mean 0 and variance 1 (dense rows
        only), "maxabs" to largest absolute value 1, "rms" to mean square 1.  coef_ and intercept_
        are for unscaled rows.
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
    encode : {"none", "auto", "linear", "always", "additive", "splines"}, default="none"
        Whether to encode the columns of files and frames (words, dates, missing values) as numbers,
        as `fewpass ingest` does; "auto" does so if a column needs it, and adds curves of numbers
        and functions of pairs where these are better on held-out rows for sure; "linear" never
        adds any, "additive" does as far as held-out rows approve, "splines" adds the curves alone.
        `predict` then takes raw rows.  Encoded features of files are float32.
    columns : dict or None, default=None
        What columns of files and frames hold, by name, such as {"zip": "category"}: the kinds of
        `--column`.  They are encoded then, whatever `encode` is.
    memory : int, str or None, default=None
        Memory limit for rows that are not in memory, such as "256MB", and for models that
        lam="auto" is chosen by.  None is 1 GiB.
    folder : path or None, default=None
        Where to keep rows that are not in memory (`folder/data`) and their training (`folder/run`).
        The same call continues an interrupted fit, and returns a finished one.  None is a temporary
        folder.
    scheduler : str, Client, cluster or None, default=None
        Dask scheduler that trains rows that are not in memory: its address, which scikit-learn can
        clone, a Client or a cluster; or "local" for one in this process.  None trains in threads,
        without Dask.
    verbose : int or None, default=None
        Show progress if a fit takes more than a second: None in notebooks, 1 always, 0 never.

    Attributes
    ----------
    n_features_in_ : int
        Columns of X; where `encode` made features of them, coef_ has more.
    feature_names_in_ : ndarray (n_features_in_,)
        Where X had names.
    encoder_ : TableEncoder
        If columns were encoded: how.  Its `get_feature_names_out()` names what coef_ is of.
    n_iter_ : int
        Passes, rounded up.
    passes_ : float
        Rows read, divided by the number of rows.
    solver_ : str
        The method that trained the model; the last one if `auto` switched.
    lam_ : float
        lam as a number.
    rows_seen_ : int
        Rows read, including those of the fits that this one continued.
    validation_curve_ : ndarray (epochs, 2) or None
        With early stopping: passes, and the mean loss of the held-out rows after them.
    dataset_, run_ : str or None
        For rows that are not in memory: where data set and run are.  None without `folder`.
    """

    loss: str
    lam: Any = "1/n"
    penalty: str = L2
    l1_ratio: float | None = None
    solver: str | dict[str, Any] = "auto"
    tol: float | None = 1e-6
    passes: int | None = None
    fit_intercept: bool = True
    scale: str = "none"
    smoothing: float = 1.0
    random_state: Any = None
    warm_start: bool = False
    held_out: float | None = None
    early_stopping: bool = False
    n_iter_no_change: int = 5
    validation_fraction: float = 0.1
    encode: str = "none"
    columns: Any = None
    memory: int | str | None = None
    folder: Any = None
    scheduler: Any = None
    verbose: int | None = None


def with_shared_words(estimator: Class) -> Class:
    """Append the shared parameters and attributes to an estimator's docstring."""
    own, shared = (inspect.cleandoc(c.__doc__ or "") for c in (estimator, SharedParameters))
    parameters, _, attributes = shared.partition(_PARAMETERS)[2].partition(_ATTRIBUTES)
    head, _, own_attributes = own.partition(_ATTRIBUTES)
    if own:  # not under python -OO
        estimator.__doc__ = f"{head}\n{parameters}{_ATTRIBUTES}{own_attributes}\n{attributes}\n"
    return estimator
