"""Odd cells through every way of scoring: the same score from all, or refused by all."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from functools import partial

from tests.faults.families import Case
from tests.faults.sandbox import Sandbox, chance
from tests.faults.verdict import Verdict, broken
from tests.pipeline import odd_cells
from tests.pipeline.odd_cells import CASES, Trained, differences, trained

MODELS = ("linear", "additive")
#: Characters that are put into a cell of text, or in place of one of its own.
_STRANGE = "0 1\t9.,:-+eE_'\"$%()/TZ\u00a0\u0663\uff11\u2212\u200b\u00e9\U0001f600"


def scored_cells(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """Every odd cell of the suite's table, and each that is text with a strange character in it."""
    for number, case in enumerate(CASES):
        yield Case("P15", name, "odd", case.column, partial(_scored, sandbox, name, case))
        if isinstance(case.cell, str):
            strange = case._replace(cell=_changed(case.cell, number))
            yield Case(
                "P15", name, "strange", case.column, partial(_scored, sandbox, name, strange)
            )


def _changed(text: str, number: int) -> str:
    random = chance(number, text)
    at, more = random.randrange(len(text) + 1), random.choice(_STRANGE)
    return text[:at] + more + text[at + random.randrange(2) :]


def _scored(sandbox: Sandbox, name: str, case: odd_cells.Case) -> Verdict:
    with contextlib.redirect_stdout(io.StringIO()):
        wrong = differences(_model(sandbox, name), [case])
    return broken(wrong[0][1]) if wrong else Verdict("equal")


def _model(sandbox: Sandbox, name: str) -> Trained:
    key = f"model of odd cells, {name}"
    if key not in sandbox.memory:
        folder = sandbox.root / "odd-cells" / name
        folder.mkdir(parents=True)
        sandbox.memory[key] = trained(folder, name)
    model: Trained = sandbox.memory[key]
    return model
