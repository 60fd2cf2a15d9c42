"""SVM and logistic regression, two classes or many, with scikit-learn's contract."""
# ruff: noqa: PLC0415 - LLVM, pydantic and what reads files would make this import twice as long

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from fewpass.pipeline.models.estimators.checked_rows import taken_out
from fewpass.pipeline.models.estimators.kinds_of_rows import is_collection
from fewpass.pipeline.models.estimators.linear import LinearModel, Vector
from fewpass.pipeline.models.estimators.shared_parameters import with_shared_words
from fewpass.solvers.registry import LOSS_OF_LABELS, LOSSES, loss_class

if TYPE_CHECKING:  # what a fit needs is imported when one begins
    from fewpass.pipeline.models.estimators.stored import Stored
    from fewpass.solvers.protocol import Weights
    from fewpass.storage.manifest import Labels

MOST_FRACTIONS = 20  # different numbers that are not whole, and may be labels all the same


def _has_probabilities(estimator: Any) -> bool:
    is_named = isinstance(estimator.loss, str) and estimator.loss in LOSSES
    if is_named and loss_class(estimator.loss)().link is None:
        raise AttributeError(
            f"loss={estimator.loss!r} has scores and no probabilities. Take "
            f"loss={LOSS_OF_LABELS!r}, or learn them from held-out rows: ScoreCalibrator."
        )
    return is_named


