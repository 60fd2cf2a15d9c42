"""Everything a training depends on, in the words that every surface shares.

The same model serves the command, a TOML file, a Prefect flow and Python.  Where things run
(workers, addresses, credentials) is not part of it: it changes no bit of the result.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.method_kinds import AnyMethod, Auto, kind_of, with_better
from fewpass.pipeline.settings.metric_registry import MetricName
from fewpass.pipeline.settings.model_config import Workers
from fewpass.pipeline.settings.regularisation import AUTO, Lam
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.sizes import ByteSize
from fewpass.solvers.bad_input import LARGEST, SMALLEST, beyond_bounds, shown
from fewpass.solvers.described import Described
from fewpass.solvers.registry import (
    ALL_CLASSES_AT_ONCE,
    ELASTIC_NET,
    L1,
    L1_RATIOS,
    L2,
    LOSS_OF_CLASSES,
    LOSS_OF_LABELS,
    LOSS_SETTINGS,
    LOSSES,
    METHODS,
    WITH_RATIO,
    PenaltyName,
    loss_class,
    method_class,
)

Intercept = Literal["none", "regularised", "free"]

StorageOptions = dict[str, Any] | None  # what fsspec needs beyond an address

DEFAULT_TOL = 1e-3  # relative to the objective
MOST_PASSES = 100

FREE_SHARE = 0.01  # of lam, charged for a "free" intercept: the certificate stays a theorem


if TYPE_CHECKING:
    AskedLoss = str
else:
    AskedLoss = Literal[(*LOSSES, AUTO)]


class TrainingPlan(Described):
    """Settings of a training: the model, the data, and when to stop.

    The same plan on the same data gives the same model, bit for bit.
    """

    dataset: str
    """URL or path of a data set."""
    source: SourceReading | None = None
    """Files that are read once, in place of a data set; `dataset` then only names them."""
    solver: AnyMethod = Auto.usual()
    """Method of training, and its own settings [default: auto]. That is the method that is expected
    to be fastest, and without a tolerance onepass (several learners over the same rows)."""
    loss: AskedLoss | None = None
    """Loss, such as hinge or squared [default: logistic for labels, squared for numbers]. Or auto:
    of numbers from 0, where lam is auto, too, squared or poisson, by the squared errors of held-out
    rows; that is the default of a training to a tolerance."""
    smoothing: PositiveFloat = 1.0
    """Width of the rounded part of the smoothed hinge, or of Huber's loss."""
    quantile: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """Share of the targets that the quantile loss leaves below its predictions."""
    epsilon: Annotated[float, Field(ge=0.0)] = 0.1
    """Largest error that costs nothing under the epsilon-insensitive loss."""
    lam: Annotated[Lam, Field(json_schema_extra={"default": AUTO})] = Lam.of(AUTO)
    """Strength of the penalty: a number, or a multiple of 1/n such as 10/n; with l1 also a share of
    the smallest that makes all weights 0, such as .1max, found by one more pass; several, such as
    1e-2,1e-3,1/n, or with l1 a path (20 from 1max to .01max), are trained in the same passes, and
    the best on held-out rows is kept; or auto: held-out rows choose among 1000/n, 100/n, ... .01/n
    on a sample, in one pass the losses of rows before they are learnt from among 1/n, .1/n, .01/n
    [default: auto]."""
    penalty: PenaltyName | None = None
    """What weights are charged: their squares (l2), their sizes (l1, which makes many of them
    exactly 0), both (elasticnet), or for every column of the source the norm of its features'
    weights (group_lasso, which makes whole columns 0: all categories of a word, all parts of a
    date) [default: l2]."""
    l1_ratio: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """The elastic net's share of lam that is charged for sizes, the rest for squares: lam (r sum
    |w_j| + (1 - r)/2 sum w_j^2) [default: .5]; with penalty=group_lasso the share of the norms
    [default: 1]."""
    held_out: str | None = None
    """Data set of held-out rows to evaluate the model on. Their mean loss is measured; needed to
    choose among several lam, to stop early and to calibrate."""
    calibrate: Literal["platt", "isotonic"] | None = None
    """Learn probabilities from the held-out rows: Platt's sigmoid (with more than two classes a
    softmax), or an isotonic step function.  Predicted labels do not change."""
    early_stopping: bool = False
    """Evaluate the held-out rows after every epoch of the method, keep the model with their lowest
    mean loss, and stop when it no longer falls."""
    n_iter_no_change: PositiveInt = 5
    """Epochs without a lower held-out loss before training stops early."""
    metric: MetricName = "loss"
    """Figure of held-out rows that chooses among several lam or ends a training, in place of their
    mean loss: error, auc, f1, log_loss, mae, ... [default: loss]."""
    intercept: Intercept = "free"
    """No intercept, or one whose distance from the best constant is penalised with lam
    (regularised), or with a hundredth of it (free)."""
    positive: str | None = None
    """The label that counts as +1, all others as -1 [default: the larger one of two; with more
    labels each in turn, a model per class]."""
    clip: bool = True
    """Clip predicted numbers to the range of the targets seen, down to 0 where none is below it;
    `evaluate` does so, too; not with offsets.  What is trained does not depend on it."""
    classes: Literal["auto", "ovr", "multinomial"] = "auto"
    """More than two classes under the logistic loss: one model that tells all of them apart, by
    the softmax of their scores (multinomial), or a model for each class against the rest, as other
    losses have (ovr) [default: auto, which is multinomial where psdca or asgd is asked for, or auto
    with a tolerance, all with an l2 penalty, else ovr]."""
    class_weight: Literal["balanced"] | dict[str, PositiveFloat] | None = None
    """Weights of rows by label: "balanced" gives every class the same total weight; or numbers
    such as spam=10,ham=1, others 1.  Scaled to mean 1."""
    tol: PositiveFloat | None = None
    """Stop once proven this close to the optimum: the certified gap is at most this share of the
    objective, or of a thousandth of the best constant's where that is more [default: 1e-3 for
    methods of many passes, and where half a minute is expected to be enough for it; unless passes
    are given]."""
    passes: PositiveInt = 1
    """Largest number of passes over the data; one that only certifies is not counted [default: 100
    with a tolerance, with early stopping and for methods of many passes; else 1, for pegasos
    30]."""
    certify: bool = False
    """Read the data once more at the end, to compute the objective and the certificate."""
    start_from: str | None = None
    """A run whose newest model the training starts from [default: zero weights]."""
    seed: NonNegativeInt = 0
    """Seed of all randomness."""
    memory: ByteSize = 1 << 30
    """Memory limit, such as 256MB [default: 1GiB]; in addition to what the libraries take.  By
    default it is larger where the state, or rows that stay in memory, need it: up to half of what
    the process may use, of rows that are stored as codes (additive models) up to twice the default.
    How rows are read depends on it: the same limit gives the same bits on every machine."""
    streams: Workers = 1
    """Number of disjoint parts of the data to train on at the same time; their models are
    combined [default: 1; of psdca and sdca as many as a cluster has worker processes, where a pass
    takes so long that these save time]."""
    snapshot_every: PositiveFloat = 30.0
    """Seconds between snapshots; does not change the model."""

    @property
    def tries_several_lam(self) -> bool:
        """True if several lam are tried side by side, for the losses of held-out rows.

        Without such rows for those of rows before they are learnt from, which a first pass has.
        """
        again = self.passes > 1 and (self.tol is not None or self.held_out is None)
        if again or self.early_stopping:
            return False
        return isinstance(self.solver, Auto) or bool(
            method_class(self.solver.kind).tries_several_lam
        )

    @property
    def is_scored_by_its_pass(self) -> bool:
        """True if the losses of rows before they are learnt from choose among several lam."""
        held_out = self.held_out or (self.source is not None and self.source.test_fraction)
        return len(self.lam.factors) > 1 and not held_out

    @property
    def budget(self) -> Budget:
        """Shares of the memory."""
        return Budget.of(self.memory)

    @property
    def is_multinomial(self) -> bool:
        """True if one model tells more than two classes apart, under the logistic loss."""
        if isinstance(self.solver, Auto):
            together = self.tol is not None and self.passes > 1 and self.source is None
        else:
            together = self.solver.kind in ALL_CLASSES_AT_ONCE and not self.solver.for_one_score
        together = together and self.penalty in (None, L2) and not self.l1_ratio
        together = together and self._has_both_forms
        return self.classes == "multinomial" or (self.classes == "auto" and together)

    @property
    def _has_both_forms(self) -> bool:
        """True if the loss may have one model for all classes or one for each."""
        return self.named_loss in (None, LOSS_OF_LABELS, LOSS_OF_CLASSES)

    @property
    def named_loss(self) -> str | None:
        """The loss; None where it is the default one, or to be chosen."""
        return None if self.loss == AUTO else self.loss

    def named(self, solver: Any) -> TrainingPlan:
        """Return the plan with the method that was chosen for it, and of the same problem."""
        classes = "multinomial" if self.is_multinomial else "ovr"
        return self.model_copy(update={"solver": solver, "classes": classes})

    @property
    def charged(self) -> str:
        """The word of the penalty."""
        word = self.penalty or ELASTIC_NET
        return L2 if word in WITH_RATIO and self.l1_share == 0.0 else word

    @property
    def l1_share(self) -> float:
        """The share of lam that is charged for the sizes of weights."""
        if self.l1_ratio is not None:
            return self.l1_ratio
        return L1_RATIOS.get(self.penalty or L2, 0.0)

    @model_validator(mode="before")
    @classmethod
    def _stopping(cls, values: Any) -> Any:
        """Fill in when to stop, and settings that suit the loss, which depend on the method."""
        if not isinstance(values, dict):
            return values
        kind = kind_of(values.get("solver", "auto"))
        method = method_class(kind) if kind in METHODS else None  # or refused below
        goal = method.goal if method else None
        if method and goal == "steps" and values.get("loss") is None:
            values = values | {"loss": method.needs.only_loss.name}
        by_size = values.get("penalty") not in (None, L2) or bool(values.get("l1_ratio"))
        again = values.get("source") is None
        many = goal == "tolerance" or (goal is None and again and (by_size or _is_steep(values)))
        if many and values.get("passes") is None and values.get("tol") is None:
            values = values | {"tol": DEFAULT_TOL}
        open_end = values.get("tol") is not None or values.get("early_stopping") is True
        if values.get("passes") is None and (many or open_end):
            values = values | {"passes": MOST_PASSES}
        elif values.get("passes") is None and method and goal == "passes":
            values = values | {"passes": method.usual_passes}
        if "solver" in values:
            values = values | {"solver": with_better(values["solver"], values.get("loss"))}
        return values

    @model_validator(mode="after")
    def _of_all_classes(self) -> TrainingPlan:
        if self.loss == LOSS_OF_CLASSES and self.classes == "ovr":
            raise BadInput(
                f"{LOSS_OF_CLASSES} tells all classes apart by one model, and classes = ovr asks "
                f"for one each. Leave one of them out: `loss={LOSS_OF_LABELS}` has both forms."
            )
        if self.classes == "multinomial" and not self._has_both_forms:
            raise BadInput(
                f"classes = multinomial is of the loss {LOSS_OF_LABELS}, and the loss is "
                f"{self.loss}, which has a model for each class. Leave one of them out."
            )
        return self

    @model_validator(mode="after")
    def _of_its_loss(self) -> TrainingPlan:
        """Refuse a number of another loss, which would change nothing."""
        for name in LOSS_SETTINGS:
            wrong, word = self._given(name), self.named_loss
            if wrong and not (word and name in loss_class(word).parameters()):
                able = [word for word in LOSSES if name in loss_class(word).parameters()]
                raise BadInput(
                    f"{wrong} is of the loss {' or '.join(able)}, and the loss is "
                    f"{self.loss or 'not given'}. Add `loss={able[0]}`, or leave it out."
                )
        return self

    @model_validator(mode="after")
    def _by_features(self) -> TrainingPlan:
        """Refuse what a method that reads single rows and columns cannot do."""
        if self.solver.goal != "steps":
            return self
        needs = method_class(self.solver.kind).needs
        only = needs.only_loss.name
        wrong = None if self.loss == only else f"loss = {self.loss}"
        wrong = wrong or self._given(
            "tol", "passes", "streams", "start_from", "class_weight", "held_out"
        )
        if wrong:
            raise BadInput(
                f"{self.solver.kind} cannot do with {wrong}: it has the {only} for a loss, one "
                "stream, and ends after its own number of steps. Leave it out, or choose "
                f"{needs.instead}."
            )
        return self

    def _given(self, *names: str) -> str | None:
        """Write the first of these settings that is not as usual; None where all are."""
        fields = type(self).model_fields
        given = ((name, getattr(self, name)) for name in names)
        return next((f"{name} = {own}" for name, own in given if own != fields[name].default), None)

    @model_validator(mode="after")
    def _charged(self) -> TrainingPlan:
        """Refuse shares of what the penalty does not have."""
        if self.l1_ratio is not None and self.penalty not in (None, *WITH_RATIO):
            raise BadInput(
                f"l1_ratio = {self.l1_ratio:g} is the share of {ELASTIC_NET}, and penalty is "
                f"{self.penalty}. Leave one of them out."
            )
        if self.lam.has("max") and not self.l1_share:
            raise BadInput(
                f"lam is {self.lam}, a share of the smallest that makes all weights 0, and with an "
                f"{L2} penalty none does. Give a number, or `penalty={L1}`."
            )
        if self.lam.has("max") and self.source is not None:
            raise BadInput(
                f"lam is {self.lam}, a share of what a pass over all rows finds, and a source is "
                "read once. Ingest it first (`ingest_into` does), or give a number."
            )
        return self

    @field_validator("class_weight", mode="before")
    @classmethod
    def _readable_weights(cls, weights: Any) -> Any:
        """Read "spam=10,ham=1" as a number by label."""
        if not isinstance(weights, str) or weights == "balanced":
            return _require_positive(weights)
        pairs = [pair.rpartition("=") for pair in weights.split(",")]
        if not all(name and equals for name, equals, _ in pairs):
            raise BadInput(
                f'class_weight is "{weights}". Write balanced, or LABEL=NUMBER for some labels, '
                "separated by commas."
            )
        read = {name.strip(): number.strip() for name, _, number in pairs}
        if len(read) < len(pairs):
            raise BadInput(f'class_weight is "{weights}", with a label twice. Leave one out.')
        return _require_positive(read)

    @model_validator(mode="after")
    def _read_once(self) -> TrainingPlan:
        """Refuse what needs rows again where they are read once."""
        if self.source is None:
            return self
        again = ("tol", "certify", "streams", "early_stopping", "start_from", "passes")
        wrong = self._given(*again, *["held_out"] * bool(self.source.test_fraction))
        if self.solver.goal not in (None, "passes"):
            raise BadInput(
                f"{self.solver.kind} reads rows again and again, and a source is read once. Ingest "
                "it first (`ingest_into` does), or choose onepass, asgd or sgd."
            )
        if wrong:
            raise BadInput(
                f"{wrong} needs rows again, and a source is read once. Ingest it first "
                "(`ingest_into` does), or leave that out."
            )
        return self

    @field_validator("held_out", mode="before")
    @classmethod
    def _no_share(cls, held_out: Any) -> Any:
        try:
            float(held_out)
        except (TypeError, ValueError):
            return held_out
        raise BadInput(
            f"held_out = {held_out} is a number, and the address of a data set was expected. "
            f"`test_fraction={held_out}` of an ingest makes one of that share of the rows."
        )

    @model_validator(mode="after")
    def _has_rows_to_evaluate_on(self) -> TrainingPlan:
        if not self.early_stopping and (wrong := self._given("n_iter_no_change")):
            raise BadInput(
                f"{wrong} is how long a training that stops early waits, and this one does not. "
                "Add `early_stopping=true`, or leave it out."
            )
        if self.source is not None and self.source.test_fraction:
            return self  # models are evaluated on those rows
        if len(self.lam.factors) > 1 and self.held_out is None and not self.tries_several_lam:
            raise BadInput(
                f'Several values of lam ("{self.lam.written}") need rows to choose by '
                "that none has learnt from. Name a data set with `held_out`; "
                "`test_fraction` of an ingest makes one."
            )
        if self.early_stopping and self.held_out is None:
            raise BadInput(
                "Stopping early needs rows that the model does not learn from. Name a "
                "data set with `held_out`; `test_fraction` of an ingest makes one."
            )
        if self.early_stopping and len(self.lam.factors) > 1:
            raise BadInput(
                f'Several values of lam ("{self.lam.written}") are evaluated at the end, and '
                "`early_stopping=true` after every epoch. Leave one of them out."
            )
        if self.calibrate is not None and self.held_out is None:
            raise BadInput(
                "Probabilities are learnt from rows that the model has not learnt from. Name a "
                "data set with `held_out`; `test_fraction` of an ingest makes one."
            )
        return self


def _is_steep(values: dict[str, Any]) -> bool:
    """Say whether few methods take the loss, and those of many passes are much better."""
    loss = values.get("loss")
    return isinstance(loss, str) and loss in LOSSES and loss_class(loss).is_steep


def _require_positive(weights: Any) -> Any:
    """Return weights by label as they are; BadInput names one that nothing can be weighted by."""
    for label, given in weights.items() if isinstance(weights, dict) else ():
        try:
            number = float(given)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not number > 0.0 or beyond_bounds(number):
            raise BadInput(
                f"class_weight gives the label {label} the weight {shown(given)}. Give a number "
                f"between {SMALLEST:g} and {LARGEST:g}."
            )
    return weights
