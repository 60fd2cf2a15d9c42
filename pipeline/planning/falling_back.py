"""The rule by which the second method that was chosen goes on in place of the first."""

from __future__ import annotations

import math

from fewpass.pipeline.planning.method_choice import MethodChoice, passes_of
from fewpass.pipeline.planning.rate import Marks, left_passes, rate
from fewpass.pipeline.planning.row_costs import dual_pass, newton_pass
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats

FAR_BEHIND = 2.0  # times what is predicted to be left
PATIENCE = 2.0  # times what is predicted, before another method takes over


def far_behind(
    choice: MethodChoice,
    problem: Problem,
    stats: ProblemStats,
    tol: float,
    marks: Marks,
    most: float,
) -> str | None:
    """Say in a sentence why the second method should go on; None while it should not.

    It should when the last three passes brought so little that what is left, at that rate, is
    twice what was predicted and more than all that the other usually takes, which must be among the
    passes that may be made.  What gradients prove may stand still for long before it falls: so
    patience.  Where nothing was predicted, it should when what is left is more than may be made, or
    costs more than all of the other.
    """
    first, second = choice.methods
    if (gained := rate(marks)) is None:
        return None
    now, left = marks[-1], left_passes(marks, tol)
    whole, other = (passes_of(one, problem, stats, tol) for one in choice.methods)
    if now.passes < PATIENCE * (whole if math.isfinite(whole) else other) or other > most:
        return None
    if left is not None and math.isfinite(whole):
        so_far = passes_of(first, problem, stats, 10.0**-now.digits)
        if left < FAR_BEHIND * (whole - so_far) or left < 1.0 + other:
            return None
    elif (
        left is not None
        and left <= most - now.passes
        and (left * dual_pass(stats) <= other * newton_pass(stats))
    ):
        return None
    return (
        f"{first.kind} gained {gained:.2g} digits a pass in the last three passes, too few for the "
        f"{-math.log10(tol) - now.digits:.2g} that are missing; {second.kind} goes on from there."
    )
