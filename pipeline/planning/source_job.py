"""The job of a plan on a source that is read once, by its first rows: problem, method, memory."""

from __future__ import annotations

from copy import copy
from functools import partial

from fewpass.pipeline.budget import PROGRAM_BYTES, Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.planning.best_constant import levelled
from fewpass.pipeline.planning.default_memory import ROUND, most_by_default
from fewpass.pipeline.planning.ill_conditioned import Columns, ill_conditioned
from fewpass.pipeline.planning.job import solver_of
from fewpass.pipeline.planning.lam_path import with_lam_path
from fewpass.pipeline.planning.method_choice import (
    MethodChoice,
    MethodRequest,
    for_one_pass,
    method,
)
from fewpass.pipeline.planning.planned_problem import (
    sampled_sigma_square,
    stats_of,
    tasks_of,
)
from fewpass.pipeline.planning.problem import (
    problem_of,
    training_rule,
    with_loss_of_exposures,
)
from fewpass.pipeline.planning.special_methods import for_several_scores
from fewpass.pipeline.rows.from_source import OpenedSource, SourceRows
from fewpass.pipeline.rows.running_moments import moments_of
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.rows.units import advised_scaling, unlike_rows
from fewpass.pipeline.rows.windows import WindowPlan
from fewpass.pipeline.settings.method_kinds import Auto, Method
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.solvers.estimates.spectrum import MOST_ROWS
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ColumnMoments, ProblemStats, Solver
from fewpass.solvers.registry import (
    DUAL,
    ONE_LEARNER,
    SECOND_ORDER,
    SEVERAL_LEARNERS,
    method_class,
)

#: Of averaged SGD, where there is no memory for copies.
LEAST_BYTES_PER_COLUMN = 16 * Budget.in_place


#: Why no method is chosen: one pass with exact zeros has none (docs/decisions.md).
READ_AGAIN = (
    f"Weights that are exactly 0 take more than one reading: {SECOND_ORDER} and {DUAL} read rows "
    "again. Store them first (`fewpass ingest`) and train on the data set, or leave `penalty` out."
)


def choose_for_source(plan: TrainingPlan, source: OpenedSource) -> MethodChoice | None:
    """Choose the method of a plan that leaves it to us; None where it names one.

    Raises BadInput when plan and source do not fit.
    """
    if not isinstance(plan.solver, Auto):
        return None
    problem = SourceProblem(plan, source)
    if not problem.problem.penalty.is_smooth:
        raise BadInput(READ_AGAIN)

    def fits(method: Method) -> bool:
        return problem.buffer_bytes(problem.solver(method)) > 0

    models = len(tasks_of(plan, problem.rule, problem.stats))
    asked = MethodRequest(
        plan,
        problem.problem,
        problem.stats,
        fits,
        models=models,
        classes=problem.rule.n_classes,
        would_do=problem.memory_in_words,
    )
    choice = for_several_scores(asked) if asked.problem.loss.is_wide else for_one_pass(asked)
    growing = tuple(problem.growing(method, models) for method in choice.methods)
    return choice.model_copy(update={"methods": growing})


def planned_for_source(
    plan: TrainingPlan, source: OpenedSource
) -> tuple[TrainingPlan, MethodChoice | None]:
    """Return the plan with lam and memory as numbers, and the choice of its method.

    Several lam are tried by several learners alone, and where the memory has space for them.
    """
    plan = with_loss_of_exposures(plan, source.dataset.schema)
    tried, choice = _chosen(with_lam_path(plan, source.dataset.manifest), source)
    if choice is None or not plan.lam.is_auto or choice.methods[0].kind == SEVERAL_LEARNERS:
        return tried, choice
    return _chosen(plan.model_copy(update={"lam": Lam.of("1/n")}), source)


def _chosen(plan: TrainingPlan, source: OpenedSource) -> tuple[TrainingPlan, MethodChoice | None]:
    """Return the choice of a plan, and the plan with more memory where several learners take it.

    That is where none was given, as with stored rows; rows keep the memory that they had.
    """
    choice = choose_for_source(plan, source)
    if choice is None or choice.methods[0].kind == SEVERAL_LEARNERS:
        return plan, choice
    most = most_by_default(plan)
    if most <= plan.memory:
        return plan, choice
    wider = plan.model_copy(update={"memory": most})
    learners = choose_for_source(wider, source)
    if learners is None or learners.methods[0].kind != SEVERAL_LEARNERS:
        return plan, choice
    enough = SourceProblem(plan, source).memory_for(learners.methods[0])
    return plan.model_copy(update={"memory": min(enough, most)}), learners


def source_job(plan: TrainingPlan, source: OpenedSource) -> tuple[Job, Solver]:
    """Return the job of spans, and the plan's method; BadInput where these do not fit.

    The job's rows come once: its stream is to be closed.
    """
    planned = SourceProblem(plan, source)
    solver = planned.solver(plan.solver)  # type: ignore[arg-type]
    solver.init(planned.problem, planned.stats)  # refuses settings that do not fit
    buffer_bytes = require_buffers(planned, solver)
    sums = source.count_columns() if method_class(solver.kind).uses_moments else None
    rows = SourceRows(
        source, planned.rule, buffer_bytes, planned.stats.d,
        partial(planned.require_columns, solver), sums,
    )  # fmt: skip
    whole = WindowPlan(1, 1, 1, plan.seed)
    job = Job(
        source.dataset, planned.problem, planned.stats, planned.rule, whole, memory=plan.memory,
        source_rows=rows,
    )  # fmt: skip
    return job, solver


