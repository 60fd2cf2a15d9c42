"""Settings of a refresh: where files appear, how they are read and learnt from."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.model_config import ADDRESSED
from fewpass.pipeline.settings.publishing_gates import WrittenGate
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.described import Described
from fewpass.storage.addresses import require_no_secrets


class IngestRecipe(IngestPlan):
    """How every generation is ingested; from which files into what, a refresh finds out."""

    sources: tuple[str, ...] = Field((), max_length=0, description="Found by the refresh.")
    dataset: Literal[""] = Field("", description="Chosen by the refresh.")
    like: None = Field(None, description="The generation before.")
    test_fraction: float = Field(0.0, ge=0, le=0, description="See held_out.")
    storage_options: dict[str, Any] = Field(
        default_factory=dict, max_length=0, description="Credentials come from the environment."
    )


class TrainingRecipe(TrainingPlan):
    """How every generation is trained; on what and from where, a refresh finds out."""

    dataset: Literal[""] = ""
    """Chosen by the refresh."""
    start_from: None = None
    """The published model."""


class RefreshPlan(Described):
    """Where new files appear, where everything goes, and when a model is good enough."""

    model_config = ADDRESSED

    sources: tuple[Annotated[str, AfterValidator(require_no_secrets)], ...] = Field(min_length=1)
    """Files, globs or addresses; each file that they find is taken once, and remembered by its
    address: credentials come from the environment."""
    store: str = Field(min_length=1)
    """Folder or address for data sets, runs and the published model."""
    held_out: str | None = None
    """Data set to judge models on; default a tenth of the first refresh's rows, kept aside."""
    margin: NonNegativeFloat = 0.0
    """A model is published unless its mean loss on the held-out rows is higher by more than this
    than that of the model published before."""
    require_tol: bool = False
    """A model that missed the training's tolerance is not published, and the flow run fails.
    Without this it is judged like any other, and the decision says that it missed it."""
    gates: tuple[WrittenGate, ...] = ()
    """What a model must reach on the held-out rows besides, such as auc>=0.8, error<=before+0.01
    (before: of the model published before), or loss@city<=before+0.05 for every value of the column
    city."""
    max_drift: PositiveFloat | None = None
    """Learn nothing where a column or the labels drifted by more than this from the generations
    before: population stability index, of which .1 is some and .25 much [default: no limit]."""
    keep_generations: PositiveInt | None = None
    """After a refresh remove the data sets and runs of all generations but so many of the newest;
    what is published, or was before that, stays [default: all stay]."""
    ingest: IngestRecipe = Field(default_factory=lambda: IngestRecipe.model_validate({}))
    """How files are read."""
    training: TrainingRecipe = TrainingRecipe()
    """How a model is trained."""

    @model_validator(mode="after")
    def _has_tolerance(self) -> Self:
        if self.require_tol and self.training.tol is None:
            raise BadInput("require_tol is set, but training.tol is not. Give one, or neither.")
        return self
