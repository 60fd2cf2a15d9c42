"""The options of the command line: the same word means the same thing in every command.

The typed function of a command declares them: a keyword is an option, a class of options holds
several.  Every option of a plan is a flat setting (`fewpass.pipeline.settings.flat_settings`): its
type, default and help are read from there.  Here None stands for "not given".  Nothing imported
here needs numba, Dask or numpy, so `--help` need not wait for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
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
    get_type_hints,
)

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fewpass.pipeline.settings.encoding import Encoding
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import Setting, Words, typed_settings
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.method_kinds import KINDS
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import ByteSize
from fewpass.solvers.bad_input import MOST_WHOLE
from fewpass.solvers.described import texts_below_fields

Names = tuple[str, ...]
Class = TypeVar("Class", bound=type)


class OptionForm(NamedTuple):
    """How an option or an argument is written, where its type does not say so."""

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
    """What is printed."""

    title: ClassVar = "Output"

    json: bool = False
    """Print one JSON object on standard output; everything else goes to standard error."""
    quiet: Annotated[bool, named("--quiet", "-q")] = False
    """Print nothing but the JSON object, if asked for, and errors."""
    verbose: Annotated[bool, named("--verbose", "-v")] = False
    """Print the effective plan, too."""
    debug: bool = False
    """Show the traceback of an error."""
    log_format: Literal["text", "json"] | None = None
    """Progress on standard error: text, or a JSON object per line, with the numbers of every pass
    and of every half a minute of an ingest [default: text]."""


@dataclass(frozen=True, kw_only=True)
class PlanSource:
    """Where a plan comes from, besides the command line."""

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
RENAMED = {"n_features": "--features", "early_stopping": "--stop-early"}
TYPED: dict[str, Any] = {"solver": Method, "wait_workers": str}

#: What the help lists first.
USED_EVERY_DAY = {
    "label", "drop", "test_fraction", "like", "overwrite", "solver", "loss", "lam", "tol", "passes",
    "held_out", "calibrate", "memory", "scheduler", "json", "quiet",
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


class Option(NamedTuple):
    """An option of a command, and the place of its value among the arguments of the function."""

    names: Names
    argument: str
    field: str | None  # of the class of options that the argument is
    kind: Any  # bool, int, float, str, Path or choices
    form: OptionForm
    many: bool
    default: Any  # inspect.Parameter.empty: it must be given
    title: str
    holder: type | None = None  # the class of options
    setting: Setting | None = None

    @property
    def negative(self) -> str | None:
        """The option that says no, where leaving it out may mean yes."""
        if self.kind is not bool or self.default is False:
            return None
        return f"--no-{self.names[0][2:]}"

    @property
    def everyday(self) -> bool:
        """Whether the help lists it first."""
        return self.title == OWN or (self.field or "") in USED_EVERY_DAY


def text_of(option: Option, texts: dict[str, str]) -> str:
    """Return all that is said of an option: by its setting, its class, or its command's `texts`."""
    if option.setting is not None:
        return f"{option.setting.help.rstrip('.')}{_default_of(option.setting)}."
    if option.holder is None:
        return texts[option.argument]
    below = texts_below_fields(option.holder.__module__)[option.holder.__qualname__]
    return " ".join(below[option.field or ""].split())


def _default_of(setting: Setting) -> str:
    """Say what holds where the option is left out, unless the help says so itself."""
    default = setting.field.get_default()
    if "[default" in setting.help or default is None or default is False or default == ():
        return ""
    if is_size(setting.field):
        return f" [default: {default >> 30}GiB]"
    words = {True: "do"}.get(default) if isinstance(default, bool) else None
    number = f"{default:g}" if isinstance(default, int | float) else None
    return f" [default: {words or number or getattr(default, 'written', default)}]"


class Argument(NamedTuple):
    """An argument of a command that is given without a name."""

    name: str
    parameter: inspect.Parameter
    kind: Any
    form: OptionForm

    @property
    def many(self) -> bool:
        """Whether it takes all words that are left."""
        return self.parameter.kind is inspect.Parameter.VAR_POSITIONAL

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return not self.many and self.parameter.default is inspect.Parameter.empty


def options_of(command: Callable[..., int]) -> Iterator[Option]:
    """Yield the options of a command's function, in its order."""
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(parameter.default):
            yield from _options_of_class(name, type(parameter.default))
        elif parameter.kind is parameter.KEYWORD_ONLY:
            yield _option(name, None, hints[name], parameter.default, OWN)


def arguments_of(command: Callable[..., int]) -> Iterator[Argument]:
    """Yield the arguments that a command takes without names, in their order."""
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            kind, form, _ = _taken_apart(hints[name])
            shown = form.names[0] if form.names else name.upper()
            yield Argument(shown, parameter, kind, form)


def _options_of_class(argument: str, holder: type) -> Iterator[Option]:
    hints = get_type_hints(holder, include_extras=True)
    for each in fields(holder):
        setting = each.metadata.get(SETTING)
        title = each.metadata.get(TITLE, getattr(holder, "title", ""))
        option = _option(argument, each.name, hints[each.name], each.default, title)
        option = option._replace(holder=holder)
        if setting is None:
            yield option
        else:
            default = None if option.kind is bool and setting.default is not False else False
            yield option._replace(
                default=default, title=TITLES.get(setting.home, OWN), setting=setting
            )


def _option(argument: str, within: str | None, hint: Any, default: Any, title: str) -> Option:
    kind, form, many = _taken_apart(hint)
    names = form.names or (called((within or argument,)),)
    return Option(names, argument, within, kind, form, many, default, title)


def _taken_apart(hint: Any) -> tuple[Any, OptionForm, bool]:
    """Return what one value is, how it is written, and whether there may be several."""
    arms = [*_arms(hint)]
    form = next((arm for arm in arms if isinstance(arm, OptionForm)), OptionForm())
    kind = next(arm for arm in arms if arm is not NoneType and not isinstance(arm, OptionForm))
    many = get_origin(kind) in (tuple, list)
    return get_args(kind)[0] if many else kind, form, many


def _arms(hint: Any) -> Iterator[Any]:
    """Yield the alternatives of a type, and what is annotated."""
    if get_origin(hint) is Annotated or get_origin(hint) in (Union, UnionType):
        yield from (one for arm in get_args(hint) for one in _arms(arm))
    else:
        yield hint


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
    """Where tasks run; it changes no bit of any result."""


@takes(SourceOptions, but=FIXED)
class Reading:
    """How source files are read for a model or a data set that there is."""


@takes(IngestPlan)
class IngestOptions:
    """What data set to make of a source, and how it is read."""


@takes(TrainingPlan, Execution)
class TrainingOptions:
    """What to train, and how far; how a source is read that is no data set; where tasks run."""

    set: Names = field(default=(), metadata={TITLE: TITLES[TrainingPlan]})
    """A setting of the method itself, such as --set solver.gamma0=0.5; may be repeated.  Without
    --solver it is one of asgd."""
    keep: str | None = field(default=None, metadata={TITLE: STRAIGHT})
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
    return RENAMED.get(name) or f"--{name.replace('_', '-')}"


#: Defaults shared by all commands: dataclasses are immutable, one of each is enough.
OUTPUT, PLAN_SOURCE, WHERE, READING = Output(), PlanSource(), Where(), Reading()
INGEST, TRAINING = IngestOptions(), TrainingOptions()
