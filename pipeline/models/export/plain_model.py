"""A trained linear model as numbers and names, the basis of all exports."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.calibration import Calibration, Softmax
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.named_run import run_at
from fewpass.pipeline.planning.problem import loss_word
from fewpass.pipeline.rows.targets import Bounds, label_text
from fewpass.pipeline.runs.model import Model, load_model
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.saved import VERSION_DIGITS, Saved, is_of_model
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.solvers.bad_input import MOST_WHOLE
from fewpass.solvers.registry import L2, loss_class
from fewpass.storage.manifest import Labels


class PlainModel(NamedTuple):
    """A model for unscaled rows."""

    coef: NDArray[np.float64]  # (K, d); one row for two classes, and for regression
    intercept: NDArray[np.float64]  # (K,)
    classes: NDArray[Any] | None  # of two the positive one last; None: regression
    loss: str
    lam: float
    feature_names: tuple[str, ...] | None
    certificate: float | None
    recipe: Recipe | None = None
    """Encoding of a table's columns as features; None: the columns are the features."""
    calibration: Calibration | None = (
        None  # from scores to probabilities, in place of the loss's link
    )
    record: RunRecord | None = None
    """Of the model's run; None for an estimator's model."""
    bounds: Bounds | None = None
    """What predicted numbers are clipped to; None: they are not."""

    version: str = ""
    """The first digits of the weights' SHA-256; of a run's model."""
    has_offset: bool = False
    """Whether rows have offsets, which scores are without."""
    penalty: str = L2
    """The word of what weights were charged."""

    def ascending(self) -> PlainModel:
        """Return the same model with labels that ascend, as scikit-learn's conventions have them.

        `positive` may name the first of two: its scores change their sign then.
        """
        classes, how = self.classes, self.calibration
        if classes is None or len(classes) > 2 or classes[0] < classes[1]:
            return self
        assert not isinstance(how, Softmax), "a softmax is of more than two labels"
        return self._replace(
            coef=-self.coef, intercept=-self.intercept, classes=classes[::-1],
            calibration=how and how.swapped(),
        )  # fmt: skip

    def require_no_offset(self, form: str) -> None:
        """Raise BadInput for a format whose models take rows alone, if the model needs offsets."""
        if self.has_offset:
            raise BadInput(
                f"{form} takes rows alone, and this model was trained with offsets or exposures. "
                "Choose .safetensors, and add the offset to X coef + intercept."
            )

    @property
    def has_link(self) -> bool:
        """True if the loss has probabilities, by the logistic function."""
        return loss_class(self.loss)().link is not None

    @property
    def is_multinomial(self) -> bool:
        """True if one model makes the scores of all classes, whose softmax are probabilities."""
        return loss_class(self.loss).is_wide

    @property
    def has_response(self) -> bool:
        """True if predictions are exp(score)."""
        return loss_class(self.loss)().response is not None

    @property
    def has_probabilities(self) -> bool:
        """True if there are probabilities, by the calibration or the loss."""
        return self.classes is not None and (self.has_link or self.calibration is not None)

    def require_no_calibration(self, form: str) -> None:
        """Raise BadInput for a format without calibrations, if the model has one."""
        if self.calibration is not None:
            raise BadInput(
                f"{form} has no place for the calibration that the run was trained with. Choose "
                ".onnx or .safetensors, or train without `calibrate`."
            )


def of_run(run: Any) -> PlainModel:
    """Return the newest model of a run, given by address or as a RunFolder.

    Raises BadInput if there is none, or it is for rows scaled to unit length.
    """
    model = load_model(run_at(run) if isinstance(run, str) else run)
    record = model.record
    if record.scaling.kind == "unit-rows":
        raise BadInput(
            f"The model of {model.run.url} is for rows scaled to unit length, which no linear "
            "model of other programs does. Ingest with another scale, and train again."
        )
    coef, intercept = model.unscaled
    saved = Saved.of(model.run.snapshots.load(model.snapshot, is_of_model))
    recipe = recipe_in(record.columns)
    names = record.columns.feature_names if record.columns and not recipe else None
    return PlainModel(
        np.atleast_2d(coef),
        np.atleast_1d(np.asarray(intercept, float)),
        _classes(model),
        loss_word(model.record.plan, model.record.targets),
        model.lam,
        names,
        saved.certificate.gap if saved.certificate else None,
        recipe,
        model.calibration,
        record,
        bounds=model.bounds,
        version=saved.weights_sha256[:VERSION_DIGITS],
        has_offset=record.offsets is not None,
        penalty=record.plan.charged,
    )


def record_at(run: str | None) -> RunRecord | None:
    """Return the record of an estimator's run, if there is one."""
    with suppress(OSError, ValueError):
        return run_at(run).record() if run else None
    return None


def _classes(model: Model) -> NDArray[Any] | None:
    """Return the labels in the order of scores: of two, the positive one last."""
    targets, positive = model.record.targets, model.record.positive
    if not isinstance(targets, Labels) or model.predicts_numbers:
        return None
    labels = as_labels(targets.labels)
    if positive is None:
        return labels
    if len(labels) > 2:
        raise BadInput(
            f"The model of {model.run.url} tells {positive} from all other labels, which have "
            "no name of their own. Export a model of two labels, or one trained without `positive`."
        )
    return labels if label_text(targets.labels[1]) == positive else labels[::-1]


def as_labels(labels: tuple[Any, ...]) -> NDArray[Any]:
    """Return stored labels as an array: whole numbers as integers, words as str."""
    numbers = np.asarray(labels)
    if numbers.dtype.kind != "f":
        return numbers
    whole = (
        bool((numbers == np.round(numbers)).all()) and float(np.abs(numbers).max()) <= MOST_WHOLE
    )
    return numbers.astype(np.int64) if whole else numbers
