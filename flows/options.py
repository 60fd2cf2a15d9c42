"""The options of the command line: the same word means the same thing in every command.

The typed function of a command declares them: a keyword is an option, a class of options holds
several.  Every option of a plan is a flat setting (`fewpass.pipeline.settings.flat_settings`): its
type, default and help are read from there.  Here None stands for "not given".  Nothing imported
here needs numba, Dask or numpy, so `--help` need not wait for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fewpass.pipeline.settings.cross_validation_plan import CrossValidationPlan
from fewpass.pipeline.settings.encoding import Encoding
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import Setting, Words, typed_settings
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.method_kinds import KINDS
from fewpass.pipeline.settings.prediction_plan import ExplanationPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import ByteSize
from fewpass.solvers.bad_input import MOST_WHOLE

Names = tuple[str, ...]
Class = TypeVar("Class", bound=type)


class OptionForm(NamedTuple):
    """Form of an option or an argument, where its type does not tell it."""

    names: Names = ()
    least: float | None = None
    most: float | None = None


def named(*names: str) -> OptionForm:
    """Return the form of what is called otherwise than its parameter."""
    return OptionForm(names)


def whole(least: int, most: int = MOST_WHOLE) -> OptionForm:
    """Return the form of a whole number within bounds."""
    return OptionForm(least=least, most=most)


@dataclass(frozen=True, kw_only=True)
class Output:
    """Options of what is printed."""

    title: ClassVar = "Output"

    json: bool = False
    """Print one JSON object on standard output; everything else goes to standard error."""
    quiet: Annotated[bool, named("--quiet", "-q")] = False
    """Print errors alone, and the JSON object if asked for."""
    verbose: Annotated[bool, named("--verbose", "-v")] = False
    """Print the effective plan, too."""
    debug: bool = False
    """Show the traceback of an error."""
    log_format: Literal["text", "json"] | None = None
    """Progress on standard error: text, or a JSON object per line, with the numbers of every pass
    and of every half a minute of an ingest [default: text]."""


@dataclass(frozen=True, kw_only=True)
class PlanSource:
    """Sources of a plan besides the command line."""

    title: ClassVar = "Plan"

    config: Path | None = None
    """TOML file of settings, named as in the plan that --dry-run prints; the command line wins."""
    dry_run: bool = False
    """Print the effective plan in the form that --config reads, and do nothing."""


# -- settings of plans ---------------------------------------------------------------------------

if TYPE_CHECKING:
    Method = str
else:
    Method = Literal[KINDS]

#: Settings whose options are called or typed otherwise.
RENAMED = {"n_features": "--features", "early_stopping": "--stop-early", "class_label": "--class"}
TYPED: dict[str, Any] = {"solver": Method, "wait_workers": str}

#: What the help lists first.
USED_EVERY_DAY = {
    "label", "drop", "test_fraction", "like", "overwrite", "solver", "loss", "lam", "tol", "passes",
    "held_out", "calibrate", "memory", "scheduler", "json", "quiet", "top", "class_label", "folds",
}  # fmt: skip
#: Under which title the help lists the rest, by the model whose settings they are.
TITLES: dict[type[BaseModel], str] = {
    Execution: "Where to run",
    TrainingPlan: "Training",
    SourceReading: "Straight from a source",
    SourceOptions: "Reading the source",
    IngestPlan: "Ingest",
    CrossValidationPlan: "Training",
    ExplanationPlan: "Rows",
}
STRAIGHT = TITLES[SourceReading]
OWN = "Options"  # of the command alone
#: Under which a field of a class of options has its setting, or its title.
SETTING, TITLE = "setting", "title"
#: What a command takes as arguments, and no option sets.
ARGUMENTS = ("dataset", "sources")
#: Settings of a model or a data set, which later rows are read by; Vowpal Wabbit's text needs
#: `hash_bits` again.
FIXED = (*(n for n in Encoding.model_fields if n != "hash_bits"), "n_features", "dtype")
#: Options that may be given more than once.
REPEATED = ("drop", "keep", "column", "cross", "null_values", "by")


def takes(*plans: type[BaseModel], but: Sequence[str] = ()) -> Callable[[Class], Class]:
    """Make a class hold an option for each setting of plans, `but` some; all may be left out."""

    def with_options(cls: Class) -> Class:
        own = inspect.get_annotations(cls)
        settings = [s for s in typed_settings(*plans).values() if s.name not in (*ARGUMENTS, *but)]
        settings.sort(key=lambda s: s.name not in s.home.__annotations__)  # inherited ones last
        cls.__annotations__ = {s.name: kind_of(s) for s in settings} | own
        for setting in settings:
            default: Any = () if setting.name in REPEATED else None
            setattr(cls, setting.name, field(default=default, metadata={SETTING: setting}))
        dataclass(frozen=True, kw_only=True)(cls)
        return cls

    return with_options


def kind_of(setting: Setting) -> Any:
    """Return what the shell gives for a setting."""
    if setting.name in REPEATED:
        return Names
    return TYPED.get(setting.name) or _type_of(setting.field)


def _type_of(field: FieldInfo) -> Any:
    """Return what the shell gives: choices, a number, yes or no, and text for everything else."""
    members = [m for m in members_of(field.annotation) if m is not type(None)]
    plain = len(members) == 1 and (members[0] in (int, float, bool) or _is_choice(members[0]))
    return members[0] if plain and not is_size(field) else str


def _is_choice(hint: Any) -> bool:
    return get_origin(hint) is Literal


def is_size(field: FieldInfo) -> bool:
    """Say whether a setting is a number of bytes, such as 256MB."""
    size = get_args(ByteSize)[1]
    arms = get_args(field.annotation)
    return size in field.metadata or any(size in getattr(arm, "__metadata__", ()) for arm in arms)


def members_of(hint: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union, constraints taken off."""
    if get_origin(hint) is Annotated:
        return members_of(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return tuple(member for arm in get_args(hint) for member in members_of(arm))
    return (hint,)


@takes(Execution)
class Where:
    """Options of where tasks run; they change no bit of any result."""


@takes(SourceOptions, but=FIXED)
class Reading:
    """Options of reading source files for an existing model or data set."""


@takes(IngestPlan, but=("threads",))
class IngestOptions:
    """Options of the data set to make of a source, and of reading it."""


@takes(TrainingPlan, Execution)
class TrainingOptions:
    """Options of a training, of reading a source that is no data set, and of where tasks run."""

    set: Names = field(default=(), metadata={TITLE: TITLES[TrainingPlan]})
    """A setting of the method itself, such as --set solver.gamma0=0.5; may be repeated.  Without
    --solver it is one of asgd."""
    ingest_into: str | None = field(default=None, metadata={TITLE: STRAIGHT})
    """Ingest the source into this data set first, and train on that."""


def given(options: Any) -> Words:
    """Return the options that were given, by setting."""
    every = ((f.name, getattr(options, f.name)) for f in fields(options))
    return {name: value for name, value in every if value is not None and value != ()}


def called(path: Sequence[str]) -> str:
    """Return the option that sets a field, or what --set takes of a method's."""
    *parts, name = path
    if parts and parts[0] == "solver":
        return f"solver.{name}"
    return RENAMED.get(name) or f"--{name.replace('_', '-')}"


#: Defaults shared by all commands: dataclasses are immutable, one of each is enough.
OUTPUT, PLAN_SOURCE, WHERE, READING = Output(), PlanSource(), Where(), Reading()
INGEST, TRAINING = IngestOptions(), TrainingOptions()
