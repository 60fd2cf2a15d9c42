"""The options of the command line: the same word means the same thing in every command.

Every option of a plan is a flat setting (`fewpass.pipeline.settings.flat_settings`): its type,
default and help are read from there.  Here None stands for "not given".  Nothing imported here
needs numba, Dask or numpy, so `--help` need not wait for them; and cyclopts is imported when it
reads the annotations, which are text until then: most command lines are read without it
(plain_words.py).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import Setting, Words, typed_settings
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.method_kinds import KINDS
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import ByteSize
from fewpass.solvers.bad_input import MOST_WHOLE

if TYPE_CHECKING:
    from cyclopts import Group, Token

Names = tuple[str, ...]
Class = TypeVar("Class", bound=type)


def parameter(**how: Any) -> Any:
    """Return what tells cyclopts how an option is given."""
    from cyclopts import Parameter  # noqa: PLC0415 - see the module's docstring

    return Parameter(**how)


def named(*names: str) -> Any:
    """Return a parameter that is called otherwise than its field."""
    return parameter(name=list(names))


def everyday() -> Any:
    """Return a parameter that the help lists first."""
    return parameter(group=everyday_group())


@cache
def everyday_group() -> Group:
    """Return the group of what the help lists first."""
    from cyclopts import Group  # noqa: PLC0415 - see the module's docstring

    return Group("Everyday options", sort_key=0)


class Flattened:
    """Tells cyclopts, once it asks a class, that its fields are options like all others.

    Parameters
    ----------
    title
        Under which the help lists them, if not under those that they name.
    """

    def __init__(self, title: str | None = None) -> None:
        self._title = title

    def __get__(self, _one: object, holder: Any) -> Any:
        """Return cyclopts' own mark, which replaces this one."""
        del holder.__cyclopts__
        parameter(name="*", **({"group": self._title} if self._title else {}))(holder)
        return holder.__cyclopts__


@dataclass(frozen=True, kw_only=True)
class Output:
    """What is printed."""

    __cyclopts__ = Flattened("Output")

    json: bool = False
    """Print one JSON object on standard output; everything else goes to standard error."""
    quiet: Annotated[bool, named("--quiet", "-q")] = False
    """Print nothing but the JSON object, if asked for, and errors."""
    verbose: Annotated[bool, named("--verbose", "-v")] = False
    """Print the effective plan, too."""
    debug: bool = False
    """Show the traceback of an error."""
    log_format: Annotated[Literal["text", "json"], parameter(env_var="FEWPASS_LOG_FORMAT")] = "text"
    """Progress on standard error: text, or a JSON object per line, with the numbers of every pass
    and of every half a minute of an ingest [default: text]."""


@dataclass(frozen=True, kw_only=True)
class PlanSource:
    """Where a plan comes from, besides the command line."""

    __cyclopts__ = Flattened("Plan")

    config: Path | None = None
    """TOML file of settings, named as in the plan that --dry-run prints; the command line wins."""
    dry_run: bool = False
    """Print the effective plan in the form that --config reads, and do nothing."""


# -- settings of plans ---------------------------------------------------------------------------

if TYPE_CHECKING:
    Method = str
else:
    Method = Literal[KINDS]

#: How an option is given that is not called or typed like its setting.
GIVEN_AS: dict[str, tuple[Any, dict[str, Any]]] = {
    "solver": (Method, {}),
    "label": (str, {"allow_leading_hyphen": True}),
    "weight": (str, {"allow_leading_hyphen": True}),
    "test_by": (str, {"allow_leading_hyphen": True}),
    "test_group": (str, {"allow_leading_hyphen": True}),
    "drop": (Names, {"consume_multiple": False}),
    "keep": (Names, {"consume_multiple": False}),
    "column": (Names, {"consume_multiple": False}),
    "cross": (Names, {"consume_multiple": False}),
    "null_values": (Names, {"consume_multiple": False}),
    "n_features": (int, {"name": ["--features"]}),
    "early_stopping": (bool, {"name": ["--stop-early"]}),
    "wait_workers": (str, {}),
    "header": (bool, {"negative": "--no-header"}),
    "shuffle": (bool, {"negative": "--no-shuffle"}),
    "ranks": (bool, {"negative": "--no-ranks"}),
    "clip": (bool, {"negative": "--no-clip"}),
}

#: What the help lists first.
USED_EVERY_DAY = {
    "label", "drop", "test_fraction", "like", "overwrite", "solver", "loss", "lam", "tol", "passes",
    "held_out", "calibrate", "memory", "scheduler",
}  # fmt: skip
#: Under which title the help lists the rest, by the model whose settings they are.
TITLES: dict[type[BaseModel], str] = {
    Execution: "Where to run",
    TrainingPlan: "Training",
    SourceReading: "Straight from a source",
    SourceOptions: "Reading the source",
    IngestPlan: "Ingest",
}
STRAIGHT = TITLES[SourceReading]
#: What a command takes as arguments, and no option sets.
ARGUMENTS = ("dataset", "sources")
#: Options that may be given more than once.
REPEATED = ("drop", "keep", "column", "cross", "null_values")


