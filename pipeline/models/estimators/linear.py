"""What classifier and regressor share; fits.py and fits_of_stored_rows.py train them."""
# ruff: noqa: PLC0415 - numba, pydantic and what reads files would make this import twice as long

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from fewpass.pipeline.models.estimators.kinds_of_rows import is_paths, is_stored
from fewpass.pipeline.models.estimators.rows import checked, require_finite
from fewpass.storage.table import Table

if TYPE_CHECKING:  # what a fit needs is imported when one begins
    from fewpass.pipeline.models.estimators.batches import Learnt
    from fewpass.pipeline.models.estimators.fits import Described
    from fewpass.pipeline.models.estimators.stored import Stored
    from fewpass.pipeline.models.export.plain_model import PlainModel
    from fewpass.solvers.protocol import Weights
    from fewpass.storage.manifest import Labels, Values

Vector = NDArray[np.float64]


class LinearModel(BaseEstimator):
    """Base of the estimators; see `LinearClassifier` and `LinearRegressor`."""

    _takes_numbers: ClassVar[bool]  # or labels
    encode: str
    encoder_: Any  # of tables that were encoded, a TableEncoder
    _last: Learnt | None  # what came of the last batch; None after a fit

    def decision(self, X: Any) -> Vector:
        """Return X coef^T + intercept, (n,) or (n, K)."""
        check_is_fitted(self)
        if is_paths(X):
            raise ValueError(
                "X names files, but rows are predicted here. Read them first, or predict files "
                "with the command `fewpass predict`."
            )
        if hasattr(self, "encoder_"):
            X = self.encoder_.transform(X)
        else:
            X = checked(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            scores: Vector = X @ self.coef_.T + self.intercept_
        require_finite(scores)
        return scores.ravel() if scores.ndim == 1 or scores.shape[1] == 1 else scores

    # -- tables ----------------------------------------------------------------------------------

    def _encoded(self, X: Any, *, anew: bool) -> Any:
        """Return rows in memory, encoded where that was asked for; `anew`: by their own sample."""
        if anew and hasattr(self, "encoder_"):
            del self.encoder_
        if self.encode == "none":
            return X
        from fewpass.pipeline.models.estimators.encoded_rows import fitted_encoder, require_encode

        require_encode(self.encode)
        if anew and (found := fitted_encoder(X, self.encode)):
            self.encoder_ = found
        return self.encoder_.transform(X) if hasattr(self, "encoder_") else X

    def _refuse_batch(self) -> None:
        if self.encode != "none":
            from fewpass.pipeline.models.estimators.encoded_rows import refuse_batch

            refuse_batch(self.encode)

    # -- fit -------------------------------------------------------------------------------------

    def _fit(self, table: Table, described: Described, at: Weights | None) -> None:
        from fewpass.pipeline.models.estimators.fits import fit_rows

        fit_rows(self, table, described, at)

    def _fit_stored(self, X: Any, y: Any, sample_weight: Any) -> None:
        from fewpass.pipeline.models.estimators.fits_of_stored_rows import fit_stored

        fit_stored(self, X, y, sample_weight)

    def _partial_fit(self, table: Table, targets: Labels | Values) -> None:
        from fewpass.pipeline.models.estimators.fits import learn_batch

        learn_batch(self, table, targets)

    def _know(self, rows: Stored, at: Weights | None) -> None:
        """Take over how wide the rows are and what their columns are called."""
        d = rows.dataset.n_features
        if at is not None and at.coef.shape[-1] != d:
            raise ValueError(
                f"warm_start goes on with {at.coef.shape[-1]} features, but X has {d}. Fit anew "
                "with warm_start=False."
            )
        self.n_features_in_ = d
        if hasattr(self, "encoder_"):
            del self.encoder_
        if self.encode != "none":
            from fewpass.pipeline.models.estimators.encoded_rows import encoder_of

            if found := encoder_of(rows.dataset.schema):
                self.encoder_ = found
        names = rows.feature_names
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _take(self, weights: Weights) -> None:
        """Keep a model as the attributes of a fitted estimator."""
        raise NotImplementedError

    def _model(self) -> Weights:
        """Return the model that the attributes hold."""
        raise NotImplementedError

    def _is_stored(self, X: Any) -> bool:
        return is_stored(X, self.memory)

    def _lazily(self, method: Callable[[Any], NDArray[Any]], X: Any) -> NDArray[Any]:
        """Return what a method gives for a Dask collection: an array of Dask's own."""
        from fewpass.pipeline.models.estimators.lazy import example_of, lazily

        check_is_fitted(self)
        found: NDArray[Any] = lazily(method, X, example_of(self.n_features_in_, X))
        return found

    def to_sklearn(self) -> Any:
        """Return one of scikit-learn's own models, with the same predictions.

        `LogisticRegression` (for more than two classes in a `OneVsRestClassifier`), `LinearSVC` or
        `LinearRegression`, which converters such as skl2onnx take.
        """
        from fewpass.pipeline.models.export.export_formats import to_sklearn

        return to_sklearn(self._plain())

    def save_model(self, path: Any, overwrite: bool = False) -> None:
        """Write the model for other programs: .onnx, .safetensors, .liblinear or .skops.

        The file is either complete or does not exist.

        Parameters
        ----------
        path : path
            The file; its suffix says which format.
        overwrite : bool, default=False
            Replace the file if it exists already; never one that lies in a data set or a run, or
            is a source of the rows that a run's model was trained on.

        Raises
        ------
        ValueError
            If there is no such format, it cannot hold the model, or the file must not be replaced.
        """
        from fewpass.pipeline.models.export.export_formats import export

        export(self._plain(), path, overwrite=overwrite)

    def _plain(self) -> PlainModel:
        from fewpass.pipeline.models.export.plain_model import PlainModel, record_at

        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return PlainModel(
            np.atleast_2d(self.coef_), np.atleast_1d(np.asarray(self.intercept_, float)),
            getattr(self, "classes_", None), self.loss, self.lam_,
            None if names is None else tuple(names), self.certificate_,
            self.encoder_.recipe_ if hasattr(self, "encoder_") else None,
            record=record_at(getattr(self, "run_", None)),
        )  # fmt: skip

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
