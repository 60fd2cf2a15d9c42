"""Everything a training depends on, in the words that every surface shares.

The same model serves the command, a TOML file, a Prefect flow and Python.  Where things run
(workers, addresses, credentials) is not part of it: it changes no bit of the result.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from pipeline.errors import BadInput
from pipeline.sizes import ByteSize
from solvers.agd import Agd
from solvers.asdca import Asdca
from solvers.gd import Gd
from solvers.lbfgs import Lbfgs
from solvers.losses import LOSSES, Loss, Problem, SmoothedHinge, Squared
from solvers.newton import Newton
from solvers.pegasos import Pegasos
from solvers.s2gd import S2gd, S2gdPlus, Svrg
from solvers.sag import Sag, SagPlus
from solvers.sdca import Sdca
from solvers.sgd import Asgd, Sgd
from solvers.simba import Simba
from storage.manifest import Labels, Values

LossName = Literal["hinge", "squared_hinge", "smoothed_hinge", "logistic", "squared"]
Intercept = Literal["none", "regularised", "free"]
OnePass = Sgd | Asgd | Pegasos  # done after as many passes as are asked for, one by default
# Done when the tolerance is certified:
ManyPasses = S2gd | S2gdPlus | Svrg | Sdca | Asdca | Gd | Agd | Sag | SagPlus | Lbfgs | Newton
ByFeatures = Simba  # done after as many steps as it is told, each far less than a pass
Method = Annotated[OnePass | ManyPasses, Field(discriminator="kind")]


class Auto(BaseModel):
    """The method is chosen from what is asked for and what ingest measured (choice.py)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["auto"] = "auto"


SolverSettings = Annotated[Auto | OnePass | ManyPasses | ByFeatures, Field(discriminator="kind")]

Storage = dict[str, Any] | None  # what fsspec needs beyond an address

DEFAULT_TOL = 1e-4
MOST_PASSES = 100

FREE_SHARE = 0.01  # of lam, charged for a "free" intercept: the certificate stays a theorem


