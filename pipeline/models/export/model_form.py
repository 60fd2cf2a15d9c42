"""A whole model as plain data: `model.json`, which ONNX, SQL and scores of rows are made from.

`docs/exporting.md` describes the document, and `examples/score_json.py` scores rows by it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, SkipValidation

from fewpass.pipeline.calibration import Calibration, Sigmoid, Softmax
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.plain_model import PlainModel
from fewpass.pipeline.tables.encoding.folding import ColumnFunctions, folded
from fewpass.pipeline.tables.encoding.terms import ColumnTerms, NumberCell, ValueTerm

_DOCUMENT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _with_kind(how: Calibration | None) -> dict[str, Any] | None:
    return how and {"kind": type(how).__name__.lower(), **how._asdict()}


#: Sigmoid, steps or softmax; sigmoids of several scores are divided by their sum.
Probabilities = Annotated[SkipValidation[Calibration | None], PlainSerializer(_with_kind)]


class LabelOutput(BaseModel):
    """The label of the highest score; of two, the second one where the only score is above 0."""

    model_config = _DOCUMENT
    kind: Literal["label"] = "label"
    classes: tuple[bool | int | float | str, ...]
    probabilities: Probabilities
    """Of the second of two classes, or of each of several; None: scores are distances."""


class NumberOutput(BaseModel):
    """The score, or exp(score), within bounds."""

    model_config = _DOCUMENT
    kind: Literal["number"] = "number"
    response: Literal["identity", "exp"] = "identity"
    clip: tuple[float, float] | None = None


Outcome = Annotated[LabelOutput | NumberOutput, Field(discriminator="kind")]


class ModelForm(BaseModel):
    """The document of a model."""

    model_config = _DOCUMENT
    format: Literal["fewpass model"] = "fewpass model"
    version: Literal[1] = 1
    loss: str
    lam: float
    certificate: float | None
    columns: tuple[ColumnFunctions, ...]
    intercept: tuple[float, ...]
    """For each score: one for two classes and for numbers, else one for each class."""
    output: Outcome

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that a row has."""
        return tuple(dict.fromkeys(name for one in self.columns for name in one.columns))


def form_of(model: PlainModel) -> ModelForm:
    """Return the document of a model; BadInput where its columns have no names, or for offsets."""
    model.require_no_offset("This form of a model")
    described = model.recipe.described() if model.recipe else _numbers(model)
    return ModelForm(
        loss=model.loss,
        lam=model.lam,
        certificate=model.certificate,
        columns=folded(described, model.coef),
        intercept=tuple(model.intercept.tolist()),
        output=outcome_of(model),
    )


def _numbers(model: PlainModel) -> list[ColumnTerms]:
    """Return the columns of a model that encodes none: a number each."""
    if model.feature_names is None:
        raise BadInput(
            "The model's columns have no names to find them by in a table. Choose .onnx or "
            ".safetensors, or train on rows with names."
        )
    read = NumberCell(required=True)
    return [
        ColumnTerms(columns=(name,), read=read, terms=(ValueTerm(at=k),))
        for k, name in enumerate(model.feature_names)
    ]


def outcome_of(model: PlainModel) -> LabelOutput | NumberOutput:
    """Return what becomes of a model's scores."""
    if model.classes is None:
        response: Literal["identity", "exp"] = "exp" if model.has_response else "identity"
        return NumberOutput(response=response, clip=model.bounds)
    shares = _probabilities_of(model) if model.has_probabilities else None
    return LabelOutput(classes=tuple(model.classes.tolist()), probabilities=shares)


def _probabilities_of(model: PlainModel) -> Calibration:
    if model.calibration is not None:
        return model.calibration
    if model.is_multinomial:
        return Softmax(1.0, (0.0,) * len(model.coef))
    return Sigmoid(1.0, 0.0)
