"""Settings in sentences, as the command line has them.

Below `flows` a sentence names a setting as Python and Prefect do, `missing=zero`; on the command
line it is --missing zero.
"""

from __future__ import annotations

import re
import shlex

from fewpass.flows.options import GIVEN_AS
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan

_SETTING = re.compile(r"`([a-z_]+(?:\.[a-z_]+)?)(?:=([^`]*))?`")
_MODELS = (IngestPlan, SourceOptions, SourceReading, TrainingPlan, Execution)
_NAMES = {name for model in _MODELS for name in model.model_fields}
#: Of `fewpass predict`, `evaluate`, `train` and `dashboard`.
_NAMES |= {"probability", "reliability", "keep", "port"}


def in_flags(text: str) -> str:
    """Return a sentence with its settings as options of the command line."""
    return _SETTING.sub(_flag, text)


def _flag(found: re.Match[str]) -> str:
    name, value = found.groups()
    if "." in name:
        return f"--set {shlex.quote(f'{name}={value}')}" if value else found[0]
    if name not in _NAMES:
        return found[0]
    flag = _called(name)
    if value in (None, "true"):
        return flag
    return f"--no-{flag[2:]}" if value == "false" else f"{flag} {shlex.quote(value)}"


def _called(name: str) -> str:
    """Return an option's name: its field's, unless it has another."""
    own = [*(GIVEN_AS[name][1].name or ())] if name in GIVEN_AS else []
    return own[0] if own else f"--{name.replace('_', '-')}"
