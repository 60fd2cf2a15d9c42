"""The choice of rounds, which the cores of a machine share, for the method that `auto` chose.

A round's row costs up to 1.7 times a chain's where sixteen threads share it, and threads wait for
each other twice in 128 rows: it takes several cores, many rows and passes that last before that is
the quicker way (docs/scaling.md).  Several models go side by side in one thread, which is worth as
much.  Under losses of numbers rounds took up to twice the passes (docs/methods.md, 7.14).
"""

from __future__ import annotations

from pydantic import BaseModel

from fewpass.pipeline.planning.method_choice import MethodChoice
from fewpass.pipeline.planning.row_costs import dual_pass
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats
from fewpass.solvers.registry import DUAL

LEAST_CORES = 6  # often two of them are one
LEAST_ROWS = 20_000  # with fewer a pass has too few rounds to measure anything in
LEAST_PASS = 1e7  # ns, as estimated: threads start in every window


def in_rounds(
    choice: MethodChoice, problem: Problem, stats: ProblemStats, models: int, cores: int
) -> MethodChoice:
    """Return the choice, its first method in rounds where `cores` of them make that worth while."""
    first, others = choice.methods[0], choice.methods[1:]
    of_two = not (problem.loss.is_wide or problem.loss.takes_numbers)
    able = first.kind == DUAL and problem.penalty.is_smooth and of_two
    alone = models == 1 and stats.streams == 1
    long = stats.n >= LEAST_ROWS and dual_pass(stats) >= LEAST_PASS
    if not (able and alone and long and cores >= LEAST_CORES):
        return choice
    assert isinstance(first, BaseModel), "methods are settings"
    first = first.model_copy(update={"batch": "rounds"})
    reason = f"{choice.reason}; in rounds, which the {cores} cores of this machine share"
    return MethodChoice(methods=(first, *others), reason=reason)
