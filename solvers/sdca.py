"""Stochastic dual coordinate ascent: one dual variable per row, each step the best for its row.

    for each row i:
        p      <- w . x_i
        delta  <- argmax over delta of D(a + delta e_i)     losses.py: dual_step, with curvature
                                                            weight_i ||x_i||^2 / (lam n)
        a_i    <- a_i + delta
        w      <- w + weight_i delta s_i x_i / (lam n)

There is no step size, and the dual objective D never falls.  Two vectors stand side by side: the
weights w_t that the pass began with, and the running ones.  Every 16th pass adds up w(a) afresh
from the rows' new dual variables, which replaces the running ones at the end of the pass, so that
rounding never piles up.  A row's prediction by w_t, taken with that by the running weights,
certifies w_t by the end of the pass without any reading of its own (duality.py).

Several streams take steps of their own, each as if the others moved the weights `stretch` - 1
times as far the same way; what they found is added up, shortened where it was too much (`combine`).

Sources: Takac, Bijral, Richtarik and Srebro 2013, (14); Ma et al. 2015 for the streams.
docs/methods.md, section 7.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from solvers.dual_start import SLOPES_AS_DUALS, begin_at_duals
from solvers.duality import (
    GAP,
    GapPart,
    constant_column,
    per_row,
)
from solvers.losses import Problem
from solvers.protocol import (
    Abreast,
    Block,
    Certificate,
    Facts,
    Gather,
    Settings,
    Walk,
    Weights,
    array_bytes,
)
from solvers.revisits import Stepping, revisit
from solvers.rows import side_by_side
from solvers.sdca_abreast import walk_abreast
from solvers.sdca_batches import Batch, curvatures, visit_batches
from solvers.sdca_state import (
    RUNNING,
    START,
    SdcaState,
    count_rows,
    newest_point,
    none_refreshing,
    prove,
    prove_newest,
    read_column,
    running_gap,
)
from solvers.sdca_steps import visit_rows
from solvers.sdca_streams import Combine, add_moves


class Sdca(Settings):
    """Dual coordinate ascent: no step size, any loss, and a certificate that costs no pass."""

    kind: Literal["sdca"] = "sdca"
    batch: Batch = "serial"
    """Rows one by one, or in mini-batches whose steps are as they come (naive: it may diverge),
    short enough on average by the rows' spectral norm (safe) or by their columns' counts (sparse),
    or measured (aggressive)."""
    batch_size: PositiveInt = 16
    """Rows of a mini-batch."""
    combine: Combine = "damped"
    """What becomes of several streams' moves: added, shortened where that was too much; averaged;
    or added after steps so short that it never is."""
    revisits: NonNegativeInt = 0
    """How often the rows of a window that moved are visited again at most, while they are in
    memory: fewer passes for more arithmetic. 100 is a good number for the hinge."""

    @property
    def states(self) -> tuple[type, ...]:
        """One type throughout."""
        return (SdcaState,)

    @property
    def audit(self) -> Gather:
        """The duality gap of the newest weights."""
        return Gather(GAP, newest_point, prove_newest)

    def row_numbers(self, facts: Facts) -> int:
        """The dual variable; of several streams, what it was and how it moved."""
        return 1 if facts.streams == 1 else 2

    def init(self, problem: Problem, facts: Facts) -> SdcaState:
        """Return zero weights, from zero dual variables; ValueError for batches visited again."""
        if self.revisits and self.batch != "serial":
            raise ValueError(
                f"Rows are visited again one by one, not in {self.batch} batches. Leave "
                "solver.revisits out, or solver.batch."
            )
        return SdcaState(
            W=side_by_side(facts.rows_kind, facts.d + 1, 2), fresh=np.zeros(facts.d + 1),
            proven=np.zeros(facts.d), proven_b=0.0, objective=0.0, gap=0.0, certified=False,
            shares=np.ones(self.row_numbers(facts)),
            beta=0.0, stretch=1.0 if self.combine == "average" else float(facts.streams),
            unit=constant_column(problem, facts).unit, offset=0.0, rows=0, passes=0,
            loss_start=0.0, gap_start=0.0, gap_running=0.0, loss_sum=0.0, heard=0, visits=0,
            revisits=0, row_version=-1,
        )  # fmt: skip

    @property
    def opening(self) -> Gather:
        """The dual variables that given weights stand for."""
        return Gather(SLOPES_AS_DUALS, partial(read_column, column=START), begin_at_duals)

    def start_at(
        self,
        problem: Problem,
        facts: Facts,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> SdcaState:
        """Return given weights; the opening finds dual variables for them."""
        state = self.init(problem, facts)
        state.W[:-1, START] = weights.coef
        return state._replace(offset=weights.intercept)

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what four vectors take."""
        return array_bytes(self.init(problem, facts))

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """One walk an epoch; the first may take the rows as they lie."""
        return (
            Walk(
                name=f"walk-{self.kind}",
                step=self.step_rows,
                join=self.end_pass,
                order="stored" if epoch == 0 else "random",
                metrics=running_gap,
                row_state="update",
                abreast=Abreast(none_refreshing, self.step_abreast) if self._is_plain() else None,
            ),
        )

    def weights(self, state: SdcaState) -> Weights:
        """Return the best certified weights; before there are any, the running ones."""
        if state.certified:
            return Weights(state.proven, state.proven_b)
        return read_column(state, RUNNING)

    def certificate(self, state: SdcaState) -> Certificate | None:
        """Return what the passes so far proved: nothing before the second."""
        return Certificate(state.objective, state.gap) if state.certified else None

    def step_rows(
        self, problem: Problem, facts: Facts, state: SdcaState, block: Block
    ) -> SdcaState:
        """Visit the rows of one block."""
        column = constant_column(problem, facts).value
        inputs = (
            state.W, state.W[:, RUNNING:], state.fresh, problem, column, state.offset,
            1.0 / (problem.lam * facts.n), state.stretch, float(state.refreshing), state.shares,
            *block[:4], per_row(block),
        )  # fmt: skip
        if self.batch == "serial":
            kept = per_row(block)
            before = state.shares[0] * kept[:, 0]
            state = count_rows(state, block.order.shape[0], *visit_rows(*inputs))
            key = [facts.seed, state.passes, state.rows]
            how = Stepping(*inputs[1:9])
            most = self.revisits if state.passes else 0  # from zero nearly all rows move at first
            more = revisit(how, block, kept, before, most, key) if most else 0
            return state._replace(revisits=state.revisits + more)
        known = curvatures(block, facts.d, column, self.batch, self.batch_size)
        scratch = np.zeros(facts.d + 1)
        beta, *sums = visit_batches(*inputs, self.batch_size, known, state.beta, scratch)
        return count_rows(state._replace(beta=beta), block.order.shape[0], *sums)

    def _is_plain(self) -> bool:
        """Say whether every row is visited once and by itself."""
        return self.batch == "serial" and self.revisits == 0

    def step_abreast(
        self,
        problems: list[Problem],
        facts: Facts,
        models: list[SdcaState],
        W: NDArray[np.float64],
        block: Block,
        labels: list[int],
        places: tuple[int, ...],
    ) -> list[SdcaState]:
        """Visit the rows of one block with several models, see protocol.py: Abreast."""
        numbers = [
            (
                constant_column(problem, facts).value,
                problem.intercept * state.offset,
                1.0 / (problem.lam * facts.n),
                state.stretch,
            )
            for problem, state in zip(problems, models, strict=True)
        ]
        shares = np.array([state.shares for state in models])
        sums = walk_abreast(
            problems[0].loss, numbers, shares, labels, places, W, block, per_row(block)
        )
        each, rows = zip(models, sums, strict=True), block.order.shape[0]
        return [count_rows(state, rows, *own) for state, own in each]

    def end_pass(self, problem: Problem, facts: Facts, states: list[SdcaState]) -> SdcaState:
        """Add up what the streams found, and begin the next pass from there.

        In the middle of a pass the result has the weights so far, to be looked at only.
        """
        state = states[0] if len(states) == 1 else add_moves(states, self.combine)
        if state.rows < facts.n:
            return state
        if state.passes > 0:
            total = GapPart(state.loss_start, state.gap_start, state.rows)
            state = prove(problem, facts, state, total)
        if state.refreshing:
            state.W[:, RUNNING] = state.fresh
            state.fresh[:] = 0.0
        state.W[:, START] = state.W[:, RUNNING]
        centre = read_column(state, START).intercept
        return state._replace(
            offset=constant_column(problem, facts).kept * centre,
            shares=state.shares if len(states) > 1 else np.ones(1),
            rows=0, passes=state.passes + 1, visits=state.visits + state.rows + state.revisits,
            revisits=0, loss_start=0.0, gap_start=0.0, gap_running=0.0,
        )  # fmt: skip
