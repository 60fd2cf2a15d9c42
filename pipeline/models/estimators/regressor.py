"""Regression with scikit-learn's contract: least squares, robust losses, quantiles, counts."""
# ruff: noqa: PLC0415 - LLVM, pydantic and what reads files would make this import twice as long

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from fewpass.pipeline.models.estimators.checked_rows import taken_out
from fewpass.pipeline.models.estimators.kinds_of_rows import is_collection
from fewpass.pipeline.models.estimators.linear import LinearModel, Vector
from fewpass.pipeline.models.estimators.offsets import given_offset, offset_of, require_offset
from fewpass.pipeline.models.estimators.shared_parameters import with_shared_words
from fewpass.solvers.registry import LOSS_OF_NUMBERS, LOSSES, loss_class

if TYPE_CHECKING:  # what a fit needs is imported when one begins
    from fewpass.solvers.protocol import Weights
    from fewpass.storage.manifest import Values


def _learns_in_batches(estimator: Any) -> bool:
    is_named = isinstance(estimator.loss, str) and estimator.loss in LOSSES
    if is_named and loss_class(estimator.loss).is_steep:
        raise AttributeError(
            f"partial_fit takes a step per row, and the slope of loss={estimator.loss!r} has no "
            "bound. Use fit."
        )
    return True


