"""Snapshots of a training: when one is due, what goes into it, and what the newest holds."""

from __future__ import annotations

import time

from pipeline.scoring.held_out import choose_lam
from pipeline.streaming.resident import let_go
from pipeline.training.grid import Choice, certificate_of, weights_of
from pipeline.training.model import sourced_weights
from pipeline.training.plan import Storage, TrainingPlan, regularisations
from pipeline.training.run_folder import RunFolder, Saved, save
from pipeline.training.standing import Standing
from pipeline.training.sweeping import Sweeping
from solvers.protocol import Certificate
from storage.dataset import Dataset

MOST_VERSIONS = 16  # of numbers kept per row between two snapshots, which let the old ones go


class Saving:
    """Takes a run's snapshots, and has training go on from what storage holds.

    Attributes
    ----------
    newest : Saved or None
        The newest whole snapshot, if there is one.
    """

    def __init__(
        self, run: RunFolder, plan: TrainingPlan, dataset: Dataset, standing: Standing,
        storage_options: Storage,
    ) -> None:  # fmt: skip
        self.newest: Saved | None = None
        self._run, self._plan, self._dataset, self._standing = run, plan, dataset, standing
        self._storage = storage_options
        self._lams = regularisations(plan.lam, dataset.n_rows)
        self._last = (time.perf_counter(), 0)  # when, and how many sweeps had been done

    @property
    def finished(self) -> bool:
        """Whether the newest snapshot is the last one."""
        return self.newest is not None and self.newest.finished

    def is_due(self, sweeps: Sweeping) -> bool:
        """Whether it is time for a snapshot."""
        when, done = self._last
        versions = self._standing.cursor.sweeps - done if sweeps.keeps_on_disk else 0
        late = time.perf_counter() - when >= self._plan.snapshot_every
        return late or versions >= MOST_VERSIONS

    def pick_up(self, sweeps: Sweeping) -> None:
        """Take the states from the newest snapshot, or the method's first one."""
        if self.newest is None:
            sweeps.begin()
        else:
            sweeps.read(self._run, self.newest.name, self.newest.streams)

    def save(self, sweeps: Sweeping, certified: Certificate | None, *, finished: bool) -> Saved:
        """Take a snapshot, and go on from it unless it is the last one."""
        states = sweeps.states()
        certified = certified or sweeps.solver.certificate(states[0])
        sweeps.flush_numbers(states)
        choice = self._choose(sweeps, certified, finished)
        k = self._lams.index(choice.lam) if choice else 0
        found = weights_of(sweeps.weights_of(states), len(self._lams), k)
        weights = sourced_weights(found, self._dataset)
        self.newest = save(
            self._run, self._dataset, self._standing.cursor, states, weights,
            certificate_of(certified, len(self._lams), k), finished, choice,
        )  # fmt: skip
        self._last = (time.perf_counter(), self._standing.cursor.sweeps)
        if not finished:
            self.pick_up(sweeps)
        return self.newest

    def _choose(
        self, sweeps: Sweeping, certified: Certificate | None, finished: bool
    ) -> Choice | None:
        """Say which lam's model is handed on: the best on held-out rows, before the end any."""
        lams = self._lams
        if not (finished and self._plan.held_out):
            return Choice(lams[0]) if len(lams) > 1 else None
        sweeps.executor.everywhere(let_go)  # other rows are read now, within the same budget
        judges = Dataset.open(self._plan.held_out, self._storage)
        record, state = self._run.record(), sweeps.heads[0]
        return choose_lam(
            record, self._dataset, judges, sweeps.solver, lams, state, certified, sweeps.executor
        )
