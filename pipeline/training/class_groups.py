"""Classes in groups, one after the other, where the states of all do not fit into the memory.

    for each group of classes
        train it as if there were no others, in passes of its own
    stack the weights, and what is proven of each

How many classes go together is the plan's (`planning/job.py`), and so are the bits.
A snapshot holds the weights of all classes that are trained, and the states of the group at work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fewpass.pipeline.rows.resident import let_go
from fewpass.pipeline.runs.checkpoints import Checkpoints, Keeper
from fewpass.pipeline.runs.engine import Training
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.model import stored_weights
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.saved import Content, GroupDone, Saved, unfit
from fewpass.pipeline.scoring.calibrating import calibrate
from fewpass.pipeline.scoring.choosing_lam import AsRead, choose_lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.passes import Passes
from fewpass.pipeline.training.planning.forecast import Forecast
from fewpass.pipeline.training.planning.job import groups_of
from fewpass.solvers.losses import Problem
from fewpass.solvers.multi_model import jointly
from fewpass.solvers.protocol import Certificate, ProblemStats, Weights, same
from fewpass.storage.dataset import Dataset
from fewpass.storage.snapshot import Snapshot


class ClassGroups:
    """An engine that has one of passes for every group; see `engine.Engine`."""

    least_wait = 0.0

    def __init__(self, training: Training) -> None:
        self._training = training
        plan, methods = training.plan, training.methods
        method = methods.methods[0] if methods else plan.solver
        job = training.planner.job(plan.memory, method)
        classes = job.rule.n_classes
        self._groups = groups_of(job)
        self._done: list[GroupDone] = []
        self._coef, self._intercept = np.zeros((classes, job.stats.d)), np.zeros(classes)
        self._take_group(0)

    def _take_group(self, number: int) -> None:
        """Work with passes over one group's models; rows to judge by are for the end of all."""
        self._own = _GroupCheckpoints(self._training.checkpoints, self)
        alone = self._training.plan.model_copy(update={"held_out": None, "calibrate": None})
        training = replace(self._training, plan=alone, checkpoints=self._own)
        before = sum(done.passes for done in self._done)
        self._passes = Passes(training, number, before)
        self._number = number

    @property
    def plan(self) -> TrainingPlan:
        """As asked for, with the method that is at work."""
        return self._training.plan.model_copy(update={"solver": self._passes.plan.solver})

    @property
    def problem(self) -> Problem:
        """Loss, lam and intercept."""
        return self._passes.problem

    @property
    def stats(self) -> ProblemStats:
        """The data in numbers."""
        return self._passes.stats

    @property
    def classes(self) -> int | None:
        """How many classes have a model of their own."""
        return self._passes.classes

    @property
    def forecast(self) -> Forecast | None:
        """What the training is going to take, all groups together."""
        return self._passes.forecast

    @property
    def warnings(self) -> list[str]:
        """Why the training may not come to its end, in sentences."""
        return self._passes.warnings

    # -- one group after the other ---------------------------------------------------------------

    def begin(self) -> None:
        """Take the first state of the first group."""
        self._passes.begin()

    def restore(self, snapshot: Snapshot, saved: Saved) -> None:
        """Take the states of another session, and the weights of the groups before."""
        self._done = list(saved.groups)
        if len(self._done) > len(self._groups) or (len(self._done) == len(self._groups)) != (
            saved.finished
        ):
            raise unfit(snapshot, f"{len(self._done)} of {len(self._groups)} groups are trained")
        number = min(len(self._done), len(self._groups) - 1)
        self._take_group(number)
        self._own.newest = saved.without_weights()
        self._passes.restore(snapshot, saved)
        self._coef[:], self._intercept[:] = saved.weights.coef, saved.weights.intercept

    def go_on(self) -> Iterator[Event]:
        """Train group after group, until the last snapshot is taken or the run is to stop."""
        while not self._training.checkpoints.finished:
            yield from self._passes.go_on()
            if not self._own.finished or self._training.checkpoints.finished:
                return
            self._training.progress.advance(
                epoch=0, sweep=0, windows=(), rows_in_sweep=0, method=0, marks=()
            )
            self._take_group(self._number + 1)
            self._passes.begin()

    def rest(self) -> Iterator[Event]:
        """Take a snapshot of where the group at work stands."""
        yield from self._passes.rest()

    def end_group(self, content: Content) -> Event:
        """Keep what a group came to; take the last snapshot after the last one."""
        passes = self._training.progress.cursor.passes - sum(done.passes for done in self._done)
        self._keep(content.weights)
        self._done.append(GroupDone(content.certified, passes))
        if len(self._done) == len(self._groups):
            return self._training.checkpoints.save(self, finished=True)
        own = self._groups[self._number]
        return self._training.progress.event(
            "group", first=own.start, classes=len(own), of=len(self._coef),
            gap=content.certified.gap if content.certified else None,
        )  # fmt: skip

    def _keep(self, weights: Weights) -> None:
        own = self._groups[self._number]
        self._coef[own.start : own.stop] = weights.coef
        self._intercept[own.start : own.stop] = weights.intercept

    # -- what is kept ----------------------------------------------------------------------------

    @property
    def keeps_on_disk(self) -> bool:
        """Whether every sweep may leave numbers per row on disk."""
        return self._passes.keeps_on_disk

    def go_on_from(self, saved: Saved) -> None:
        """Take the states that a snapshot holds."""
        self._passes.go_on_from(saved)

    def content(self, certified: Certificate | None, *, finished: bool) -> Content:
        """Return the states of the group at work, and the weights of all classes."""
        content = self._passes.content(certified, finished=finished)
        self._keep(content.weights)
        weights = Weights(self._coef.copy(), self._intercept.copy())
        content = content._replace(weights=weights, certified=None, groups=tuple(self._done))
        return self._judged(content) if finished else content

    def _judged(self, content: Content) -> Content:
        """Add what is proven of all classes, and what held-out rows say of them."""
        training, plan = self._training, self._training.plan
        content = content._replace(certified=self._certified())
        if plan.held_out is None:
            return content
        training.executor.everywhere(let_go)  # other rows are read, within the same budget
        judges = training.judges or Dataset.open(plan.held_out, training.storage_options)
        record, executor = training.run.record(), training.executor
        stored = stored_weights(content.weights, training.dataset)
        content = content._replace(
            choice=choose_lam(
                record, training.dataset, judges, AsRead(), (self.problem.lam,),
                executor.submit_small("weights", same, stored), content.certified, executor,
            )
        )  # fmt: skip
        if plan.calibrate is None:
            return content
        learnt = calibrate(record, judges, content.weights, plan.calibrate, executor)
        return content._replace(calibration=learnt)

    def _certified(self) -> Certificate | None:
        """Put together what is proven of every class; None where something is missing."""
        found = [done.certificate for done in self._done]
        each = [
            Certificate(objective, gap) for one in found if one for objective, gap in one.models
        ]
        return jointly([*each]) if all(found) else None

    def result(self, shared: dict[str, Any]) -> TrainingResult:
        """Return what came out."""
        return TrainingResult(**shared)


class _GroupCheckpoints(Checkpoints):
    """What a group's passes take for the run's: the snapshot that they end with is no last one."""

    def __init__(self, whole: Checkpoints, groups: ClassGroups) -> None:
        self.newest: Saved | None = None  # of this group
        self._whole, self._groups, self._over = whole, groups, False

    @property
    def finished(self) -> bool:
        """Whether the group has come to its end."""
        return self._over

    @property
    def is_current(self) -> bool:
        """Whether the newest snapshot is of where the training stands."""
        return self._over or self._whole.is_current

    def is_due(self, _keeper: Keeper) -> bool:
        """Whether it is time for a snapshot."""
        return self._whole.is_due(self._groups)

    def save(
        self, keeper: Keeper, certified: Certificate | None = None, *, finished: bool = False
    ) -> Event:
        """Take a snapshot of all classes, or end the group."""
        if finished:
            self._over = True
            return self._groups.end_group(keeper.content(certified, finished=True))
        event = self._whole.save(self._groups, certified)
        self.newest = self._whole.newest
        return event
