"""Plans of options and a TOML file; what does not fit is refused in the options' words."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, create_model

from fewpass.flows.options import IngestOptions, PlanSource, Where, called, given
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.execution import LOCAL, NONE, Execution
from fewpass.pipeline.settings.flat_settings import (
    COLUMNS,
    Setting,
    Words,
    column_position,
    flat,
    nearest,
    plan_of,
    typed_settings,
)
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.described import Described
from fewpass.solvers.registry import ONE_LEARNER

Model = TypeVar("Model", bound=BaseModel)
Training = TypeVar("Training", bound=TrainingPlan)

HELP = " Add --help to see what it takes."


def training_settings(
    dataset: str,
    options: Any,
    plan_source: PlanSource,
    kind: type[Training],
    *,
    is_source: bool = False,
) -> tuple[Training, Execution]:
    """Return the plan of a training and where to run it; `dataset` may be a source of rows.

    `options` are those of a training, or of a plan of another kind.
    """
    asked = given(options)
    if not is_source:
        refuse_reading(asked, dataset)
    every = typed_settings(kind, Execution)
    allowed = [name for name, s in every.items() if is_source or s.path[0] != "source"]
    words = read_config(plan_source.config, "train", allowed)
    solver = _solver(words.pop("solver", {}), asked.pop("solver", None), asked.pop("set", ()))
    if "scheduler" not in asked:
        _require_own_scheduler(words.get("scheduler"), plan_source.config)
    words |= asked | {"dataset": dataset}
    if solver:
        words["solver"] = solver
    if is_source:
        words["sources"] = (dataset,)
    place = {name: words.pop(name) for name in Execution.model_fields if name in words}
    return checked(kind, words), checked(Execution, place)


def _require_own_scheduler(configured: Any, config: Path | None) -> None:
    """Refuse to follow a file to a scheduler: whoever runs one runs what they like here, too."""
    if configured not in (None, LOCAL, NONE):
        raise BadInput(
            f"{config} names a Dask scheduler, and whoever runs that can run code here. If you "
            "trust it, name it on the command line (--scheduler)."
        )


def ingest_settings(
    sources: Iterable[str], dataset: str, options: IngestOptions, where: Where,
    plan_source: PlanSource,
) -> tuple[IngestPlan, Execution]:  # fmt: skip
    """Return the plan of an ingest, and where to run it."""
    asked = given(where)
    words = read_config(plan_source.config, "ingest", typed_settings(IngestPlan, Execution))
    if "scheduler" not in asked:
        _require_own_scheduler(words.get("scheduler"), plan_source.config)
    words |= asked | given(options) | {"sources": tuple(sources), "dataset": dataset}
    place = {name: words.pop(name) for name in Execution.model_fields if name in words}
    plan = checked(IngestPlan, words | {"threads": place.get("threads")})
    return plan, checked(Execution, place)


def _solver(configured: Any, kind: str | None, settings: Iterable[str]) -> Words:
    """Put the method's settings together: the file's, then the command line's."""
    values = dict(configured) if isinstance(configured, Mapping) else {"kind": configured}
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
    return name, toml_value(text)


def toml_value(text: str) -> Any:
    """Return what TOML reads from a text; the text itself where that is nothing."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def checked(kind: type[Model], words: Words) -> Model:
    """Return a validated plan of flat words; BadInput names the option and the value otherwise."""
    typed = {n: column_position(v) if n in COLUMNS else v for n, v in words.items()}
    return plan_of(kind, typed, called, HELP)


def require_fits(values: Mapping[str, tuple[Setting, Any]]) -> None:
    """Refuse a value that its setting does not take, whatever the others are; BadInput.

    That waits for nothing that a command imports.
    """
    kinds: Any = {name: (s.field.annotation, s.field) for name, (s, _) in values.items()}
    checked(
        create_model("Given", __base__=Described, **kinds), {n: v for n, (_, v) in values.items()}
    )


# -- the file -------------------------------------------------------------------------------------


def read_config(path: Path | None, command: str, allowed: Iterable[str]) -> Words:
    """Return the settings of a TOML file: those at the top, then those in the command's table."""
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.expanduser().read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is not TOML: {error}. Put that right.") from error
    tables = {name: document.pop(name, {}) for name in ("ingest", "train")}
    if not isinstance(tables[command], dict):
        raise BadInput(
            f"{path} gives {command} a value, and a table of settings was expected. Write "
            f"[{command}], and each setting on a line below."
        )
    words: Words = document | tables[command]
    names = {name: name for name in sorted(allowed)}
    for name in words:
        if name not in names:
            near = nearest(name, names)
            raise BadInput(
                f'{path} has a setting "{name}" that {command} does not know.'
                f"{f' Did you mean {near}?' if near else ''} It knows {', '.join(names)}."
            )
    return words


def as_toml(*plans: BaseModel) -> str:
    """Write plans down as `read_config` reads them."""
    plain, tables = [], []
    for name, value in flat(*plans).items():
        if isinstance(value, Mapping):
            lines = [f"{_toml_key(k)} = {_written(v)}" for k, v in value.items() if v is not None]
            tables += ["", f"[{name}]", *lines] if lines else []
        elif value is not None:
            plain.append(f"{name} = {_written(value)}")
    return "\n".join([*plain, *tables])


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _written(name)


def _written(value: Any) -> str:
    """Write text, numbers, truth values and lists: JSON is TOML but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