def source_warnings(plan: TrainingPlan, job: Job, source: OpenedSource) -> list[str]:
    """Say why one pass may not do, by the first rows."""
    rows = source.first.table
    columns = Columns(
        lambda: unlike_rows(rows), advised_scaling(source.dataset.manifest.layout), "Say"
    )
    return ill_conditioned(job.problem, job.stats, plan.solver.kind, 1, columns)


class SourceProblem:
    """The problem of a plan on a source, by its first rows, and memory for it."""

    def __init__(self, plan: TrainingPlan, source: OpenedSource) -> None:
        self.plan, self._source, dataset = plan, source, source.dataset
        manifest = dataset.manifest
        return_freed_memory(plan.memory)
        self.problem: Problem = problem_of(plan, manifest)
        self.rule: TargetRule = training_rule(plan, manifest, self.problem.loss)
        self._require_memory(manifest.n_features)
        self.problem, _ = levelled(self.problem, self.rule, dataset, dataset.sample(MOST_ROWS))
        sampled = sampled_sigma_square(dataset, self.rule)
        stats = stats_of(manifest, self.rule, self.problem, seed=plan.seed, sigma_square=sampled)
        self.stats: ProblemStats = stats._replace(columns=self._moments, d=source.likely_columns)

    def _require_memory(self, d: int) -> None:
        """Refuse columns that fit no method, before the first array of them is made."""
        least = LEAST_BYTES_PER_COLUMN * d + PROGRAM_BYTES
        if least >= self.plan.memory:
            raise BadInput(
                f"A memory budget of {format_bytes(self.plan.memory)} is too small for {d:,} "
                f"columns: asgd, which keeps least, takes {LEAST_BYTES_PER_COLUMN} bytes of each. "
                f"Use more than `memory={-(-least // 10**6)}MB`, or fewer columns."
            )

    def _moments(self) -> ColumnMoments:
        """Return the moments of the columns of the first rows, which steps begin with."""
        return moments_of(self._source.count_columns(), self._source.first.position.rows)

    def solver(self, method: Method) -> Solver:
        """Return a method for as many models as there are classes and values of lam."""
        plan = self.plan.model_copy(update={"solver": method})
        return solver_of(plan, self.rule, self.stats)

    def growing(self, method: Method, models: int) -> Method:
        """Return a method that can do with more columns, where nobody knows how many will come."""
        grows: Method = method
        if self._source.may_grow:
            grows = method.for_more_columns(self.problem, self.stats, models, self._fits_with)  # type: ignore[attr-defined]
        return grows

    def _fits_with(self, method: Method, d: int) -> bool:
        """Say whether a buffer is left next to a method's states of d columns."""
        wider = copy(self)
        wider.stats = self.stats._replace(d=d)
        return wider.buffer_bytes(wider.solver(method)) > 0

    def memory_for(self, learner: Method) -> int:
        """Return the memory that leaves a method's rows what averaged SGD's would have.

        What is reserved for pieces and held-out rows is a share of it.
        """
        least, wanted = (self.taken(self.solver(one)) for one in (method(ONE_LEARNER), learner))
        reserved = self._source.reserved_bytes
        others = max(self.plan.memory - least, 0)
        share = 1.0 - min(0.5, reserved / self.plan.memory)
        return -(-int((wanted - reserved + others) / share) // ROUND) * ROUND

    def memory_in_words(self, method: Method) -> str:
        """Say which memory would do."""
        return f": `memory={self.memory_for(method) // ROUND}MB` would do"

    def buffer_bytes(self, solver: Solver) -> int:
        """Return the bytes of rows that a buffer may have; below 1 where none fits."""
        return (self.plan.memory - self.taken(solver)) // Budget.buffers

    def taken(self, solver: Solver) -> int:
        """Return the bytes that a method's states and all but the buffers take.

        Where copies do not fit of a state from which weights are read by column, and nobody asks
        for it at the end, it is reckoned without.
        """
        states = Budget.in_place if self.in_place(solver) else _copies(solver)
        return self._taken_with(states, solver)

    def in_place(self, solver: Solver) -> bool:
        """Say whether a method's one state is stepped as it is, and never copied."""
        if not solver.by_column or self.plan.calibrate:
            return False
        return self._taken_with(_copies(solver), solver) >= self.plan.memory

    def _taken_with(self, states: int, solver: Solver) -> int:
        """Return the same for a number of states at once."""
        taken = states * solver.state_bytes(self.problem, self.stats)
        if method_class(solver.kind).uses_moments:
            taken += Budget.sums * self.stats.d * 16
        return taken + self._source.reserved_bytes + PROGRAM_BYTES

    def require_columns(self, solver: Solver, d: int) -> None:
        """Count on states of d columns from now on; BadInput where they do not fit."""
        self.stats = self.stats._replace(d=d)
        taken = self.taken(solver)
        if taken > self.plan.memory:
            raise BadInput(
                f"The rows have more columns by now than fit: for {d:,} of them "
                f"{self.plan.solver.kind} takes {format_bytes(taken)} of memory. Use "
                f"`memory={-(-taken // 10**6) + 100}MB` or more, or `solver=asgd`."
            )


def _copies(solver: Solver) -> int:
    """Return how many states of a method are there at a time."""
    return min(Budget.source_states, Budget.states + solver.spare_copies)


def require_buffers(planned: SourceProblem, solver: Solver) -> int:
    """Return the bytes of rows that a buffer may have; BadInput where none fits."""
    size, plan = planned.buffer_bytes(solver), planned.plan
    if size < 1:
        needed = plan.memory - Budget.buffers * (size - (1 << 20))
        raise BadInput(
            f"A memory budget of {format_bytes(plan.memory)} is too small for {plan.solver.kind} "
            f"on {planned.stats.d:,} columns. Use `memory={-(-needed // 10**6)}MB` or more, or "
            "another `solver`."
        )
    return size