def takes(*plans: type[BaseModel]) -> Callable[[Class], Class]:
    """Make a class hold an option for each setting of plans; all may be left out."""

    def with_options(cls: Class) -> Class:
        own = inspect.get_annotations(cls)
        settings = [s for s in typed_settings(*plans).values() if s.name not in ARGUMENTS]
        settings.sort(key=lambda s: s.name not in s.home.__annotations__)  # inherited ones last
        for setting in settings:
            _SETTINGS[_written(setting)] = setting
        cls.__annotations__ = {s.name: _written(s) for s in settings} | own
        for setting in settings:
            setattr(cls, setting.name, () if setting.name in REPEATED else None)
        dataclass(frozen=True, kw_only=True)(cls)
        cls.__cyclopts__ = Flattened()  # type: ignore[attr-defined]
        return cls

    return with_options


_SETTINGS: dict[str, Setting] = {}  # by what stands for their options' types


def _written(setting: Setting) -> str:
    """Return the annotation of a setting's option, as text."""
    return f"option({setting.name!r}, {setting.home.__name__!r})"


def setting_of(field: Any) -> Setting | None:
    """Return the setting that a field is an option for; None where it is for none."""
    return _SETTINGS.get(field.type)


def option(name: str, home: str) -> Any:
    """Return the type of a setting's option, its help included."""
    setting = _SETTINGS[f"option({name!r}, {home!r})"]
    hint, how = given_as(setting)
    if hint is int:
        how = how | {"converter": as_whole}
    group = everyday_group() if name in USED_EVERY_DAY else TITLES[setting.home]
    said = f"{setting.help.rstrip('.')}{_default_of(setting)}."
    shown = parameter(**how, help=said, group=group)
    return Annotated[hint if hint is Names else hint | None, shown]


def given_as(setting: Setting) -> tuple[Any, dict[str, Any]]:
    """Return what the shell gives for a setting, and what cyclopts has to know of it."""
    return GIVEN_AS.get(setting.name) or (_type_of(setting.field), {})


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
    from cyclopts import validators  # noqa: PLC0415 - see the module's docstring

    return parameter(converter=as_whole, validator=validators.Number(gte=least, lte=most))


def _type_of(field: FieldInfo) -> Any:
    """Return what the shell gives: choices, a number, yes or no, and text for everything else."""
    members = [m for m in members_of(field.annotation) if m is not type(None)]
    plain = len(members) == 1 and (members[0] in (int, float, bool) or _is_choice(members[0]))
    return members[0] if plain and not _is_size(field) else str


def _is_choice(hint: Any) -> bool:
    return get_origin(hint) is Literal


def _is_size(field: FieldInfo) -> bool:
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


def _default_of(setting: Setting) -> str:
    """Say what holds where the option is left out, unless the help says so itself."""
    field = setting.field
    default = field.get_default()
    if "[default" in setting.help or default is None or default is False or default == ():
        return ""
    if _is_size(field):
        return f" [default: {default >> 30}GiB]"
    words = {True: "do"}.get(default) if isinstance(default, bool) else None
    number = f"{default:g}" if isinstance(default, int | float) else None
    return f" [default: {words or number or getattr(default, 'written', default)}]"


@takes(Execution)
class Where:
    """Where tasks run; it changes no bit of any result."""


@takes(SourceOptions)
class Reading:
    """How source files are read."""


@takes(IngestPlan)
class IngestOptions:
    """What data set to make of a source, and how it is read."""


@takes(TrainingPlan, Execution)
class TrainingOptions:
    """What to train, and how far; how a source is read that is no data set; where tasks run."""

    set: Annotated[Names, parameter(consume_multiple=False, group=TITLES[TrainingPlan])] = ()
    """A setting of the method itself, such as --set solver.gamma0=0.5; may be repeated.  Without
    --solver it is one of asgd."""
    keep: Annotated[str | None, parameter(group=STRAIGHT)] = None
    """Folder or address: ingest the source into a data set first, and train on that."""


def given(options: Any) -> Words:
    """Return the options that were given, by setting."""
    every = ((f.name, getattr(options, f.name)) for f in fields(options))
    return {name: value for name, value in every if value is not None and value != ()}


def called(path: Sequence[str]) -> str:
    """Return the option that sets a field, or what --set takes of a method's."""
    *parts, name = path
    if parts and parts[0] == "solver":
        return f"solver.{name}"
    own = GIVEN_AS[name][1].get("name") if name in GIVEN_AS else None
    return own[0] if own else f"--{name.replace('_', '-')}"


#: Defaults shared by all commands: dataclasses are immutable, one of each is enough.
OUTPUT, PLAN_SOURCE, WHERE, READING = Output(), PlanSource(), Where(), Reading()
INGEST, TRAINING = IngestOptions(), TrainingOptions()
