"""Settings of a refresh: where files appear, how they are read and learnt from."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.method_kinds import kind_of
from fewpass.pipeline.settings.model_config import ADDRESSED
from fewpass.pipeline.settings.publishing_gates import WrittenGate
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.described import Described
from fewpass.solvers.registry import LossName
from fewpass.storage.addresses import require_no_secrets

#: Nights to learn from: so many of the newest, or all.
Window = PositiveInt | Literal["all"]


class IngestRecipe(IngestPlan):
    """Settings by which every generation is ingested; a refresh chooses files and data set."""

    sources: tuple[str, ...] = Field((), max_length=0, description="Found by the refresh.")
    dataset: Literal[""] = Field("", description="Chosen by the refresh.")
    like: None = Field(None, description="The nights before.")
    test_fraction: float = Field(
        0.0, ge=0, le=0, description="All rows are scored before they are learnt from."
    )
    storage_options: dict[str, Any] = Field(
        default_factory=dict, max_length=0, description="Credentials come from the environment."
    )


USUAL_TOL = 1e-3


class TrainingRecipe(TrainingPlan):
    """Settings by which every generation is trained; a refresh chooses data set and start."""

    dataset: Literal[""] = ""
    """Chosen by the refresh."""
    loss: LossName | None = None
    """Loss, the same on all nights [default: logistic for labels, squared for numbers]."""
    start_from: None = None
    """Last night's model of the same rows, where there is a tolerance."""

    @model_validator(mode="before")
    @classmethod
    def _certified(cls, values: Any) -> Any:
        """Train to a tolerance, unless something else is asked for."""
        if not isinstance(values, dict) or {"tol", "passes"} & set(values):
            return values
        is_open = kind_of(values.get("solver", "auto")) == "auto"
        return values | {"tol": USUAL_TOL} if is_open else values


class RefreshPlan(Described):
    """Settings of a refresh: places of files and results, and rules to learn, publish and doubt.

    The rule: docs/nights.md.
    """

    model_config = ADDRESSED

    sources: tuple[Annotated[str, AfterValidator(require_no_secrets)], ...] = Field(min_length=1)
    """Files, globs or addresses; each file that they find is taken once, and again where it has
    changed: credentials come from the environment."""
    store: str = Field(min_length=1)
    """Folder or address for data sets, runs and the published model."""
    windows: tuple[Window, ...] = (1, 4, 14, "all")
    """Newest nights to learn a model from, each; the one whose loss on rows before they are learnt
    was least is published."""
    scored_generations: PositiveInt = 7
    """Newest nights whose loss before learning chooses among the windows."""
    odd: PositiveFloat | None = 4.0
    """A night waits where the published model's loss on its rows is above its usual loss by more
    than so many deviations [null: no night waits]."""
    most_waiting: PositiveInt = 3
    """Nights that wait at most before all are learnt from."""
    after_turn: Literal["wait", "publish"] = "wait"
    """Whether an odd night that a model of its own rows explains waits for the next one, too, or is
    learnt from and published at once."""
    drift: Literal["tell", "wait"] = "tell"
    """Whether a night waits, too, where a column moved further than it usually does."""
    max_drift: PositiveFloat | None = None
    """Learn nothing where a column or the labels drifted by more than this from the nights before:
    population stability index, of which .1 is some and .25 much [default: no limit]."""
    held_out: str | None = None
    """Data set to evaluate models on besides: one that is worse on it than the published one by two
    standard errors is kept back; also for several lam, early stopping and calibration."""
    require_tol: bool = False
    """A model that missed the training's tolerance is not published, and the flow run fails.
    Without this it is evaluated like any other, and the state says that it missed it."""
    gates: tuple[WrittenGate, ...] = ()
    """What a model must reach besides to be published, such as auc>=0.8, error<=before+0.01
    (before: of the model published before), or loss@city<=before+0.05 for every value of the column
    city: on the rows of held_out, else on tonight's before they are learnt from."""
    keep_generations: PositiveInt | None = None
    """Remove rows and models of all nights before so many of the newest that are learnt from, which
    "all" means then; what is published, or was before that, stays [default: all stay]."""
    settle: NonNegativeFloat = 2.0
    """Seconds that a file must not have changed for: one that still grows waits for the next
    refresh."""
    ingest: IngestRecipe = Field(default_factory=lambda: IngestRecipe.model_validate({}))
    """How files are read."""
    training: TrainingRecipe = Field(default_factory=lambda: TrainingRecipe.model_validate({}))
    """How a model is trained [default: to a tolerance of 1e-3]."""

    @field_validator("windows")
    @classmethod
    def _several(cls, windows: tuple[Window, ...]) -> tuple[Window, ...]:
        if not windows or len(set(windows)) != len(windows):
            raise BadInput(f"windows are {list(windows)}. Name each once, such as 1,4,14,all.")
        return windows

    @model_validator(mode="after")
    def _has_tolerance(self) -> Self:
        if self.require_tol and self.training.tol is None:
            raise BadInput("require_tol is set, but training.tol is not. Give one, or neither.")
        return self

    @model_validator(mode="after")
    def _can_wait(self) -> Self:
        if self.drift == "wait" and self.odd is None:
            raise BadInput("drift = wait asks for nights that wait, and odd = null for none.")
        return self

    @model_validator(mode="after")
    def _has_held_out(self) -> Self:
        training = self.training
        asks = len(training.lam.factors) > 1 or training.calibrate or training.early_stopping
        if asks and self.held_out is None:
            raise BadInput(
                "Several lam, early_stopping and calibrate need rows that nothing is learnt from, "
                "and every night's are. Name a data set as held_out, or leave them out."
            )
        return self
