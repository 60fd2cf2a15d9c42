"""The options of the command line: the same word means the same thing in every command.

Every option that sets something of a plan is a field of its model in `fewpass.pipeline.settings`:
type, default and help are read from there.  Here None stands for "not given".  Nothing imported
here needs numba, Dask or numpy, so `--help` need not wait for them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from cyclopts import Group, Parameter, Token, validators
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.matching import Matching as MatchingSettings
from fewpass.pipeline.settings.methods import KINDS
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import ByteSize
from fewpass.solvers.bad_input import MOST_WHOLE

Names = tuple[str, ...]
Class = TypeVar("Class", bound=type)


def named(*names: str) -> Any:
    """Return a parameter that is called otherwise than its field."""
    return Parameter(name=list(names))


@Parameter(name="*", group="Output")
@dataclass(frozen=True, kw_only=True)
class Output:
    """What is printed."""

    json: bool = False
    """Print one JSON object on standard output; everything else goes to standard error."""
    quiet: Annotated[bool, named("--quiet", "-q")] = False
    """Print nothing but the JSON object, if asked for, and errors."""
    verbose: Annotated[bool, named("--verbose", "-v")] = False
    """Print the effective plan, too."""
    debug: bool = False
    """Show the traceback of an error."""
    log_format: Annotated[Literal["text", "json"], Parameter(env_var="FEWPASS_LOG_FORMAT")] = "text"
    """What is told on the way on standard error: text, or a JSON object per line, with the numbers
    of every pass and of every half a minute of an ingest [default: text]."""


@Parameter(name="*", group="Plan")
@dataclass(frozen=True, kw_only=True)
class PlanSource:
    """Where a plan comes from, besides the command line."""

    config: Path | None = None
    """TOML file of settings, named as in the plan that --dry-run prints; the command line wins."""
    dry_run: bool = False
    """Print the effective plan in the form that --config reads, and do nothing."""


# -- settings of plans ---------------------------------------------------------------------------

if TYPE_CHECKING:
    Method = str
else:
    Method = Literal[KINDS]

#: How an option is given that is not called or typed like its field.
GIVEN_AS: dict[str, tuple[Any, Parameter]] = {
    "solver": (Method, Parameter()),
    "label": (str, Parameter(allow_leading_hyphen=True)),
    "weight": (str, Parameter(allow_leading_hyphen=True)),
    "drop": (Names, Parameter(consume_multiple=False)),
    "column": (Names, Parameter(consume_multiple=False)),
    "cross": (Names, Parameter(consume_multiple=False)),
    "n_features": (int, named("--features")),
    "early_stopping": (bool, named("--stop-early")),
    "wait_workers": (str, Parameter()),
    "header": (bool, Parameter(negative="--no-header")),
    "shuffle": (bool, Parameter(negative="--no-shuffle")),
    "ranks": (bool, Parameter(negative="--no-ranks")),
}

#: What the help lists first.
EVERYDAY = Group("Everyday options", sort_key=0)
RequireTol = Annotated[bool, Parameter(group=EVERYDAY)]
USED_EVERY_DAY = {
    "label", "drop", "test_fraction", "like", "overwrite", "solver", "loss", "lam", "tol", "passes",
    "held_out", "calibrate", "memory", "scheduler",
}  # fmt: skip

#: Options that may be given more than once.
REPEATED = ("drop", "column", "cross")


def sets(
    model: type[BaseModel], group: str, leave_out: Collection[str] = ()
) -> Callable[[Class], Class]:
    """Make a class hold an option for each field of a model, but for some; all may be left out."""

    def with_options(cls: Class) -> Class:
        own = inspect.get_annotations(cls)
        cls.__annotations__ = {n: option(n, model.model_fields[n]) for n in _names_in(model)} | own
        for name in leave_out:
            del cls.__annotations__[name]
        for name in cls.__annotations__.keys() - own.keys():
            setattr(cls, name, () if name in REPEATED else None)
        dataclass(frozen=True, kw_only=True)(cls)
        Parameter(name="*", group=group)(cls)
        return cls

    return with_options


def option(name: str, known: FieldInfo) -> Any:
    """Return the type of a field's option, its help included."""
    hint, how = GIVEN_AS.get(name, (_type_of(known), Parameter()))
    if hint is int:
        how = Parameter.combine(how, Parameter(converter=as_whole))
    told = " ".join((known.description or "").split()).rstrip(".") + _default_of(known)
    shown = Parameter(help=f"{told}.")  # group=None would be no group, and hide the option
    if name in USED_EVERY_DAY:
        shown = Parameter(help=f"{told}.", group=EVERYDAY)
    return Annotated[hint if hint is Names else hint | None, how, shown]


