"""The plan of a cross-validation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from fewpass.pipeline.settings.training_plan import TrainingPlan

USUAL_TOL = 1e-3


class CrossValidationPlan(TrainingPlan):
    """Settings of a cross-validation: the training and the folds; tol is 1e-3 by default."""

    source: None = None
    """A source is read once, and folds are read again and again."""
    folds: Annotated[int, Field(ge=2)] = 5
    """Folds that the chunks of the data set are dealt to, or its rows where chunks are fewer."""
    folder: str | None = None
    """Folder or address for snapshots and numbers per row, which workers of a cluster reach
    [default: a temporary one, which goes at the end]."""

    @model_validator(mode="before")
    @classmethod
    def _certified(cls, values: Any) -> Any:
        """Train to a tolerance, where nobody says which."""
        return {"tol": USUAL_TOL} | values if isinstance(values, dict) else values

    @property
    def tries_several_lam(self) -> bool:
        """True if several lam need no rows that are held out: folds are."""
        return True

    @property
    def of_one_lam(self) -> TrainingPlan:
        """The training on all folds but one, with the first lam."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        own = {name: value for name, value in given.items() if name in TrainingPlan.model_fields}
        return TrainingPlan(**own | {"lam": self.lam.each[0]})
