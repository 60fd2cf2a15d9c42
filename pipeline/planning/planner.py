"""Plans trainings on one data set; caches each method and memory.

problem     loss, lam, rows in numbers: once
choice      of a method, where the plan leaves it open: once for each memory
job         of a named method: once for each method and memory
"""

from __future__ import annotations

from functools import cached_property, partial

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.planning.auto import choose
from fewpass.pipeline.planning.clustering import clustering_warning
from fewpass.pipeline.planning.in_rounds import in_rounds
from fewpass.pipeline.planning.in_streams import ASCENT, because, goes_in_streams, streams_for
from fewpass.pipeline.planning.job import halves, is_distributed, is_grouped, make_job
from fewpass.pipeline.planning.method_choice import MethodChoice, MethodRequest, method, smallest
from fewpass.pipeline.planning.planned_problem import PlannedProblem
from fewpass.pipeline.settings.method_kinds import Auto, Method
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.storage.dataset import Dataset

OPEN = Auto()  # the method that is chosen


class Planner:
    """Works out what a plan means on a data set, and remembers it.

    Parameters
    ----------
    plan
        What is asked for. Its memory is a proposal: whoever asks names one.
    dataset
        What is trained on.
    distributed
        Whether workers have the streams, and each has the memory to itself.
    cores
        Of this machine, which may share the steps of a method that `auto` chooses.
    remark
        What is added to the reason of a choice, and is that of a method that the plan names.
    """

    def __init__(
        self, plan: TrainingPlan, dataset: Dataset, *, distributed: bool = False, cores: int = 1,
        remark: str = "",
    ) -> None:  # fmt: skip
        self.plan, self.dataset = plan, dataset
        self.distributed, self._cores, self._remark = distributed, cores, remark
        self._choices: dict[int, MethodChoice] = {}
        self._jobs: dict[tuple[Method, int], Job | BadInput] = {}

    @cached_property
    def problem(self) -> PlannedProblem:
        """The problem, whatever the method; BadInput when loss and targets do not fit."""
        return PlannedProblem.of(self.plan, self.dataset)

    def choice(self, memory: int) -> MethodChoice | None:
        """Choose a method within so much memory; None where the plan names one."""
        if not isinstance(self.plan.solver, Auto):
            own, reason = self.plan.solver, self._remark
            return MethodChoice(methods=(own,), reason=reason) if reason else None
        if memory not in self._choices:
            self._choices[memory] = self._chosen(memory)
        return self._choices[memory]

    def method(self, memory: int) -> Method:
        """Return the method that a training begins with, within so much memory."""
        choice, solver = self.choice(memory), self.plan.solver
        if choice:
            return choice.methods[0]
        assert not isinstance(solver, Auto), "a choice was made"
        return solver

    def named(self, memory: int, method: Method | Auto = OPEN) -> TrainingPlan:
        """Return the plan with so much memory and its method named."""
        method = self.method(memory) if isinstance(method, Auto) else method
        named = self.plan.named(method)
        return named.model_copy(update={"memory": memory})

    def job(self, memory: int, method: Method | Auto = OPEN) -> Job:
        """Return the job of a method, by default of the one that a training begins with.

        Raises
        ------
        BadInput
            When plan and data set do not fit: loss and targets, streams and chunks, memory.
        """
        method = self.method(memory) if isinstance(method, Auto) else method
        if (method, memory) not in self._jobs:
            self._jobs[method, memory] = self._made(memory, method)
        job = self._jobs[method, memory]
        if isinstance(job, BadInput):
            raise job
        return job

    def for_workers(self, workers: int, memory: int) -> Planner:
        """Return a planner with a stream for each of some worker processes, where that pays."""
        method, is_open = self.method(memory), isinstance(self.plan.solver, Auto)
        if method.kind not in ASCENT or not (is_open or goes_in_streams(method)):
            return self
        streams = streams_for(self.dataset.manifest, workers)
        for fewer in (streams, *halves(streams)):
            asked = self.plan.model_copy(update={"streams": fewer})
            remark = because(fewer, workers) if fewer > 1 or is_open else ""
            wider = Planner(
                asked, self.dataset, distributed=self.distributed, cores=self._cores, remark=remark
            )
            if fewer == streams == 1 or (fewer > 1 and wider.fits(memory)):
                return wider
        return self

    def fits(self, memory: int, method: Method | Auto = OPEN, *, in_groups: bool = False) -> bool:
        """Say whether a method fits into so much memory: all classes at once, or in groups."""
        try:
            job = self.job(memory, method)
        except BadInput:
            return False
        return not is_distributed(job) and (in_groups or not is_grouped(job))

    def _made(self, memory: int, method: Method) -> Job | BadInput:
        try:
            return make_job(self.named(memory, method), self.problem, distributed=self.distributed)
        except BadInput as refused:
            return refused

    def _chosen(self, memory: int) -> MethodChoice:
        least, fits = method(smallest(self.problem.problem)), partial(self.fits, memory)
        small = self.job(memory, least)
        asked = MethodRequest(
            self.plan,
            small.problem,
            small.stats,
            fits,
            fits_in_groups=partial(fits, in_groups=True),
            sorted_rows=clustering_warning(self.dataset.manifest, small.windows) is not None,
            resident=small.resident,
            models=small.all_models,
            classes=self.problem.rule.n_classes,
        )
        choice = choose(asked)
        shared = in_rounds(choice, small.problem, small.stats, small.all_models, self._cores)
        choice = shared if shared is choice or fits(shared.methods[0]) else choice
        if not self._remark:
            return choice
        return choice.model_copy(update={"reason": f"{choice.reason}; {self._remark}"})
