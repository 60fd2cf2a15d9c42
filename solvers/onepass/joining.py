"""The end of a pass: Newton's last rows, joining of streams, and the choice of a learner."""

from __future__ import annotations

import numpy as np

from fewpass.solvers.intercept import problem_from_level
from fewpass.solvers.losses import Problem
from fewpass.solvers.onepass.adagrad import G, U, W
from fewpass.solvers.onepass.onepass_state import OnepassState, pace_of, with_choice
from fewpass.solvers.onepass.streaming_newton import Proof, fitted, joined
from fewpass.solvers.protocol import ProblemStats
from fewpass.solvers.sgd.averaged_state import join_streams


def join(problem: Problem, stats: ProblemStats, states: list[OnepassState]) -> OnepassState:
    """Fit Newton to its last rows; average the learners of the streams, and choose.

    As in every step, scores count from the problem's level.
    """
    problem = problem_from_level(problem)
    states = [closed(problem, stats, s, several=len(states) > 1) for s in states]
    newton, proof = states[0].newton, Proof()
    if newton.used:
        newton, proof = joined(problem, [s.newton for s in states])
    one = together(problem, stats, states) if len(states) > 1 else states[0]
    return with_choice(problem, one._replace(newton=newton, proof=proof))


def together(problem: Problem, stats: ProblemStats, states: list[OnepassState]) -> OnepassState:
    """Average the learners' weights and losses over several streams."""
    first, columns = states[0], states[0].columns
    averages = [s.columns[:, W : W + 2] + s.columns[:, U : U + 2] / (s.mass or 1.0) for s in states]
    for part in (slice(W, W + 2), slice(G, G + 2)):
        columns[:, part] = np.mean([s.columns[:, part] for s in states], axis=0)
    columns[:, U : U + 2] = first.mass * (np.mean(averages, axis=0) - columns[:, W : W + 2])
    progressive = first.progressive._replace(
        sums=np.mean([s.progressive.sums for s in states], axis=0),
        mass_before=first.mass - float(np.mean([s.weight for s in states])),
    )
    exploded = max(s.sgd.monitor.diverged for s in states)
    sgd = join_streams(problem, stats, [s.sgd for s in states])
    sgd = sgd._replace(monitor=sgd.monitor._replace(diverged=exploded))
    return first._replace(progressive=progressive, sgd=sgd)


def closed(
    problem: Problem, stats: ProblemStats, state: OnepassState, *, several: bool
) -> OnepassState:
    """Return the state with Newton fitted to all rows, of all streams."""
    if not state.newton.used:
        return state
    horizon, closing = pace_of(stats, state).horizon, several or problem.loss.is_quadratic
    return state._replace(newton=fitted(problem, state.newton, horizon, closing=closing))
