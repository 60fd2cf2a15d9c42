"""Options and arguments that a command's function declares, with their texts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from fewpass.flows.flags import in_flags
from fewpass.flows.options import (
    OWN,
    SETTING,
    TITLE,
    TITLES,
    USED_EVERY_DAY,
    Names,
    OptionForm,
    called,
    is_size,
)
from fewpass.pipeline.settings.flat_settings import MISSING, Setting
from fewpass.solvers.described import texts_below_fields


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
        """True if the help lists it first."""
        return self.title == OWN or (self.field or "") in USED_EVERY_DAY


def text_of(option: Option, texts: dict[str, str]) -> str:
    """Return all that is said of an option: by its setting, its class, or its command's `texts`."""
    if option.setting is not None:
        text = f"{option.setting.help.rstrip('.')}{_default_of(option.setting)}."
    elif option.holder is None:
        text = texts[option.argument]
    else:
        below = texts_below_fields(option.holder.__module__)[option.holder.__qualname__]
        text = " ".join(below[option.field or ""].split())
    return in_flags(text).replace("`", "")


def _default_of(setting: Setting) -> str:
    """Say what holds where the option is left out, unless the help says so itself."""
    default = setting.field.get_default()
    if (
        setting.default is MISSING
        or "[default" in setting.help
        or default is None
        or default is False
        or default == ()
    ):
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
    many: bool  # it takes all words but those of the arguments behind it

    @property
    def required(self) -> bool:
        """True if it must be given."""
        return self.parameter.default is inspect.Parameter.empty


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
        if parameter.kind is parameter.POSITIONAL_ONLY:
            kind, form, many = _unpacked(hints[name])
            shown = form.names[0] if form.names else name.upper()
            shown = f"{shown.removesuffix('S')}..." if many else shown
            yield Argument(shown, parameter, kind, form, many)


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
            default: Any = None if option.kind is bool and setting.default is not False else False
            default = inspect.Parameter.empty if setting.default is MISSING else default
            yield option._replace(
                default=default, title=TITLES.get(setting.home, OWN), setting=setting
            )


def _option(argument: str, within: str | None, hint: Any, default: Any, title: str) -> Option:
    kind, form, many = _unpacked(hint)
    names = form.names or (called((within or argument,)),)
    return Option(names, argument, within, kind, form, many, default, title)


def _unpacked(hint: Any) -> tuple[Any, OptionForm, bool]:
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
