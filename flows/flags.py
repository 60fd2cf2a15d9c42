"""Settings in sentences, as the command line has them.

Below `flows` a sentence names a setting as Python and Prefect do, `missing=zero`; on the command
line it is --missing zero.  A value in quotes, `drop='a b'`, is a text as Python writes it, and
becomes one word of a shell.
"""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache

_SETTING = re.compile(r"`([a-z_]+(?:\.[a-z_]+)?)(?:=([^`]*))?`")
_QUOTED = re.compile(r"'.*'|\".*\"", re.DOTALL)
#: Options of one command alone.
_OF_COMMANDS = (
    "reliability", "port", "words", "rows", "retrain", "plan", "free", "ingest_into", "where",
    "allow_none", "dry_run",
)  # fmt: skip


def in_flags(text: str) -> str:
    """Return a sentence with its settings as options of the command line."""
    return _SETTING.sub(_flag, text)


@cache
def _names() -> set[str]:
    """Return the names of options; plans are imported for sentences that name one."""
    from fewpass.pipeline.settings.execution import Execution  # noqa: PLC0415
    from fewpass.pipeline.settings.flat_settings import settings  # noqa: PLC0415
    from fewpass.pipeline.settings.ingest_plan import IngestPlan  # noqa: PLC0415
    from fewpass.pipeline.settings.prediction_plan import PredictionPlan  # noqa: PLC0415
    from fewpass.pipeline.settings.training_plan import TrainingPlan  # noqa: PLC0415

    return {
        *settings(IngestPlan, TrainingPlan, Execution, PredictionPlan),
        *_OF_COMMANDS,
    }


def _flag(match: re.Match[str]) -> str:
    from fewpass.flows.options import called  # noqa: PLC0415 - see `_names`

    name, value = match.groups()
    if "." in name:
        return f"--set {_word(f'{name}={value}')}" if value else match[0]
    if name not in _names():
        return match[0]
    flag = called((name,))
    if value in (None, "true"):
        return flag
    return f"--no-{flag[2:]}" if value == "false" else f"{flag} {_word(value)}"


def _word(value: str) -> str:
    """Return a value as one word of a shell, in quotes only where the shell needs them.

    What a terminal would act on is written as bash and zsh read it.
    """
    text = _without_quotes(value)
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def _without_quotes(value: str) -> str:
    if not _QUOTED.fullmatch(value):
        return value
    try:
        return str(ast.literal_eval(value))
    except (SyntaxError, ValueError):
        return value


def _escaped(letter: str) -> str:
    if letter in "\\'":
        return f"\\{letter}"
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"


def to_reproduce(memory: int) -> str:
    """Say which option gives the same bits on a machine that has less memory, or more."""
    return f"To reproduce exactly elsewhere, pass --memory {memory}."
