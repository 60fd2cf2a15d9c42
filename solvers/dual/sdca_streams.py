"""What several streams of SDCA found, added up.

Each took steps as if the others moved the weights `stretch` - 1 times as far the same way.
All moves are added, and shortened where that was too much.

Source: Ma et al. 2015, "Adding vs. Averaging in Distributed Primal-Dual Optimization"; the damping
is docs/methods.md, section 7.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.sdca_state import RUNNING, SdcaState
from fewpass.solvers.protocol import add_parts

MARGIN = 1.1  # how much more alike than in the last pass streams may be


def add_moves(
    states: list[SdcaState],
    begin: NDArray[np.float64],
    duals: NDArray[np.float64],
    charge: NDArray[np.float64] | float = 1.0,
) -> SdcaState:
    """Add the streams' moves; where D might fall, only a share of what they add up to.

    Dual variables move by the same share: the next pass reads them so (`shares`).  The streams
    began with the weights `begin` (d + 1,), where w(a) was `duals` (d + 1,).  `charge` is what the
    square of a move counts in each column, where columns are not charged alike.
    """
    state = states[0]
    moves = np.zeros(begin.shape)
    squares = 0.0
    for s in states:
        move = (s.W[:, RUNNING] - begin) / s.stretch
        moves += move
        squares += float(move.ravel() @ (charge * move).ravel())
    alike = float(moves.ravel() @ (charge * moves).ravel()) / squares if squares else 1.0
    share, stretch = share_of(state.stretch, alike, len(states))
    state.W[:, RUNNING] = begin + share * moves
    if state.adding:
        fresh = np.sum([s.fresh for s in states], axis=0)
        state.fresh[:] = (1.0 - share) * duals + share * fresh
    sums = reduce(add_parts, (s.sums for s in states))
    return state._replace(shares=np.array([1.0, share]), stretch=stretch, sums=sums)


def share_of(stretch: float, alike: float, streams: int) -> tuple[float, float]:
    """Return how much of the streams' moves to take, and the next pass's stretch.

    By concavity D does not fall while share * alike <= stretch.
    """
    share = min(1.0, stretch / alike)
    wanted = MARGIN * alike
    longer = wanted if share < 1.0 else math.sqrt(stretch * wanted)
    return share, min(max(longer, 1.0), float(streams))