class TrainingPlan(BaseModel):
    """What to train, on what, how far; equal plans on equal data give equal bits."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    dataset: str
    """URL or path of a data set."""
    solver: SolverSettings = Auto()
    """Method and its own settings; default the one that suits data, loss and tolerance."""
    loss: LossName | None = None
    """Default: logistic for labels, squared for numbers."""
    smoothing: PositiveFloat = 1.0
    """Width over which the smoothed hinge rounds its kink."""
    lam: PositiveFloat | str = "1/n"
    """Strength of the regularisation: a number, or a multiple of 1/n such as "10/n"; several,
    separated by commas, are all trained in the same passes."""
    held_out: str | None = None
    """Data set by whose mean loss the model is judged at the end; of several lam, the best one by
    it is returned."""
    intercept: Intercept = "free"
    """None, charged like a weight, or charged a hundredth of it."""
    positive: str | None = None
    """The label that counts as +1, all others as -1; default the larger one of two, and of more
    labels each in its turn: a model per class, against the rest."""
    class_weight: Literal["balanced"] | dict[str, PositiveFloat] | None = None
    """What a row counts by its label: a number by label (1 where a label is not named), or
    "balanced": every class the same in all.  Scaled so that rows count once on average."""
    tol: PositiveFloat | None = None
    """Stop when the certified gap over max(1, |objective|) is at most this; default 1e-4 for
    methods of many passes that were given no number of them."""
    passes: PositiveInt = 1
    """Passes over the data at most (one that only certifies is not counted); default 1, and 100
    for methods of many passes or with a tolerance."""
    certify: bool = False
    """Pay one more pass for the objective and the certificate of the returned weights."""
    start_from: str | None = None
    """A run whose newest model the training starts from, instead of from zero weights."""
    seed: NonNegativeInt = 0
    """Where all randomness comes from."""
    memory: ByteSize = 1 << 30
    """Budget beyond what importing the libraries takes."""
    streams: PositiveInt = 1
    """Disjoint sequences walked at the same time and averaged."""
    snapshot_every: PositiveFloat = 30.0
    """Seconds between snapshots; changes no bit."""

    @model_validator(mode="before")
    @classmethod
    def _stopping(cls, values: Any) -> Any:
        """Fill in when to stop, which depends on the method."""
        if not isinstance(values, dict):
            return values
        kind = kind_of(values.get("solver"))
        if kind == BY_FEATURES and values.get("loss") is None:
            values = values | {"loss": "hinge"}
        many = kind not in {"auto", *KINDS_OF_ONE_PASS, BY_FEATURES}
        if many and values.get("passes") is None and values.get("tol") is None:
            values = values | {"tol": DEFAULT_TOL}
        if values.get("passes") is None and (many or values.get("tol") is not None):
            values = values | {"passes": MOST_PASSES}
        return values

    @model_validator(mode="after")
    def _by_features(self) -> TrainingPlan:
        """Refuse what a method that reads single rows and columns cannot do."""
        given = {
            "loss": self.loss != "hinge",
            "tol": self.tol is not None,
            "passes": self.passes != 1,
            "streams": self.streams != 1,
            "start_from": self.start_from is not None,
            "class_weight": self.class_weight is not None,
            "held_out": self.held_out is not None,
        }
        wrong = [name for name, is_wrong in given.items() if is_wrong]
        if isinstance(self.solver, ByFeatures) and wrong:
            raise BadInput(
                f"simba cannot do with {wrong[0]} = {getattr(self, wrong[0])}: it has the hinge "
                "for a loss, one stream, and ends after --set solver.iterations=... steps. "
                "Leave it out, or choose sdca."
            )
        return self

    @field_validator("class_weight", mode="before")
    @classmethod
    def _readable_weights(cls, weights: Any) -> Any:
        """Read "spam=10,ham=1" as a number by label."""
        if not isinstance(weights, str) or weights == "balanced":
            return weights
        pairs = [pair.rpartition("=") for pair in weights.split(",")]
        if not all(name and equals for name, equals, _ in pairs):
            raise BadInput(
                f'class_weight is "{weights}". Write balanced, or LABEL=NUMBER for some labels, '
                "separated by commas."
            )
        return {name.strip(): number for name, _, number in pairs}

    @field_validator("lam")
    @classmethod
    def _readable_lam(cls, lam: float | str) -> float | str:
        regularisations(lam, 1)
        return lam

    @model_validator(mode="after")
    def _judged(self) -> TrainingPlan:
        if len(regularisations(self.lam, 1)) > 1 and self.held_out is None:
            raise BadInput(
                f'Several values of lam ("{self.lam}") need rows to choose by that none has learnt '
                "from. Name a data set with --held-out; fewpass ingest --test-fraction makes one."
            )
        return self


def kind_of(solver: Any) -> str:
    """Return the word for a method, given as a model, as settings or not at all."""
    if isinstance(solver, dict):
        return str(solver.get("kind"))
    return str(getattr(solver, "kind", TrainingPlan.model_fields["solver"].default.kind))


BY_FEATURES = ByFeatures.model_fields["kind"].default
KINDS_OF_ONE_PASS = {kind.model_fields["kind"].default for kind in get_args(OnePass)}


def regularisations(lam: float | str, n_rows: int) -> tuple[float, ...]:
    """Return the values of lam as numbers: each itself, or A / n for "A/n"."""
    if not isinstance(lam, str):
        return (lam,)
    found = tuple(_regularisation(one, n_rows) for one in lam.split(","))
    if len(set(found)) < len(found):
        raise BadInput(f'lam is "{lam}", with the same value twice. Leave one out.')
    return found


def _regularisation(lam: str, n_rows: int) -> float:
    head, slash, tail = lam.partition("/")
    try:
        number = float(head) / n_rows if slash and tail.strip() == "n" else float(lam)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise BadInput(f'lam is "{lam}". Give a positive number, or a multiple of 1/n like "10/n".')
    return number


class TrainingData(Protocol):
    """What a plan must know of its data set; a manifest has it, and so has a run's record."""

    @property
    def n_rows(self) -> int:
        """Rows."""

    @property
    def targets(self) -> Labels | Values:
        """What the targets are."""


def loss_of(plan: TrainingPlan, data: TrainingData) -> Loss:
    """Return the loss that the plan names, or the one that suits the targets."""
    labelled = isinstance(data.targets, Labels)
    kind = LOSSES[plan.loss or ("logistic" if labelled else "squared")]
    loss: Loss = SmoothedHinge(plan.smoothing) if kind is SmoothedHinge else kind()
    if not labelled and not isinstance(loss, Squared):
        raise BadInput(
            f'The loss "{plan.loss}" needs labels, but the targets of {plan.dataset} are numbers. '
            "Use --loss squared, or ingest again with --task classification."
        )
    return loss


def loss_name(loss: Loss) -> str:
    """Return the word for a loss."""
    return next(name for name, kind in LOSSES.items() if isinstance(loss, kind))


def problem_of(plan: TrainingPlan, data: TrainingData, lam: float | None = None) -> Problem:
    """Return what the plan minimises on that data set: of several lam that one, or the hardest."""
    lam = lam or min(regularisations(plan.lam, data.n_rows))
    return Problem(
        loss=loss_of(plan, data),
        lam=lam,
        intercept=0.0 if plan.intercept == "none" else 1.0,
        lam_b=lam * FREE_SHARE if plan.intercept == "free" else lam,
    )
