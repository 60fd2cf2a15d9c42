"""A whole model as plain data: `model.json`, and what SQL and single rows are scored by.

`docs/exporting.md` describes the document, and `examples/score_json.py` scores rows by it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from fewpass.pipeline.calibration import Sigmoid, Steps
from fewpass.pipeline.calibration import Softmax as CalibratedSoftmax
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.plain_model import PlainModel
from fewpass.pipeline.models.export.shapes_form import ShapesForm, shapes_form
from fewpass.pipeline.tables.encoding.terms import ColumnTerms, NumberCell, ValueTerm

_DOCUMENT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SigmoidShares(BaseModel):
    """1 / (1 + exp(-(slope * score + offset))) of each score; several are divided by their sum."""

    model_config = _DOCUMENT
    kind: Literal["sigmoid"] = "sigmoid"
    slope: float = 1.0
    offset: float = 0.0


class SoftmaxShares(BaseModel):
    """exp(slope * score_k + offset_k) over their sum."""

    model_config = _DOCUMENT
    kind: Literal["exponential"] = "exponential"
    slope: float = 1.0
    offsets: tuple[float, ...]


class InterpolatedShares(BaseModel):
    """Straight lines between points (score, p)."""

    model_config = _DOCUMENT
    kind: Literal["interpolate"] = "interpolate"
    x: tuple[float, ...]
    y: tuple[float, ...]


SharesOfScores = Annotated[
    SigmoidShares | SoftmaxShares | InterpolatedShares, Field(discriminator="kind")
]


class LabelOutput(BaseModel):
    """The label of the highest score; of two, the second one where the only score is above 0."""

    model_config = _DOCUMENT
    kind: Literal["label"] = "label"
    classes: tuple[bool | int | float | str, ...]
    probabilities: SharesOfScores | None
    """Of the second of two classes, or of each of several; None: scores are distances."""


class NumberOutput(BaseModel):
    """The score, or exp(score), within bounds."""

    model_config = _DOCUMENT
    kind: Literal["number"] = "number"
    response: Literal["identity", "exp"] = "identity"
    clip: tuple[float, float] | None = None


Outcome = Annotated[LabelOutput | NumberOutput, Field(discriminator="kind")]


class OutputWeight(BaseModel):
    """Of one output column of the terms; those that are not listed weigh nothing."""

    model_config = _DOCUMENT
    at: int
    name: str
    weights: tuple[float, ...]
    """For each score."""


class ModelForm(BaseModel):
    """The document of a model."""

    model_config = _DOCUMENT
    format: Literal["fewpass model"] = "fewpass model"
    version: Literal[1] = 1
    loss: str
    lam: float
    certificate: float | None
    columns: tuple[ColumnTerms, ...]
    n_outputs: int
    """Of all terms together."""
    intercept: tuple[float, ...]
    """For each score: one for two classes and for numbers, else one for each class."""
    weights: tuple[OutputWeight, ...]
    output: Outcome
    shapes: ShapesForm | None = None
    """Of an additive model, the same scores as functions of columns and pairs."""

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what other models have none of."""
        written: dict[str, Any] = handler(self)
        if self.shapes is None:
            written.pop("shapes", None)
        return written


def form_of(model: PlainModel) -> ModelForm:
    """Return the document of a model; BadInput where its columns have no names, or for offsets."""
    names = model.recipe.outputs if model.recipe else _names(model)
    used = np.flatnonzero((model.coef != 0.0).any(axis=0)).tolist()
    columns = model.coef.T.tolist()
    return ModelForm(
        loss=model.loss,
        lam=model.lam,
        certificate=model.certificate,
        columns=columns_of(model),
        n_outputs=model.coef.shape[1],
        intercept=tuple(model.intercept.tolist()),
        weights=tuple(OutputWeight(at=k, name=names[k], weights=columns[k]) for k in used),
        output=outcome_of(model),
        shapes=shapes_form(model),
    )


def columns_of(model: PlainModel) -> tuple[ColumnTerms, ...]:
    """Return what becomes of each column; of a model that encodes none, a number each."""
    model.require_no_offset("This form of a model")
    if model.recipe is not None:
        return model.recipe.described()
    read = NumberCell(required=True)
    return tuple(
        ColumnTerms(columns=(name,), read=read, terms=(ValueTerm(at=k),))
        for k, name in enumerate(_names(model))
    )


def _names(model: PlainModel) -> tuple[str, ...]:
    if model.feature_names is None:
        raise BadInput(
            "The model's columns have no names to find them by in a table. Choose .onnx or "
            ".safetensors, or train on rows with names."
        )
    return model.feature_names


def outcome_of(model: PlainModel) -> LabelOutput | NumberOutput:
    """Return what becomes of a model's scores."""
    if model.classes is None:
        response: Literal["identity", "exp"] = "exp" if model.has_response else "identity"
        return NumberOutput(response=response, clip=model.bounds)
    shares = _shares_of(model) if model.has_probabilities else None
    return LabelOutput(classes=tuple(model.classes.tolist()), probabilities=shares)


def _shares_of(model: PlainModel) -> SharesOfScores:
    calibration = model.calibration
    if isinstance(calibration, Sigmoid):
        return SigmoidShares(slope=calibration.slope, offset=calibration.offset)
    if isinstance(calibration, Steps):
        return InterpolatedShares(x=calibration.scores, y=calibration.p)
    if isinstance(calibration, CalibratedSoftmax):
        return SoftmaxShares(slope=calibration.slope, offsets=calibration.offsets)
    if model.is_multinomial:
        return SoftmaxShares(offsets=(0.0,) * len(model.coef))
    return SigmoidShares()
