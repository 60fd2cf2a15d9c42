"""Models of the parameters of each flow.

A flow is called as the function for Python is that does the same, and so are its parameters: what
its docstring says of them is not said here again.  Each flow's work is in a module of its own,
imported only when the flow runs (`made_flow` puts the two together): a request that is refused
waits for neither Prefect's engine nor numba.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from fewpass.flows.verb_docstrings import texts_in_python
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


#: What addresses with dates are.
DATED = "{date} and {time} stand for the scheduled start, in the zone of its schedule."
Request = type[Described]
Asked = TypeVar("Asked", bound=Described)
REQUESTS: dict[str, Request] = {}


def asked_of(flow: str, dated: tuple[str, ...] = ()) -> Callable[[type[Asked]], type[Asked]]:
    """Make a model the parameters of a flow, described as those of the function for Python.

    The texts are set at import, where pydantic and Prefect read them: they stand once, at the
    function, which editors show.

    Parameters
    ----------
    dated
        Parameters in which a {date} is the scheduled one.
    """
    texts = texts_in_python(flow.replace("-", "_"))

    def described(request: type[Asked]) -> type[Asked]:
        request.__doc__ = texts.paragraphs[0]
        for name in request.model_fields.keys() & texts.parameters.keys():
            also = f" {DATED}" if name in dated else ""
            request.model_fields[name].description = f"{texts.parameters[name]}{also}"
        REQUESTS[flow] = request
        return request

    return described


class IngestRequest(IngestPlan):
    """An ingest plan as Prefect may keep it: without credentials."""

    storage_options: dict[str, Any] = no_credentials()


@asked_of("ingest")
class IngestParameters(Described):
    plan: IngestRequest
    """Sources, and the data set to make of them: as in `fewpass ingest`."""
    execution: Where = HERE


class AppendRequest(AppendPlan):
    """An append as Prefect may keep it: without credentials."""

    storage_options: dict[str, Any] = no_credentials()


@asked_of("append")
class AppendParameters(Described):
    plan: AppendRequest
    """Files and data set: as in `fewpass append`."""
    execution: Where = HERE


class ForgetRequest(ForgetPlan):
    """A deletion as Prefect may keep it: without credentials."""

    storage_options: dict[str, Any] = no_credentials()


@asked_of("forget")
class ForgetParameters(Described):
    plan: ForgetRequest
    """Which rows of which data set: as in `fewpass forget`."""
    runs: str | None = None
    retrain: bool = False
    warm: bool = False
    execution: Where = HERE

    @model_validator(mode="after")
    def _anew(self) -> Self:
        require_retraining(retrain=self.retrain, warm=self.warm)
        return self


@asked_of("train", dated=("run",))
class TrainParameters(Described):
    plan: TrainingPlan
    """What to train, on what, how far: as in `fewpass train`."""
    run: str
    execution: Where = HERE
    require_tol: bool = False
    """The flow run fails when the tolerance was missed; the model is there all the same."""
    skip_unchanged: bool = False
    """Do nothing where the data set is as it was when the newest run of this address, which has a
    {date}, was trained by the same plan; the flow run says so."""
    keep_runs: PositiveInt | None = None
    """After a training remove all runs of this address, which has a {date}, but so many of the
    newest finished ones and what is not finished [default: all stay]."""


@asked_of("evaluate", dated=("run", "dataset"))
class EvaluateParameters(FigureOptions):
    run: str
    dataset: str
    matching: Matching = BY_NAME
    """How its columns are matched with the model's."""
    execution: Where = HERE


@asked_of("cross-validate")
class CrossValidateParameters(Described):
    plan: CrossValidationPlan
    """What to train, on what, how far, on how many folds: as in `fewpass cross-validate`."""
    execution: Where = HERE


@asked_of("predict", dated=("run", "inputs", "out"))
class PredictParameters(PredictionPlan):
    run: str
    inputs: tuple[str, ...]
    out: str
    execution: Where = HERE


@asked_of("refresh")
class RefreshParameters(Described):
    plan: RefreshPlan
    """Where files appear, where everything goes, when a model is good enough."""
    execution: Where = HERE
    abandon: bool = False
    """Give up the generation that is not finished, and do nothing else: the next refresh takes its
    files anew."""


@asked_of("models")
class ModelsParameters(Described):
    store: str


@asked_of("publish")
class PublishParameters(Described):
    store: str
    generation: PositiveInt
    because: str = ""
    after: NonNegativeInt | None = None


def request_named(name: str) -> Request:
    """Return what can be asked of a flow; ValueError where there is none of that name."""
    if name not in REQUESTS:
        meant = did_you_mean(name, REQUESTS)
        raise ValueError(f'There is no flow "{name}".{meant} There are {", ".join(REQUESTS)}.')
    return REQUESTS[name]


def flow_name(request: Request) -> str:
    """Return the name of the flow that a request is for."""
    return next(name for name, one in REQUESTS.items() if one is request)


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
