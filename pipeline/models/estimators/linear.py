"""The base of classifier and regressor; fits.py and fits_of_stored_rows.py train them."""
# ruff: noqa: PLC0415 - LLVM, pydantic and what reads files would make this import twice as long

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from fewpass.pipeline.models.estimators.checked_rows import (
    checked,
    checked_weights,
    require_finite,
    table_of,
    taken_out,
)
from fewpass.pipeline.models.estimators.fitted_shapes import WithShapes
from fewpass.pipeline.models.estimators.kinds_of_rows import is_paths, is_stored
from fewpass.pipeline.models.estimators.offsets import offset_of, require_offset
from fewpass.pipeline.models.estimators.shared_parameters import SharedParameters

if TYPE_CHECKING:  # what a fit needs is imported when one begins
    from fewpass.pipeline.models.estimators.batches import Learnt
    from fewpass.pipeline.models.estimators.stored import Stored
    from fewpass.pipeline.models.export.plain_model import PlainModel
    from fewpass.solvers.protocol import Weights
    from fewpass.storage.manifest import Labels, Values

Vector = NDArray[np.float64]
NOTHING: Mapping[str, Any] = MappingProxyType({})


class LinearModel(WithShapes, SharedParameters):
    """Base of the estimators; see `LinearClassifier` and `LinearRegressor`."""

    _takes_numbers: ClassVar[bool]  # or labels
    coef_: Any
    feature_names_in_: Any
    intercept_: Any
    _last: Learnt | None  # what came of the last batch; None after a fit
    _has_offset: bool = False  # whether it was fitted with offsets, which predictions need then

    def decision(self, X: Any) -> Vector:
        """Return X coef^T + intercept, (n,) or (n, K)."""
        check_is_fitted(self)
        if is_paths(X):
            raise ValueError(
                "X names files, but rows are predicted here. Read them first, or predict files "
                "with the command `fewpass predict`."
            )
        if hasattr(self, "encoder_"):
            X = self.encoder_.features(X)
        else:
            X = checked(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            scores: Vector = X @ self.coef_.T + self.intercept_
        require_finite(scores)
        return scores.ravel() if scores.ndim == 1 or scores.shape[1] == 1 else scores

    # -- tables ----------------------------------------------------------------------------------

    def _encoded(self, X: Any, y: Any, weight: Any, *, anew: bool) -> Any:
        """Return rows in memory, encoded where that was asked for; `anew`: by their own sample."""
        if anew and hasattr(self, "encoder_"):
            del self.encoder_
        if self.encode == "none" and not self.columns:
            return X
        from fewpass.pipeline.models.estimators.encoded_rows import fitted_encoder, require_encode

        require_encode(self.encode)
        if anew:
            encoder = fitted_encoder(
                X, self.encode, self.columns, y, weight, numbers=self._takes_numbers
            )  # fmt: skip
            if encoder is not None:
                self.encoder_ = encoder
        return self.encoder_.features(X) if hasattr(self, "encoder_") else X

    def _know_table(self, encoder: Any) -> None:
        """Take over the columns of the table that was encoded, as those that `predict` expects."""
        self.encoder_, self.n_features_in_ = encoder, encoder.n_features_in_
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if getattr(encoder, "feature_names_in_", None) is not None:
            self.feature_names_in_ = encoder.feature_names_in_

    # -- fit -------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on X (n, d), dense or sparse, and targets y (n,).

        Targets are labels of two classes or more for a classifier, numbers for a regressor.  A row
        of weight 2 counts like two rows, one of weight 0 not at all.

        Parameters
        ----------
        X : array, matrix, frame; Dask collection, list of delayed blocks; path or paths
            Rows.  A path is that of a file (any format that `fewpass ingest` reads) or of a data
            set.  The words of a Dask bag of texts are hashed to 2^20 columns.
        y : the same kind, (n,); for frames and files the name of a column
            Labels, numbers or words; for a regressor numbers.  None for formats that have a place
            for it, and data sets.
        sample_weight : like y, default=None
            Row weights.

        Raises
        ------
        ValueError
            If rows, targets, weights or parameters cannot be used; the message names them.
        """
        return self._fit(X, y, sample_weight, None, None)

    def _fit(self, X: Any, y: Any, sample_weight: Any, offset: Any, exposure: Any) -> Self:
        if is_stored(X, self.memory):
            from fewpass.pipeline.models.estimators.fits_of_stored_rows import fit_stored

            fit_stored(self, X, y, sample_weight, offset, exposure)
            return self
        at = self._model() if self.warm_start and hasattr(self, "coef_") else None
        X, y, sample_weight, *given = taken_out(X, y, sample_weight, offset, exposure)
        X = self._encoded(X, y, sample_weight, anew=at is None)
        encoder = getattr(self, "encoder_", None)
        X, y = checked(
            self, X, y=y, y_numeric=self._takes_numbers, reset=at is None or encoder is not None
        )
        if encoder is not None:
            self._know_table(encoder)
        target, weight = self._targets(y, checked_weights(sample_weight, len(y)), at)
        offsets = offset_of(given[0], given[1], len(target))
        from fewpass.pipeline.models.estimators.fits import fit_rows

        fit_rows(self, table_of(X, target, weight, offsets), X.shape[1], at)
        self._has_offset = offsets is not None
        return self

    def _learn_batch(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        """Check a batch, and take one step per row."""
        if self.encode != "none" or self.columns or hasattr(self, "encoder_"):
            from fewpass.pipeline.models.estimators.encoded_rows import refuse_batch

            refuse_batch(self.encode)
        first = not hasattr(self, "coef_")
        X, y = checked(self, X, y=y, y_numeric=self._takes_numbers, reset=first)
        target, weight = self._batch_targets(y, checked_weights(sample_weight, len(y)), classes)
        from fewpass.pipeline.models.estimators.batches import laid_out_as
        from fewpass.pipeline.models.estimators.fits import learn_batch

        X = laid_out_as(getattr(self, "_last", None), X)
        learn_batch(self, table_of(X, target, weight))
        return self

    def _targets(self, y: Any, weight: Vector, at: Weights | None) -> tuple[Vector, Vector]:
        """Return the targets of all rows as numbers, and their weights."""
        raise NotImplementedError

    def _batch_targets(self, y: Any, weight: Vector, classes: Any) -> tuple[Vector, Vector]:
        """Return the targets of a batch as numbers, and their weights."""
        raise NotImplementedError

    def _described(self, target: Vector, weight: Vector | None) -> Labels | Values:
        """Return the description of targets that a manifest has."""
        raise NotImplementedError

    def _see(self, targets: Any, *, more: bool) -> None:
        """Take note of the targets learnt from; `more`: there were others before."""

    def _bounds(self) -> tuple[float, float] | None:
        """Return what predicted numbers are clipped to; None: they are not."""
        return None

    def _know(self, rows: Stored, at: Weights | None) -> None:
        """Take over how wide the rows are and what their columns are called."""
        d = rows.dataset.n_features
        if at is not None and at.coef.shape[-1] != d:
            raise ValueError(
                f"warm_start goes on with {at.coef.shape[-1]} features, but X has {d}. Fit anew "
                "with warm_start=False."
            )
        if hasattr(self, "encoder_"):
            del self.encoder_
        if self.encode != "none" or self.columns:
            from fewpass.pipeline.models.estimators.encoded_rows import encoder_of

            if encoder := encoder_of(rows.dataset.schema):
                self._know_table(encoder)
                return
        self.n_features_in_ = d
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

    def _lazily(
        self, method: Callable[..., NDArray[Any]], X: Any, offsets: Mapping[str, Any] = NOTHING
    ) -> NDArray[Any]:
        """Return what a method gives for a Dask collection: an array of Dask's own."""
        from fewpass.pipeline.models.estimators.lazy_predictions import example_of, lazily

        check_is_fitted(self)
        if offsets or self._has_offset:
            require_offset(self._has_offset, offsets or None)
        example = example_of(self.n_features_in_, X, offsets)
        return cast("NDArray[Any]", lazily(method, X, example, offsets))

    def to_sklearn(self) -> Any:
        """Return one of scikit-learn's own models: the same predictions, but numbers unclipped.

        `LogisticRegression` (of a model per class in a `OneVsRestClassifier`), `LinearSVC` or
        `LinearRegression`, which converters such as skl2onnx take.  Where `encode` made features
        of a table, it is a Pipeline of the `TableEncoder` and that.
        """
        from fewpass.pipeline.models.export.export_formats import to_sklearn

        plain = self._plain()
        if not hasattr(self, "encoder_"):
            return to_sklearn(plain)
        from sklearn.pipeline import make_pipeline

        unnamed = plain._replace(feature_names=None)  # as the encoder's matrix is
        return make_pipeline(self.encoder_, to_sklearn(unnamed))

    def save_model(self, path: Any, overwrite: bool = False) -> None:
        """Write the model for other programs: .onnx, .sql, .json, .safetensors, .liblinear, .skops.

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
        encoder = getattr(self, "encoder_", None)
        names = (
            getattr(self, "feature_names_in_", None)
            if encoder is None
            else encoder.get_feature_names_out()
        )
        return PlainModel(
            np.atleast_2d(self.coef_), np.atleast_1d(np.asarray(self.intercept_, float)),
            getattr(self, "classes_", None), getattr(self, "loss_", self.loss), self.lam_,
            None if names is None else tuple(names), self.certificate_,
            None if encoder is None else encoder.recipe_,
            record=record_at(getattr(self, "run_", None)), bounds=self._bounds(),
            has_offset=self._has_offset, penalty=self.penalty,
        )  # fmt: skip

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
