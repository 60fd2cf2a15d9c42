"""Whether the proximal centre of `psdca` pulls some columns more than others.

Word counts have a few values that are far larger than the others, most of them in frequent columns,
and one weight of the centre for all columns goes by these.  With h_j it is (r - 1) lam h_j in
column j.  On some texts that halves the passes, on others it takes four times as many, and nothing
that ingest measures tells which.  So it is tried: all columns are pulled alike until r would become
`FROM_R`, then apart, and alike for good, with r as it was before, once three passes apart left more
of the gap than the last three alike had.

Source: docs/methods.md, section 7.10.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import constant_column
from fewpass.solvers.dual.sdca_state import ALIKE, BACK, EMPTY, TRIED, UNBOUNDED, Pull, Ways
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats

LONG = 50.0  # square of the longest row over the mean, from which on it is tried
MANY = 1000  # columns, likewise; up to there `newton` is at hand
FROM_R = 3  # r = 2 comes by chance, and most problems need no more
POWER = 2.0 / 3.0  # of a column's mean square, in h


def pulls(problem: Problem, stats: ProblemStats) -> NDArray[np.float64]:
    """Return h: m_j^(2/3) for the mean square m_j of column j, constant column included.

    It is scaled so that sum m_j / h_j = sum m_j: a typical row's ||x||^2 / reg falls with r as it
    does where h_j = 1 everywhere.  Where nothing is known of columns h is empty: all are alike.
    """
    if stats.columns is None:
        return EMPTY
    moments = stats.columns()
    m = np.append(moments.share * moments.square, constant_column(problem, stats).value ** 2)
    with np.errstate(over="ignore", invalid="ignore"):
        h = np.where(m > 0.0, m, 1.0) ** POWER
        h *= float((m / h).sum()) / float(m.sum() or 1.0)
    return h if np.isfinite(h).all() and h.all() else EMPTY


def after_a_pass(before: Pull, pull: Pull) -> Pull:
    """Return how columns are pulled next; `before` is what the pass was made with."""
    ways, gap = pull.ways, min(UNBOUNDED, pull.lowest - pull.highest)
    complete = 0.0 < ways.third < UNBOUNDED
    left = gap / ways.third if complete else 1.0
    if complete and ways.way == ALIKE and pull.r >= FROM_R:
        ways = Ways(TRIED, before.r, left, first=gap)
        return pull._replace(ways=ways, r=max(2, before.r))
    if complete and ways.way == TRIED and left > ways.left:
        return pull._replace(ways=Ways(BACK), r=ways.r)
    return pull._replace(ways=ways._replace(first=gap, second=ways.first, third=ways.second))
