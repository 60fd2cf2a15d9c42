"""What a plan means on a source, by its first rows: problem, method, memory."""

from __future__ import annotations

from fewpass.pipeline.budget import PROGRAM_BYTES, Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.rows.targets import TargetRule, target_rule
from fewpass.pipeline.settings.methods import Auto, Method
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.straight.first_rows import FirstRows, room_for_judges
from fewpass.pipeline.straight.moments import moments_of
from fewpass.pipeline.training.planning.auto import MethodChoice, for_one_pass
from fewpass.pipeline.training.planning.job import solver_of
from fewpass.pipeline.training.planning.planned_problem import (
    sampled_sigma_square,
    stats_of,
    tasks_of,
)
from fewpass.pipeline.training.planning.problem import problem_of
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ColumnMoments, ProblemStats, Solver
from fewpass.solvers.registry import method_class

LEAST_BYTES_PER_COLUMN = 16 * Budget.in_place  # of averaged SGD, where copies do not fit


def choose_straight(plan: TrainingPlan, first: FirstRows) -> MethodChoice | None:
    """Choose the method of a plan that leaves it to us; None where it names one.

    Raises BadInput when plan and source do not fit.
    """
    if not isinstance(plan.solver, Auto):
        return None
    known = Known(plan, first)

    def fits(method: Method) -> bool:
        return known.room(known.solver(method)) > 0

    choice = for_one_pass("one pass", known.stats, fits, len(tasks_of(plan, known.rule, known.n)))
    return choice.model_copy(
        update={"methods": tuple(as_grows(m, known, first) for m in choice.methods)}
    )


def as_grows(method: Method, known: Known, first: FirstRows) -> Method:
    """Return a method that can do with more columns, where nobody knows how many will come."""
    grows: Method = method
    if first.open_end:
        grows = method.for_more_columns(known.problem, known.stats)  # type: ignore[attr-defined]
    return grows


class Known:
    """What a plan means on a source, by its first rows."""

    def __init__(self, plan: TrainingPlan, first: FirstRows) -> None:
        self.plan, dataset = plan, first.dataset
        manifest, self.n = dataset.manifest, dataset.manifest.n_rows
        return_freed_memory(plan.memory)
        self.problem: Problem = problem_of(plan, manifest)
        self.rule: TargetRule = target_rule(
            manifest, self.problem.loss, plan.positive, plan.class_weight
        )
        self._require_room(manifest.n_features)
        sampled = sampled_sigma_square(dataset, self.rule)
        stats = stats_of(manifest, self.rule, seed=plan.seed, sigma_square=sampled)
        self._first = first
        self.stats: ProblemStats = stats._replace(columns=self._moments, d=first.room_for)

    def _require_room(self, d: int) -> None:
        """Refuse columns that no method has room for, before the first array of them is made."""
        least = LEAST_BYTES_PER_COLUMN * d + PROGRAM_BYTES
        if least >= self.plan.memory:
            raise BadInput(
                f"A memory budget of {format_bytes(self.plan.memory)} is too small for {d:,} "
                f"columns: asgd, which keeps least, takes {LEAST_BYTES_PER_COLUMN} bytes of each. "
                f"Use more than `memory={-(-least // 10**6)}MB`, or fewer columns."
            )

    def _moments(self) -> ColumnMoments:
        """Return the moments of the columns of the first rows: what steps begin with."""
        return moments_of(self._first.count_columns(), self._first.first.rows)

    def solver(self, method: Method) -> Solver:
        """Return a method for as many models as there are classes and values of lam."""
        plan = self.plan.model_copy(update={"solver": method})
        return solver_of(plan, self.rule, self.n)

    def room(self, solver: Solver) -> int:
        """Return the bytes of rows that a buffer may have; below 1 where there is no room."""
        return (self.plan.memory - self.taken(solver)) // Budget.buffers

    def taken(self, solver: Solver) -> int:
        """Return the bytes that a method's states and all but the buffers take.

        Where there is no room for copies of a state from which weights are read by column, and
        nobody asks for it at the end, it is reckoned without.
        """
        states = Budget.in_place if self.in_place(solver) else Budget.source_states
        return self._taken_with(states, solver)

    def in_place(self, solver: Solver) -> bool:
        """Say whether a method's one state is stepped as it is, and never copied."""
        if not solver.by_column or self.plan.calibrate:
            return False
        return self._taken_with(Budget.source_states, solver) >= self.plan.memory

    def _taken_with(self, states: int, solver: Solver) -> int:
        """Return the same for so many states at once."""
        taken = states * solver.state_bytes(self.problem, self.stats)
        if method_class(solver.kind).uses_moments:
            taken += Budget.sums * self.stats.d * 16
        return taken + room_for_judges(self.plan) + self._first.raw.n_bytes + PROGRAM_BYTES


def require_room(known: Known, solver: Solver) -> int:
    """Return the bytes of rows that a buffer may have; BadInput where there is no room for any."""
    room, plan = known.room(solver), known.plan
    if room < 1:
        needed = plan.memory - Budget.buffers * (room - (1 << 20))
        raise BadInput(
            f"A memory budget of {format_bytes(plan.memory)} is too small for {plan.solver.kind} "
            f"on {known.stats.d:,} columns. Use `memory={-(-needed // 10**6)}MB` or more, or "
            "another `solver`."
        )
    return room