def as_whole(_hint: Any, tokens: Sequence[Token]) -> int:
    """Read a whole number, also as 1e3; ValueError for all else, of which `int` may make some."""
    text = tokens[0].value
    if re.fullmatch(r"[+-]?[0-9]{1,40}", text):
        return int(text)
    number = float(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)


def whole(least: int, most: int = MOST_WHOLE) -> Any:
    """Return a parameter that takes whole numbers within bounds."""
    return Parameter(converter=as_whole, validator=validators.Number(gte=least, lte=most))


def _names_in(model: type[BaseModel]) -> list[str]:
    """Return the names of a model's fields, its own before those that it inherits."""
    return sorted(model.model_fields, key=lambda name: name not in model.__annotations__)


def _type_of(known: FieldInfo) -> Any:
    """Return what the shell gives: choices, a number, yes or no, and text for everything else."""
    members = [m for m in _members(known.annotation) if m is not type(None)]
    plain = len(members) == 1 and (members[0] in (int, float, bool) or _is_choice(members[0]))
    return members[0] if plain and not _is_size(known) else str


def _is_choice(hint: Any) -> bool:
    return get_origin(hint) is Literal


def _is_size(known: FieldInfo) -> bool:
    size = get_args(ByteSize)[1]
    arms = get_args(known.annotation)
    return size in known.metadata or any(size in getattr(arm, "__metadata__", ()) for arm in arms)


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union, constraints taken off."""
    if get_origin(hint) is Annotated:
        return _members(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return tuple(member for arm in get_args(hint) for member in _members(arm))
    return (hint,)


def _default_of(known: FieldInfo) -> str:
    """Say what holds where the option is left out, unless the help says so itself."""
    default = known.get_default()
    if (
        "[default" in (known.description or "")
        or default is None
        or default is False
        or default == ()
    ):
        return ""
    if _is_size(known):
        return f" [default: {default >> 30}GiB]"
    words = {True: "do"}.get(default) if isinstance(default, bool) else None
    number = f"{default:g}" if isinstance(default, int | float) else None
    return f" [default: {words or number or getattr(default, 'written', default)}]"


@sets(Execution, "Where to run")
class Where:
    """Where tasks run; it changes no bit of any result."""


@sets(TrainingPlan, "Training", leave_out=["dataset", "source"])
class Training:
    """What to train, and how far."""

    set: Annotated[Names, Parameter(consume_multiple=False)] = ()
    """A setting of the method itself, such as --set solver.gamma0=0.5; may be repeated.  Without
    --solver it is one of asgd."""


@sets(MatchingSettings, "Columns")
class Matching:
    """How columns are matched with those of a model; the same two options as of `Reading`."""


@sets(SourceOptions, "Reading the source", leave_out=["label_required"])
class Reading:
    """How source files are read."""


@sets(IngestPlan, "Ingest", leave_out=["sources", "dataset", "options", "storage_options"])
class Ingest:
    """What data set to make of the source."""


@sets(SourceReading, "Straight from a source", leave_out=["sources", "options"])
class Straight:
    """What an ingest would have been told, where there is none."""

    keep: str | None = None
    """Folder or address: ingest the source into a data set first, and train on that."""


def given(options: Any) -> dict[str, Any]:
    """Return the options that were given, by field."""
    every = ((f.name, getattr(options, f.name)) for f in fields(options))
    return {name: value for name, value in every if value is not None and value != ()}


def option_names() -> dict[str, str]:
    """Return the option that sets each field, for messages; fields of equal name agree."""
    groups = (Output, PlanSource, Where, Training, Reading, Straight, Ingest)
    return {name: option for group in groups for name, option in _names_of(group)}


def _names_of(group: type) -> Iterator[tuple[str, str]]:
    for name, hint in get_type_hints(group, include_extras=True).items():
        own = [n for p in get_args(hint) if isinstance(p, Parameter) for n in p.name or ()]
        yield name, own[0] if own else f"--{name.replace('_', '-')}"


#: Defaults shared by all commands: dataclasses are immutable, one of each is enough.
OUTPUT, PLAN_SOURCE, WHERE = Output(), PlanSource(), Where()
TRAINING, READING, INGEST, MATCHING = Training(), Reading(), Ingest(), Matching()
STRAIGHT = Straight()
