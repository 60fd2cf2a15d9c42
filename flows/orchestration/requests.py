"""What can be asked of each flow: a model of its parameters.

Each flow's work is in a module of its own, imported only when the flow runs (`made_flow` puts the
two together): a request that is refused waits for neither Prefect's engine nor numba.
"""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from fewpass.pipeline.errors import did_you_mean
from fewpass.pipeline.settings.change_plans import AppendPlan, ForgetPlan, require_retraining
from fewpass.pipeline.settings.cross_validation_plan import CrossValidationPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.pipeline.settings.prediction_plan import FigureOptions, PredictionPlan
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.described import Described, described_fields

HERE = Execution()  # in this process, with Dask where that takes long
Where = Annotated[
    Execution,
    Field(description="Where tasks run: a Dask scheduler's address, or in this process."),
]


def no_credentials() -> Any:
    """Return the field of storage options that a server must not keep: an empty one."""
    return Field(
        default_factory=dict,
        max_length=0,
        description="Not taken here: credentials come from the environment.",
    )


class IngestRequest(IngestPlan):
    """An ingest plan as Prefect may keep it: without credentials."""

    storage_options: dict[str, Any] = no_credentials()


class IngestParameters(Described):
    """Make a shuffled, checksummed data set of text, columns or arrays."""

    plan: IngestRequest
    """Sources, and the data set to make of them: as in `fewpass ingest`."""
    execution: Where = HERE


class AppendRequest(AppendPlan):
    """An append as Prefect may keep it: without credentials."""

    storage_options: dict[str, Any] = no_credentials()


class AppendParameters(Described):
    """Append the rows of files to a data set: a new generation of it, by the same recipe."""

    plan: AppendRequest
    """Files and data set: as in `fewpass append`."""
    execution: Where = HERE


class ForgetRequest(ForgetPlan):
    """A deletion as Prefect may keep it: without credentials."""

    storage_options: dict[str, Any] = no_credentials()


class ForgetParameters(Described):
    """Delete rows of a data set for good, and name or retrain the models that learnt from them."""

    plan: ForgetRequest
    """Which rows of which data set: as in `fewpass forget`."""
    runs: str | None = None
    """Folder to look for models in, three deep; default the one that the data set lies in."""
    retrain: bool = False
    """Train these models anew, each into a new run beside the old one."""
    warm: bool = False
    """Begin at the old weights: free of the rows as far as the certificate says."""
    execution: Where = HERE

    @model_validator(mode="after")
    def _anew(self) -> Self:
        require_retraining(retrain=self.retrain, warm=self.warm)
        return self


class TrainParameters(Described):
    """Train a model on a data set; a run that was cut short goes on."""

    plan: TrainingPlan
    """What to train, on what, how far: as in `fewpass train`."""
    run: str
    """Folder or address for the run; {date} and {time} stand for the scheduled start, in the
    zone of its schedule."""
    execution: Where = HERE
    require_tol: bool = False
    """The flow run fails when the tolerance was missed; the model is there all the same."""
    skip_unchanged: bool = False
    """Do nothing where the data set is as it was when the newest run of this address, which has a
    {date}, was trained by the same plan; the flow run says so."""
    keep_runs: PositiveInt | None = None
    """After a training remove all runs of this address, which has a {date}, but so many of the
    newest finished ones and what is not finished [default: all stay]."""


class EvaluateParameters(FigureOptions):
    """Say how good a run's model is on a data set."""

    run: str
    """Folder or address of the run, or of a refresh's store; {date} and {time} stand for the
    scheduled start."""
    dataset: str
    """Data set made by ingest; or a file, glob or address that ingest could read, with labels."""
    matching: Matching = BY_NAME
    """How its columns are matched with the model's."""
    execution: Where = HERE


class CrossValidateParameters(Described):
    """Cross-validate a training: a model for each fold, in the same passes, each certified."""

    plan: CrossValidationPlan
    """What to train, on what, how far, on how many folds: as in `fewpass cross-validate`."""
    execution: Where = HERE


class PredictParameters(PredictionPlan):
    """Score every row of an input, in its order, into a file, a folder of files or a table."""

    run: str
    """Folder or address of the run, or of a refresh's store; {date} and {time} stand for the
    scheduled start."""
    inputs: tuple[str, ...]
    """Files, globs or addresses that ingest could read, labels optional; or one data set."""
    out: str
    """File to write (.parquet, .csv, .npy), folder of a file for each of the inputs (with a slash
    at its end), database, or table of Delta Lake (.delta); {date} and {time} stand for the
    scheduled start."""
    execution: Where = HERE


class RefreshParameters(Described):
    """Learn from files that are new or have changed, and publish the model that foresees best."""

    plan: RefreshPlan
    """Where files appear, where everything goes, when a model is good enough."""
    execution: Where = HERE
    abandon: bool = False
    """Give up the generation that is not finished, and do nothing else: the next refresh takes its
    files anew."""


class ModelsParameters(Described):
    """List the models of a refresh's store: how good each is, and which one is used."""

    store: str
    """Folder or address that refreshes write to."""


class PublishParameters(Described):
    """Make the model of a generation the one to use: a newer one, or an older one again."""

    store: str
    """Folder or address that refreshes write to."""
    generation: PositiveInt
    """Number of the generation."""
    because: str = ""
    """Why; kept with the publication."""
    after: NonNegativeInt | None = None
    """Number of the publication that is followed now; where it is another one, nothing is
    changed."""


Request = type[Described]
REQUESTS: dict[str, Request] = {
    "ingest": IngestParameters,
    "append": AppendParameters,
    "forget": ForgetParameters,
    "train": TrainParameters,
    "evaluate": EvaluateParameters,
    "cross-validate": CrossValidateParameters,
    "predict": PredictParameters,
    "refresh": RefreshParameters,
    "models": ModelsParameters,
    "publish": PublishParameters,
}


def request_named(name: str) -> Request:
    """Return what can be asked of a flow; ValueError where there is none of that name."""
    if name not in REQUESTS:
        meant = did_you_mean(name, REQUESTS)
        raise ValueError(f'There is no flow "{name}".{meant} There are {", ".join(REQUESTS)}.')
    return REQUESTS[name]


def flow_name(request: Request) -> str:
    """Return the name of the flow that a request is for."""
    words = re.findall("[A-Z][a-z]+", request.__name__.removesuffix("Parameters"))
    return "-".join(words).lower()


def signature_of(request: Request) -> inspect.Signature:
    """Return a request as the signature of a function, which Prefect makes a form of.

    What must be given comes first.
    """
    fields = sorted(request.model_fields.items(), key=lambda one: not one[1].is_required())
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if field.is_required() else field.default,
                annotation=Annotated[field.annotation, *field.metadata]
                if field.metadata
                else field.annotation,
            )
            for name, field in fields
        ]
    )


def docstring_of(request: Request) -> str:
    """Return what a request is for, its parameters as Prefect reads them in docstrings."""
    fields = described_fields(request).items()
    lines = (f"    {name}: {' '.join((field.description or '').split())}" for name, field in fields)
    return "\n".join([f"{request.__doc__}\n", "Args:", *lines])