@with_shared_words
@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(ClassifierMixin, LinearModel):
    """Logistic regression or a linear SVM, L2-regularised, with a proof of how good it is.

    Minimises mean_i phi(w . x_i + b, y_i) + (lam/2) ||w||^2.  More than two classes: under the
    logistic loss one model of all, by the softmax of their scores (multinomial logistic
    regression); under other losses a model per class against all others, in the same passes.

    `LogisticRegression(C)` has lam = 1/(C n), `LinearSVC(C)` with its squared hinge
    lam = 1/(2 C n), `SGDClassifier(alpha)` lam = alpha.

    Parameters
    ----------
    loss : {"logistic", "softmax", "squared_hinge", "smoothed_hinge", "hinge"}, default="logistic"
        The loss phi.  "squared_hinge" is max(0, 1 - z)^2 / 2, half of scikit-learn's.  "softmax" is
        that of the scores of all classes, whatever the method; of two classes the logistic loss.
    multi_class : {"auto", "ovr", "multinomial"}, default="auto"
        More than two classes under the logistic loss: one model of all, the softmax
        ("multinomial"), or one per class ("ovr"); "auto" is the first with solver="psdca" or
        "asgd", and with "auto" and a tolerance.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, multiplied with the row weights.
    smoothing : float, default=1.0
        Width of the part of the smoothed hinge that is a parabola.

    Attributes
    ----------
    classes_ : ndarray (K,)
    class_weight_ : ndarray (K,)
        The weights of the classes.
    loss_ : str
        The loss that was trained: "softmax" where one model tells more than two classes apart.
    coef_ : ndarray (1, n_features) or (K, n_features)
    intercept_ : ndarray (1,) or (K,)
    objective_ : float
        At coef_ and intercept_, on the scaled columns.  Of several models the mean.
    certificate_ : float
        objective_ is at most this far above the optimum.  Of several models the largest.
    candidates_ : list of dict
        If rows were held out: for every lam its mean loss and error on them, and objective and
        certified gap on the rows trained on.
    """

    _takes_numbers: ClassVar[bool] = False

    loss: str = LOSS_OF_LABELS
    multi_class: str = "auto"
    class_weight: Any = None

    def _targets(self, y: Any, weight: Vector, at: Weights | None) -> tuple[Vector, Vector]:
        check_classification_targets(y)
        counts = weight > 0.0
        classes = np.unique(y[counts])
        self._require_classes(classes, at)
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)  # any of weight 0
        shares = self._class_weights(classes, y[counts], weight[counts])
        return self._weighted(classes, codes, weight, shares)

    def _batch_targets(self, y: Any, weight: Vector, classes: Any) -> tuple[Vector, Vector]:
        check_classification_targets(y)
        all_classes = self._all_classes(classes)
        codes = coded(y, all_classes)
        return self._weighted(all_classes, codes, weight, self._class_weights(all_classes, y, None))

    def _weighted(
        self, classes: NDArray[Any], codes: NDArray[np.intp], weight: Vector, counts: Vector
    ) -> tuple[Vector, Vector]:
        """Take the classes over; return codes and weights, each multiplied by its class's."""
        self.classes_, self.class_weight_ = classes, counts
        if self.class_weight is not None:
            weight = weight * counts[codes]
        return codes.astype(np.float64), weight

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a batch, one step per row, in the order given.

        Several learners run side by side ("onepass"), one model per class.  With solver="asgd",
        loss="softmax" or more than 64 classes, averaged SGD runs alone, by steps that the first
        batch decides; its model does not depend on how the rows behind that batch are divided if
        lam is a number (in "A/n", n grows with the rows).  tol and passes are not used, and nothing
        is certified.

        Parameters
        ----------
        X : (n, d)
            Rows, dense or sparse.
        y : (n,)
            Labels; a batch need not have all classes.
        classes : (K,), default=None
            All labels that may ever occur; required in the first call.
        sample_weight : (n,), default=None
            Row weights.

        Raises
        ------
        ValueError
            If rows, labels, weights or parameters cannot be used; the message names them.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows, and partial_fit sees a batch. Give "
                "numbers by class."
            )
        return self._learn_batch(X, y, sample_weight, classes)

    def _all_classes(self, classes: Any) -> NDArray[Any]:
        """Return all classes, sorted; ValueError when they are missing, too few, or others."""
        current = getattr(self, "classes_", None)
        if classes is None:
            if current is None:
                raise ValueError(
                    "classes must be given at the first call of partial_fit: the list of all "
                    "labels that may ever come."
                )
            return np.asarray(current)
        given = np.unique(classes)
        self._require_classes(given, None)
        if current is not None and not np.array_equal(given, current):
            raise ValueError(
                f"classes are {given.tolist()}, but the model has {current.tolist()}. Leave them "
                "out, or begin a new model."
            )
        return given

    def decision_function(self, X: Any) -> Vector:
        """Return scores: (n,) for two classes, where > 0 is the second, else (n, K).

        For a Dask collection, a lazy Dask array.
        """
        if is_collection(X):
            return self._lazily(self.decision_function, X)
        return self.decision(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return labels (n,) for X (n, d): the class with the highest score.

        For a Dask collection, a lazy Dask array.
        """
        if is_collection(X):
            return self._lazily(self.predict, X)
        scores = self.decision(X)
        best = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Vector:
        """Return probabilities (n, K) of the classes; with loss="logistic" or "softmax".

        With more than two classes the softmax of their scores; with multi_class="ovr", and methods
        that train so, each class's probability against the rest, divided by their sum: good for
        ranking, but not calibrated (see `ScoreCalibrator`).
        """
        if is_collection(X):
            return self._lazily(self.predict_proba, X)
        scores = self.decision(X)
        word = getattr(self, "loss_", self.loss) if scores.ndim > 1 else LOSS_OF_LABELS
        p = loss_class(word)().probabilities(scores)
        return np.column_stack([1.0 - p, p]) if p.ndim == 1 else p

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Vector:
        """Return the logarithms of `predict_proba`."""
        if is_collection(X):
            return self._lazily(self.predict_log_proba, X)
        with np.errstate(divide="ignore"):
            logarithms: Vector = np.log(self.predict_proba(X))
            return logarithms

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy; for a Dask collection computed block by block."""
        if is_collection(X):
            from fewpass.pipeline.models.estimators.lazy_predictions import sums_over

            sums = sums_over(self.predict, X, y, sample_weight, numbers=False)
            return sums.right / sums.weight
        return float(super().score(*taken_out(X, y, sample_weight)))

    def _know(self, rows: Stored, at: Weights | None) -> None:
        super()._know(rows, at)
        classes = rows.classes
        self._require_classes(classes, at)
        numbers = (
            classes[classes != np.round(classes)] if classes.dtype.kind == "f" else classes[:0]
        )
        if len(numbers) > MOST_FRACTIONS:
            raise ValueError(
                f"y holds {len(classes)} different numbers, such as {numbers[0]}, and labels were "
                "expected. Use LinearRegressor, or give whole numbers or words."
            )
        heft = np.asarray(rows.labels.heft, float)
        some = np.where(heft > 0.0, heft, 1.0)
        self.classes_, self.class_weight_ = classes, self._class_weights(classes, classes, some)

    def _class_weights(self, classes: NDArray[Any], y: NDArray[Any], weight: Any) -> Vector:
        """Return what a row of each class counts; ValueError for what is no positive number."""
        counts: Vector = compute_class_weight(
            self.class_weight, classes=classes, y=y, sample_weight=weight
        )
        for label, count in zip(classes.tolist(), counts.tolist(), strict=True):
            if not 0.0 < count < np.inf:
                raise ValueError(
                    f"class_weight gives {label!r} the weight {count}. Give positive numbers; "
                    "leave out the rows of a class that does not count."
                )
        return counts

    def _described(self, codes: Vector, weight: Vector | None) -> Labels:  # noqa: ARG002
        from fewpass.storage.manifest import Labels

        counts = np.bincount(codes.astype(np.intp), minlength=len(self.classes_))
        return Labels.model_construct(
            labels=tuple(float(k) for k in range(len(counts))), counts=tuple(counts.tolist())
        )

    def _require_classes(self, classes: NDArray[Any], at: Weights | None) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"All rows are of one class, {classes.tolist()[0]!r}; a classifier needs two. Give "
                "rows of another one, too, whose weight is not 0."
            )
        if at is not None and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"warm_start goes on with the classes {self.classes_.tolist()}, but y has "
                f"{classes.tolist()}. Fit anew with warm_start=False."
            )

    def _take(self, weights: Weights) -> None:
        self.coef_, self.intercept_ = np.atleast_2d(weights.coef), np.atleast_1d(weights.intercept)

    def _model(self) -> Weights:
        from fewpass.solvers.protocol import Weights

        if len(self.coef_) == 1:
            return Weights(self.coef_[0], float(self.intercept_[0]))
        return Weights(self.coef_, self.intercept_)


def coded(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of every label in the sorted classes; ValueError lists unknown ones."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y has the labels {unknown[:8].tolist()}, which are not among the classes "
            f"{classes[:8].tolist()}. Give all labels in classes at the first call."
        )
    return np.searchsorted(classes, y)