@with_shared_words
@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegressor(RegressorMixin, LinearModel):
    """Linear regression of any loss of numbers, with a proof of how good it is.

    Minimises mean_i phi(w . x_i + b, y_i) + (lam/2) ||w||^2.  scikit-learn's `Ridge(alpha)` has
    lam = alpha/n; its `PoissonRegressor(alpha)` and `GammaRegressor(alpha)` have lam = alpha.

    Parameters
    ----------
    loss : {"squared", "huber", "quantile", "epsilon_insensitive", "poisson", "gamma"}
        The loss phi; default "squared", half the squared residual.  "huber" is linear beyond
        `smoothing`, "quantile" predicts the quantile `quantile`, "epsilon_insensitive" is that of
        support vector regression.  "poisson" (targets of at least 0) and "gamma" (above 0) are half
        the deviance with a log link: `predict` returns exp(w . x + b).
    smoothing : float, default=1.0
        Residual beyond which Huber's loss is linear.
    quantile : float, default=0.5
        Share of the targets that "quantile" leaves below its predictions.
    epsilon : float, default=0.1
        Largest residual that costs nothing under "epsilon_insensitive".
    clip : bool, default=True
        Clip predictions to the range of the targets seen, down to 0 if none is below it.

    Attributes
    ----------
    coef_ : ndarray (n_features,)
    intercept_ : float
    objective_ : float
        At coef_ and intercept_, on the scaled columns.
    certificate_ : float
        objective_ is at most this far above the optimum.
    candidates_ : list of dict
        If rows were held out: for every lam its mean loss on them, and
        objective and certified gap on the rows trained on.
    target_range_ : tuple of float
        The lowest and the highest target learnt from.
    """

    _takes_numbers: ClassVar[bool] = True

    loss: str = LOSS_OF_NUMBERS
    quantile: float = 0.5
    epsilon: float = 0.1
    clip: bool = True

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None,
        exposure: Any = None,
    ) -> Self:  # fmt: skip
        """Train on X (n, d), dense or sparse, and targets y (n,).

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
        offset : like y, default=None
            Added to every row's w . x + b.  `predict` needs it, too.
        exposure : like y, default=None
            What counts are in proportion to, such as time or population; its logarithm is the
            offset.  With loss="poisson" or "gamma".

        Raises
        ------
        ValueError
            If rows, targets, weights, offsets or parameters cannot be used; the message names them.
        """
        if exposure is not None and self.loss in LOSSES and not loss_class(self.loss).is_steep:
            raise ValueError(
                f"exposure is what counts are in proportion to, and loss={self.loss!r} predicts "
                "sums. Choose loss='poisson' or 'gamma', or give offset=np.log(exposure)."
            )
        return self._fit(X, y, sample_weight, offset, exposure)

    @available_if(_learns_in_batches)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from a batch, one step per row, in the order given.

        Several learners run side by side ("onepass").  With solver="asgd" averaged SGD runs alone,
        by steps that the first batch decides; its model does not depend on how the rows behind that
        batch are divided if lam is a number (in "A/n", n grows with the rows).  tol and passes are
        not used, and nothing is certified.

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
        return self._learn_batch(X, y, sample_weight)

    def _targets(self, y: Any, weight: Vector, at: Weights | None) -> tuple[Vector, Vector]:  # noqa: ARG002
        target = np.asarray(y, np.float64)
        self._require_defined(target, weight)
        return target, weight

    def _require_defined(self, y: Vector, weight: Vector) -> None:
        """Refuse the first target that the loss is not defined for, of rows that count."""
        from fewpass.pipeline.rows.targets import at_least

        least = loss_class(self.loss).least_target if self.loss in LOSSES else -np.inf
        if (below := (y < least) & (weight > 0.0)).any():
            row = int(below.argmax())
            raise ValueError(
                f"y[{row}] is {y[row]:g}, and loss={self.loss!r} is for targets {at_least(least)}. "
                "Leave such rows out, or choose another loss."
            )

    def _batch_targets(self, y: Any, weight: Vector, classes: Any) -> tuple[Vector, Vector]:  # noqa: ARG002
        return np.asarray(y, np.float64), weight

    def predict(self, X: Any, offset: Any = None, exposure: Any = None) -> np.ndarray:
        """Return predictions (n,) for X (n, d); for a Dask collection, a lazy Dask array.

        With loss="poisson" or "gamma" they are exp(w . x + b), on the scale of the targets.  A
        model that was fitted with `offset` or `exposure` needs them here, too; `exposure=1` gives
        rates.
        """
        if is_collection(X):
            return self._lazily(self.predict, X, given_offset(offset, exposure))
        X, *given = taken_out(X, offset, exposure)
        scores = self.decision(X)
        offsets = offset_of(given[0], given[1], len(scores))
        require_offset(self._has_offset, offsets)
        scores = scores if offsets is None else scores + offsets
        response, bounds = loss_class(self.loss)().response, self._bounds()
        predictions = response(scores) if response else scores
        return predictions if bounds is None else np.clip(predictions, *bounds)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, exposure: Any = None
    ) -> float:
        """Return the coefficient of determination R^2; for Dask collections block by block."""
        if is_collection(X):
            from fewpass.pipeline.models.estimators.lazy_predictions import sums_over

            given = given_offset(offset, exposure)
            sums = sums_over(self.predict, X, y, sample_weight, numbers=True, offsets=given)
            return sums.r2
        X, y, weight, offset, exposure = taken_out(X, y, sample_weight, offset, exposure)
        from sklearn.metrics import r2_score

        predicted = self.predict(X, offset, exposure)
        return float(r2_score(y, predicted, sample_weight=weight))

    def _see(self, targets: Values, *, more: bool) -> None:
        """Note the range of targets, of those learnt from before as well if there are `more`."""
        from fewpass.pipeline.rows.targets import union_of

        before = getattr(self, "target_range_", None) if more else None
        self.target_range_ = union_of(before, (targets.minimum, targets.maximum))

    def _bounds(self) -> tuple[float, float] | None:
        """Return what predictions are clipped to; None: they are not."""
        clips = self.clip and not self._has_offset  # a longer exposure has larger counts
        seen = getattr(self, "target_range_", None) if clips else None
        if seen is None:
            return None
        from fewpass.pipeline.rows.targets import clip_range

        if not hasattr(self, "encoder_") or loss_class(self.loss)().response:
            return clip_range(seen)
        return clip_range(seen, self.encoder_.recipe_.reach)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        is_named = isinstance(self.loss, str) and self.loss in LOSSES
        if is_named and self.loss != LOSS_OF_NUMBERS:
            tags.target_tags.positive_only = loss_class(self.loss).least_target >= 0.0
        return tags

    def _take(self, weights: Weights) -> None:
        self.coef_, self.intercept_ = weights.coef, float(weights.intercept)

    def _model(self) -> Weights:
        from fewpass.solvers.protocol import Weights

        return Weights(self.coef_, self.intercept_)

    def _described(self, y: Vector, weight: Vector | None) -> Values:
        from fewpass.storage.manifest import Values

        return Values.model_construct(
            mean=float(y.mean()), variance=float(y.var()), minimum=float(y.min()),
            maximum=float(y.max()),
            weighted_mean=None if weight is None else float(np.average(y, weights=weight)),
        )  # fmt: skip
