"""From options and a TOML file to plans; what does not fit is refused in the options' words."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fewpass.flows.options import Ingest, PlanSource, Reading, Training, Where, given, option_names
from fewpass.pipeline.errors import BadInput, did_you_mean
from fewpass.pipeline.settings.execution import LOCAL, NONE, Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.bad_input import refusal
from fewpass.solvers.registry import ONE_LEARNER

Model = TypeVar("Model", bound=BaseModel)
Values = dict[str, Any]

_POSITIONS = ("label", "weight", "drop")  # columns: a whole number is a position


def training_settings(
    dataset: str,
    training: Training,
    where: Where,
    source: PlanSource,
    reading: Values | None = None,
) -> tuple[TrainingPlan, Execution]:
    """Return the plan of a training and where to run it.

    `reading` says how `dataset` is read where it is a source; None where it is a data set.
    """
    allowed = [name for name in TrainingPlan.model_fields if name != "source"]
    allowed += Execution.model_fields
    if reading is not None:
        allowed += [*SourceReading.model_fields, *SourceOptions.model_fields]
    values = read_config(source.config, "train", allowed)
    asked = given(training)
    solver = _solver(values.pop("solver", {}), asked.pop("solver", None), asked.pop("set", ()))
    if "scheduler" not in given(where):
        _require_own_scheduler(values.get("scheduler"), source.config)
    values |= asked | given(where) | {"dataset": dataset}
    if solver:
        values["solver"] = solver
    if reading is not None:
        values["source"] = source_reading(dataset, values, reading)
    place = {name: values.pop(name) for name in Execution.model_fields if name in values}
    return checked(TrainingPlan, values), checked(Execution, place)


def source_reading(source: str, configured: Values, asked: Values) -> SourceReading:
    """Return how a source is read: as a file of settings says, from which it is taken, and asked.

    `source` is a word of the command line: one file, folder, glob or address.
    """
    known = [*SourceReading.model_fields, *SourceOptions.model_fields]
    words = {name: configured.pop(name) for name in known if name in configured} | asked
    words.pop("sources", None)
    how = {name: words.pop(name) for name in SourceOptions.model_fields if name in words}
    return checked(SourceReading, words | {"sources": (source,), "options": source_options(how)})


def _require_own_scheduler(configured: Any, config: Path | None) -> None:
    """Refuse to follow a file to a scheduler: whoever runs one runs what they like here, too."""
    if configured not in (None, LOCAL, NONE):
        raise BadInput(
            f"{config} names a Dask scheduler, and whoever runs that can run code here. If you "
            "trust it, name it on the command line (--scheduler)."
        )


def ingest_settings(
    sources: Iterable[str], dataset: str, ingest: Ingest, reading: Reading, source: PlanSource
) -> IngestPlan:
    """Return the plan of an ingest."""
    allowed = [
        name for name in IngestPlan.model_fields if name not in ("options", "storage_options")
    ]
    values = read_config(source.config, "ingest", [*allowed, *SourceOptions.model_fields])
    values |= given(ingest) | given(reading)
    words = {name: values.pop(name) for name in SourceOptions.model_fields if name in values}
    values |= {"sources": tuple(sources), "dataset": dataset, "options": source_options(words)}
    return checked(IngestPlan, values)


def source_options(words: Values) -> SourceOptions:
    """Return how to read a source; columns given as whole numbers are positions."""
    columns = {name: column_position(words[name]) for name in _POSITIONS if name in words}
    return checked(SourceOptions, words | columns)


def execution(where: Where) -> Execution:
    """Return where to run."""
    return checked(Execution, given(where))


def column_position(value: Any) -> Any:
    """Return a whole number as a position, anything else as the name of a column."""
    if isinstance(value, tuple | list):
        return tuple(column_position(v) for v in value)
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    return value


def _solver(configured: Any, kind: str | None, settings: Iterable[str]) -> Values:
    """Put the method's settings together: the file's, then the command line's."""
    values = {"kind": configured} if isinstance(configured, str) else dict(configured)
    if kind is not None:
        values["kind"] = kind
    for setting in settings:
        name, value = _assignment(setting)
        values[name] = value
    if values:
        values.setdefault("kind", ONE_LEARNER)  # `auto` has no settings of its own
    return values


def _assignment(setting: str) -> tuple[str, Any]:
    target, equals, text = setting.partition("=")
    group, dot, name = target.strip().partition(".")
    if not (equals and dot and name) or group != "solver":
        raise BadInput(
            f'--set was given "{setting}". Write --set solver.NAME=VALUE, '
            "for example --set solver.gamma0=0.5."
        )
    try:
        return name, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return name, text.strip()


# -- the file -------------------------------------------------------------------------------------


def read_config(path: Path | None, command: str, allowed: Iterable[str]) -> Values:
    """Return the settings of a TOML file: those at the top, then those in the command's table."""
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is not TOML: {error}. Put that right.") from error
    tables = {name: document.pop(name, {}) for name in ("ingest", "train")}
    values: Values = document | tables[command]
    known = sorted(allowed)
    for name in values:
        if name not in known:
            raise BadInput(
                f'{path} has a setting "{name}" that {command} does not know.'
                f"{did_you_mean(name, known)} It knows {', '.join(known)}."
            )
    return values


def as_toml(*plans: BaseModel) -> str:
    """Write plans down as `read_config` reads them."""
    plain, tables = [], []
    for name, value in _flat(plans).items():
        if isinstance(value, Mapping):
            lines = [
                f"{_toml_key(k)} = {_toml_value(v)}" for k, v in value.items() if v is not None
            ]
            tables += ["", f"[{name}]", *lines] if lines else []
        elif value is not None:
            plain.append(f"{name} = {_toml_value(value)}")
    return "\n".join([*plain, *tables])


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_value(name)


def _toml_value(value: Any) -> str:
    """Write text, numbers, truth values and lists: JSON is TOML but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def as_values(*plans: BaseModel) -> Values:
    """Return all settings of the plans, JSON values; secrets and inner matters left out."""
    return _flat(plans)


def _flat(plans: Iterable[BaseModel]) -> Values:
    values: Values = {}
    for plan in plans:
        values |= plan.model_dump(mode="json", exclude={"storage_options"})
    values |= values.pop("source", None) or {}
    if isinstance(options := values.get("options"), dict):
        del values["options"]
        options.pop("label_required", None)
        values |= options
    return values


# -- refusals -------------------------------------------------------------------------------------


HELP = " Add --help to see what it takes."


def checked(kind: type[Model], values: Values) -> Model:
    """Return a validated plan; BadInput names the option and the value otherwise."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise BadInput(refusal(error, kind, _option, HELP)) from error


def _option(path: tuple[str, ...]) -> str:
    """Return the option that sets a field."""
    if path[0] == "solver" and len(path) > 1:
        return ".".join(path[:2])
    return option_names().get(path[-1], path[-1])
