"""The commands in groups, those of a day's work first, and the modules of their functions.

Modules are imported when their commands run: `--version` and `--help` wait for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fewpass.flows.verb_docstrings import Texts, texts_of_command

STORES = "Stores of a refresh"
#: By the words of a command: module and function in `fewpass.flows.commands`.
GROUPS = {
    "Everyday": {
        "ingest": "ingesting:ingest",
        "train": "training:train",
        "resume": "training:resume",
        "evaluate": "evaluating:evaluate",
        "predict": "predicting:predict",
        "report": "run_report:report",
    },
    "Look closer": {
        "explain": "explaining:explain",
        "cross-validate": "cross_validating:cross_validate",
        "methods": "methods:methods",
        "inspect": "inspecting:inspect",
        "check": "checking:check",
        "dashboard": "inspecting:dashboard",
    },
    "Less often": {
        "append": "changing_data:append",
        "forget": "changing_data:forget",
        "export": "exporting:export",
        "column-copy": "ingesting:column_copy",
        "warm-up": "warming:warm_up",
        "demo": "demo:demo",
    },
    STORES: {
        "store list": "store:models",
        "store publish": "store:publish",
        "store take": "store:take",
        "store abandon": "store:abandon",
        "store clean": "cleaning:clean",
    },
}
HELP_FLAGS = ("--help", "-h")
#: Commands that became part of others, and how these are written.
MERGED = {
    "clean": "store clean STORE",
    "columns": "column-copy DATASET",
    "compare": "evaluate RUN RUN... DATASET",
    "completion": "--install-completion",
    "doctor": "check --free RUN",
    "head": "inspect DATASET --rows 20",
    "health": "check --quick PLACE",
    "plan": "train DATASET --plan",
    "shapes": "explain RUN",
    "store forget": "forget STORE --where CONDITION",
    "verify": "check PLACE",
    "weights": "explain RUN",
}
COMMANDS = {words: place for group in GROUPS.values() for words, place in group.items()}


def command_named(tokens: Sequence[str]) -> str | None:
    """Return the command that a command line begins with: one word or two."""
    names = (" ".join(tokens[:count]) for count in (2, 1) if len(tokens) >= count)
    return next((name for name in names if name in COMMANDS), None)


def function_of(words: str) -> Any:
    """Return the function of a command; its module is imported."""
    module, _, name = COMMANDS[words].partition(":")
    return getattr(import_module(f"fewpass.flows.commands.{module}"), name)


def texts_about(words: str) -> Texts:
    """Return what is said of a command; its module is not imported."""
    module, _, name = COMMANDS[words].partition(":")
    return texts_of_command(module, name)
