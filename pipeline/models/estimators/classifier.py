"""SVM and logistic regression, two classes or many, with scikit-learn's contract."""
# ruff: noqa: PLC0415 - numba, pydantic and what reads files would make this import twice as long

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from fewpass.pipeline.models.estimators.kinds_of_rows import is_collection
from fewpass.pipeline.models.estimators.linear import LinearModel
from fewpass.pipeline.models.estimators.rows import checked, checked_weights, table_of, taken_out
from fewpass.solvers.registry import LOSS_OF_LABELS, LOSSES, loss_class

if TYPE_CHECKING:  # what a fit needs is imported when one begins
    from fewpass.pipeline.models.estimators.stored import Stored
    from fewpass.solvers.protocol import Weights
    from fewpass.storage.manifest import Labels

Vector = NDArray[np.float64]
MOST_FRACTIONS = 20  # different numbers that are not whole, and may be labels all the same


def _has_probabilities(estimator: Any) -> bool:
    known = isinstance(estimator.loss, str) and estimator.loss in LOSSES
    if known and loss_class(estimator.loss)().link is None:
        raise AttributeError(
            f"loss={estimator.loss!r} has scores and no probabilities. Take "
            f"loss={LOSS_OF_LABELS!r}, or learn them from held-out rows: ScoreCalibrator."
        )
    return known


class LinearClassifier(ClassifierMixin, LinearModel):
    """Logistic regression or a linear SVM, L2-regularised, with a proof of how good it is.

    Minimises mean_i phi(w . x_i + b, y_i) + (lam/2) ||w||^2.  With more than two classes, one model
    per class is trained against all other classes, in the same passes.

    Parameters
    ----------
    loss : {"logistic", "squared_hinge", "smoothed_hinge", "hinge"}, default="logistic"
        The loss phi.  "squared_hinge" is max(0, 1 - z)^2 / 2, half of scikit-learn's.
    lam : float, str or list of them, default="1/n"
        Strength of the penalty: a number, or "A/n", where n is the sum of the row weights.  Several
        values are trained in the same passes, and `held_out` rows choose the best.
        `LogisticRegression(C)` is lam = 1/(C n), `LinearSVC(C)` with its squared hinge
        lam = 1/(2 C n), `SGDClassifier(alpha)` lam = alpha.
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
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, multiplied with the row weights.
    smoothing : float, default=1.0
        Width of the part of the smoothed hinge that is a parabola.
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
    classes_ : ndarray (K,)
    class_weight_ : ndarray (K,)
        The weights of the classes.
    coef_ : ndarray (1, n_features) or (K, n_features)
    intercept_ : ndarray (1,) or (K,)
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
        At coef_ and intercept_, on the scaled columns.  With more than two classes, the mean.
    certificate_ : float
        objective_ is at most this far above the optimum.  With more than two classes, the largest.
    rows_seen_ : int
        Rows read, including those of the fits that this one continued.
    candidates_ : list of dict
        If rows were held out: for every lam its mean loss and error on them, and objective and
        certified gap on the rows trained on.
    validation_curve_ : ndarray (epochs, 2) or None
        With early stopping: passes, and the mean loss of the held-out rows after them.
    dataset_, run_ : str or None
        For rows that are not in memory: where data set and run are.  None without `folder`.
    """

    _takes_numbers = False

    def __init__(
        self,
        *,
        loss: str = LOSS_OF_LABELS,
        lam: Any = "1/n",
        solver: str | dict[str, Any] = "auto",
        tol: float | None = 1e-6,
        passes: int | None = None,
        fit_intercept: bool = True,
        scale: str = "none",
        class_weight: Any = None,
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
        self.class_weight = class_weight
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
        """Train on X (n, d), dense or sparse, and labels y (n,) of two classes or more.

        A row of weight 2 counts like two rows, one of weight 0 not at all.

        Parameters
        ----------
        X : array, matrix, frame; Dask collection, list of delayed blocks; path or paths
            Rows.  A path is that of a file (any format that `fewpass ingest` reads) or of a data
            set.  The words of a Dask bag of texts are hashed to 2^20 columns.
        y : the same kind, (n,); for frames and files the name of a column
            Labels, numbers or words.  None for formats that have a place for it, and data sets.
        sample_weight : like y, default=None
            Row weights.

        Raises
        ------
        ValueError
            If rows, labels, weights or parameters cannot be used; the message names them.
        """
        if self._is_stored(X):
            self._fit_stored(X, y, sample_weight)
            return self
        at = self._model() if self.warm_start and hasattr(self, "coef_") else None
        X, y, sample_weight = taken_out(X, y, sample_weight)
        X = self._encoded(X, anew=at is None)
        X, y = checked(self, X, y=y, reset=at is None)
        check_classification_targets(y)
        weight = checked_weights(sample_weight, len(y))
        classes, codes = np.unique(y, return_inverse=True)
        self._require_classes(classes, at)
        if not weight.all():
            self._require_classes(classes[np.unique(codes[weight > 0.0])], None)
        counts = self._class_weights(classes, y, weight)
        self.classes_, self.class_weight_ = classes, counts
        if self.class_weight is not None:
            weight = weight * counts[codes]
        table = table_of(X, codes.astype(np.float64), weight)
        self._fit(table, self._labels, at)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a batch, one step per row, in the order given.

        Several learners run side by side ("onepass").  With solver="asgd", or more than 64 classes,
        averaged SGD runs alone; its model does not depend on how the rows are divided into batches
        if lam is a number (in "A/n", n grows with the rows).  tol and passes are not used, and
        nothing is certified.

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
        self._refuse_batch()
        first = not hasattr(self, "coef_")
        X, y = checked(self, X, y=y, reset=first)
        check_classification_targets(y)
        known = self._known_classes(classes)
        weight = checked_weights(sample_weight, len(y))
        codes = coded(y, known)
        counts = self._class_weights(known, y, None)
        if self.class_weight is not None:
            weight = weight * counts[codes]
        self.classes_, self.class_weight_ = known, counts
        table = table_of(X, codes.astype(np.float64), weight)
        self._partial_fit(table, self._labels(table.target))
        return self

    def _known_classes(self, classes: Any) -> NDArray[Any]:
        """Return all classes, sorted; ValueError when they are not said, too few, or others."""
        known = getattr(self, "classes_", None)
        if classes is None:
            if known is None:
                raise ValueError(
                    "classes must be given at the first call of partial_fit: the list of all "
                    "labels that may ever come."
                )
            return np.asarray(known)
        given = np.unique(classes)
        self._require_classes(given, None)
        if known is not None and not np.array_equal(given, known):
            raise ValueError(
                f"classes are {given.tolist()}, but the model has {known.tolist()}. Leave them "
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
        found: NDArray[Any] = self.classes_[best]
        return found

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Vector:
        """Return probabilities (n, K) of the classes; only with loss="logistic".

        With more than two classes, each class's probability against the rest, divided by their sum:
        good for ranking, but not calibrated (see `ScoreCalibrator`).
        """
        if is_collection(X):
            return self._lazily(self.predict_proba, X)
        from fewpass.pipeline.scoring.probabilities import normalised

        link = loss_class(self.loss)().link
        assert link is not None, "available only where there is one"
        p = link(self.decision(X))
        return np.column_stack([1.0 - p, p]) if p.ndim == 1 else normalised(p)

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
            from fewpass.pipeline.models.estimators.lazy import sums_over

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
        self.classes_, self.class_weight_ = classes, rows.class_weights(self.class_weight)

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

    def _labels(self, codes: Vector) -> Labels:
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
