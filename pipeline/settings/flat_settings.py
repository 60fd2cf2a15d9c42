"""Every setting once, by its flat name: where it belongs in a plan, its default, type and help.

A plan is a model of this folder; some of its fields are parts, which are models again (how its
sources are read).  Users give flat names, whatever the part: options of the command line, keys of a
TOML file, keyword arguments and Prefect's parameters differ in spelling only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from fewpass.pipeline.errors import BadInput
from fewpass.solvers.bad_input import inner_model, plainly, refusal
from fewpass.solvers.described import described_fields

Plan = TypeVar("Plan", bound=BaseModel)
Path = tuple[str, ...]
Words = dict[str, Any]  # values by flat names

MISSING: Any = object()  # default of what must be given
#: Settings that Python alone takes: credentials, and rows without targets for predictions.
PYTHON_ALONE = ("storage_options", "label_required")
#: Settings that name columns; a whole number is a position there.
COLUMNS = ("label", "weight", "offset", "exposure", "drop", "test_by", "test_group")
#: What other programs, and haste, call a setting or an option.
OTHER_NAMES = {
    "tol": "tolerance eps stopping_tolerance",
    "lam": "alpha c reg reg_param l2 lambda",
    "penalty": "regularizer regularization",
    "l1_ratio": "alpha_ratio elastic_net elastic_net_mixing",
    "passes": "epochs epoch n_epochs max_iter max_iterations iterations iter",
    "solver": "method algorithm optimizer optimiser",
    "loss": "loss_function objective",
    "threads": "n_jobs jobs cores num_threads",
    "label": "target y response outcome positive_label",
    "delimiter": "sep separator",
    "quote": "quoting quotechar quote_char",
    "seed": "random_state random_seed",
    "intercept": "fit_intercept bias",
    "n_features": "num_features",
    "held_out": "validation valid holdout eval_set",
    "test_fraction": "test_size split holdout_fraction",
    "early_stopping": "early_terminate",
    "charset": "encoding",
    "missing": "na nan",
    "null_values": "na_values null_value nulls",
    "overwrite": "force",
    "probability": "proba probabilities predict_proba",
    "start_from": "warm_start init initial_model",
    "memory": "ram mem memory_limit",
    "drop": "ignore exclude",
    "hash_bits": "bits b",
    "html": "page",
    "ingest_into": "keep store",
    "lift_at": "top",
    "column_copy": "columns",
}
_MEANT = {other: name for name, others in OTHER_NAMES.items() for other in others.split()}
_ALIKE = 0.8  # of difflib's measure


class Setting(NamedTuple):
    """One setting of a plan.

    Attributes
    ----------
    path : tuple of str
        The fields that lead to it from the plan inwards, such as ("source", "options", "label").
    home : type of BaseModel
        The model that has the field.
    default : object
        MISSING where it must be given.
    """

    path: Path
    home: type[BaseModel]
    field: FieldInfo
    default: Any

    @property
    def name(self) -> str:
        """The flat name."""
        return self.path[-1]

    @property
    def help(self) -> str:
        """Its purpose, in one line."""
        field = described_fields(self.home)[self.name]
        return " ".join((field.description or "").split())


def every_setting(plan: type[BaseModel], given: Any = MISSING, at: Path = ()) -> Iterator[Setting]:
    """Yield the settings of a plan and of its parts, in the order of the models.

    `given` is the part that holds where nothing is said: its values are the defaults then, and of a
    part that may be left out (None) nothing must be given.
    """
    for name, field in plan.model_fields.items():
        default = getattr(given, name) if isinstance(given, BaseModel) else default_of(field)
        default = None if given is None and default is MISSING else default
        part = inner_model(field.annotation)
        if part is None:
            yield Setting((*at, name), plan, field, default)
        else:
            yield from every_setting(part, default, (*at, name))


def settings(*plans: type[BaseModel]) -> dict[str, Setting]:
    """Return the settings of plans by flat name, those of parts behind the plan's own.

    Of several of a name the outermost has it; none where two parts are as near.
    """
    return {name: of[0] for plan in plans for name, of in _by_name(plan).items() if _has_name(of)}


@cache
def _by_name(plan: type[BaseModel]) -> dict[str, list[Setting]]:
    """Return the settings of each name, the outermost first."""
    every: dict[str, list[Setting]] = {}
    for setting in sorted(every_setting(plan), key=lambda s: len(s.path)):
        every.setdefault(setting.name, []).append(setting)
    return every


def _has_name(settings_: Sequence[Setting]) -> bool:
    return len(settings_) == 1 or len(settings_[0].path) < len(settings_[1].path)


def typed_settings(*plans: type[BaseModel]) -> dict[str, Setting]:
    """Return the settings that can be written: all but those that Python alone takes."""
    return {n: setting for n, setting in settings(*plans).items() if n not in PYTHON_ALONE}


def plan_of(
    kind: type[Plan],
    words: Mapping[str, Any],
    called: Any = plainly,
    more: str = "",
) -> Plan:
    """Return the plan that flat words mean; BadInput names the one that is wrong.

    A part can be given whole, too, under its own name; a path stands for its text.

    Parameters
    ----------
    called
        Returns what a setting is called where the sentence is read, by its path.
    more
        Advice after a sentence that says no more than what is wrong.
    """
    accepted = settings(kind)
    places = {s.path[k]: s.path[: k + 1] for s in accepted.values() for k in range(len(s.path))}
    for name in words:
        if name not in places and name in _by_name(kind):
            parts = " or ".join(f"`{s.path[0]}`" for s in _by_name(kind)[name])
            raise BadInput(f"`{name}` may be that of {parts}. Give it in one of these.")
        if name not in places:
            near = nearest(name, {n: called((n,)) for n in accepted})
            meant = f" Did you mean {near}?" if near else ""
            raise BadInput(f'There is no setting "{called((name,))}".{meant}{more}')
    try:
        return kind.model_validate(_placed(places, words))
    except ValidationError as error:
        raise BadInput(refusal(error, kind, called, more)) from error


def flat(*plans: BaseModel) -> Words:
    """Return the settings of plans by flat name, as JSON has them; none of a part that is none."""
    words: Words = {}
    for plan in plans:
        document = plan.model_dump(mode="json", exclude={"storage_options"})
        for name, setting in typed_settings(type(plan)).items():
            part = document
            for field in setting.path[:-1]:
                part = part[field] if part else part
            if part is not None:
                words[name] = part[name]
    return words


def nearest(word: str, accepted: Mapping[str, str]) -> str | None:
    """Return what is meant by a word that is no name; None where nobody could know.

    Parameters
    ----------
    accepted
        For each name what it is called where the answer is read.
    """
    names = {_plainly_written(name): name_shown for name, name_shown in accepted.items()}
    wanted = _plainly_written(word)
    meant = {other: names[name] for other, name in _MEANT.items() if name in names} | names
    begun = [name for name in names if len(wanted) > 2 and name.startswith(wanted)]
    if wanted in meant:
        return meant[wanted]
    if len(begun) == 1:
        return names[begun[0]]
    near = get_close_matches(wanted, meant, n=1, cutoff=_ALIKE)
    return meant[near[0]] if near else None


def column_position(value: Any) -> Any:
    """Return a whole number as a position, anything else as the name of a column."""
    if isinstance(value, tuple | list):
        return tuple(column_position(v) for v in value)
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    return value


def _plainly_written(word: str) -> str:
    return re.sub("[_-]+", "_", word.lstrip("-").partition("=")[0]).lower()


def default_of(field: FieldInfo) -> Any:
    """Return a field's default; MISSING where it must be given."""
    return MISSING if field.is_required() else field.get_default(call_default_factory=True)


def _placed(places: Mapping[str, Path], words: Mapping[str, Any]) -> Words:
    """Put flat words where they belong; parts that are given whole before what is in them.

    Paths become text.
    """
    values: Words = {}
    for name in sorted(words, key=lambda name: len(places[name])):
        at = values
        for part in places[name][:-1]:
            at[part] = at = dict(at.get(part) or {})
        own = words[name]
        at[name] = os.fspath(own) if isinstance(own, os.PathLike) else own
    return values
