"""The model that a snapshot holds: read out of states, chosen and calibrated by held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewpass.pipeline.calibration import Calibration
from fewpass.pipeline.rows.resident import free_rows
from fewpass.pipeline.runs.grid import Candidate, Choice, best_of, certificate_of, weights_of
from fewpass.pipeline.runs.model import read_out, sourced_weights, stored_weights
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.scoring.calibrating import calibrate
from fewpass.pipeline.scoring.choosing_lam import (
    AsRead,
    ModelsToScore,
    ReadsWeights,
    choose_lam,
)
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.class_groups import ModelGroups
from fewpass.pipeline.training.early_stopping import EarlyStopping
from fewpass.pipeline.training.engine import Training
from fewpass.pipeline.training.one_reading import OneReading
from fewpass.pipeline.training.sweeps import Sweeps
from fewpass.solvers.protocol import Certificate, State, Weights, same
from fewpass.storage.dataset import Dataset


def held_out_rows(training: Training) -> Dataset:
    """Return the held-out rows of a plan that names some, as they were when the training began."""
    assert training.held_out is not None, "the plan names some"
    return training.held_out


class TrainedModels:
    """Reads models out of the states of a method.

    Every public method but `weights` returns fields of `Saved`.
    """

    def __init__(
        self, training: Training, plan: TrainingPlan, sweeps: Sweeps, reading: OneReading | None
    ) -> None:
        self._training, self._plan, self._sweeps, self._reading = training, plan, sweeps, reading
        lams = training.plan.lam.values(training.dataset.n_rows)
        #: Of folds the models of all lam are handed on, and whoever asked tells them apart.
        self._lams = lams[:1] if training.planner.problem.rule.fold_rows else lams

    def of_snapshot(
        self,
        states: list[State],
        certified: Certificate | None,
        early: EarlyStopping | None,
        groups: ModelGroups | None,
        *,
        finished: bool,
    ) -> dict[str, Any]:
        """Return the model of the newest states, with what belongs to its kind of training."""
        if early:
            return self.best(early, states, certified, finished=finished)
        if groups:
            return self.of_groups(groups, states, finished=finished)
        return self.chosen(states, certified, finished=finished)

    def best(
        self,
        early: EarlyStopping,
        states: list[State],
        certified: Certificate | None,
        *,
        finished: bool,
    ) -> dict[str, Any]:
        """Return the newest model of an early stopping; at its end the best one."""
        weights = self.weights(states, 0)
        if not finished:
            newest = {"weights": weights, "certificate": certified, "best": early.best}
            return newest | {"validation": early.validation}
        held_out = held_out_rows(self._training)
        weights, certified, choice = early.end(self._sweeps, weights, certified, self._lams[0])
        return {
            "weights": weights, "certificate": certified, "choice": choice,
            "calibration": self._calibrate(weights, held_out), "validation": early.validation,
        }  # fmt: skip

    def of_groups(
        self, groups: ModelGroups, states: list[State], *, finished: bool
    ) -> dict[str, Any]:
        """Return the models of all groups; at the end held-out rows are read, and choose a lam."""
        groups.put(self.all_weights(states))
        weights, lams, model = groups.weights(), len(self._lams), {"groups": groups.done}
        if not finished:
            first, trained = weights_of(weights, lams, 0), weights if lams > 1 else None
            return model | {"weights": first, "certificate": None, "trained": trained}
        certified, held_out = groups.certificate(), self._scored_rows()
        choice = self._scores(weights, certified, held_out)
        k = self._lams.index(choice.lam) if choice and lams > 1 else 0
        own = weights_of(weights, lams, k)
        return model | {
            "weights": own, "certificate": certificate_of(certified, lams, k), "choice": choice,
            "calibration": self._calibrate(own, held_out),
        }  # fmt: skip

    def chosen(
        self, states: list[State], certified: Certificate | None, *, finished: bool
    ) -> dict[str, Any]:
        """Return the model of the best lam on held-out rows; before the end, of the first."""
        lams, held_out = self._lams, self._scored_rows() if finished else None
        choice = self._choose(certified, held_out, finished=finished)
        k = lams.index(choice.lam) if choice else 0
        weights = self.weights(states, k)
        model = {
            "weights": weights, "certificate": certificate_of(certified, len(lams), k),
            "choice": choice, "calibration": self._calibrate(weights, held_out),
        }  # fmt: skip
        if self._reading is None:
            return model
        return model | {"source": self._reading.position, "moments": self._reading.rows.sums}

    def all_weights(self, states: list[State]) -> Weights:
        """Read all models out of the states, in the order of the source."""
        return sourced_weights(self._sweeps.weights_of(states), self._training.dataset)

    def weights(self, states: list[State], k: int) -> Weights:
        """Read the model of the k-th lam out of the states, in the order of the source."""
        dataset = self._training.dataset
        if len(states) == 1 and self._sweeps.solver.by_column:
            weights = read_out(self._sweeps.solver, states[0], dataset)
        else:
            newest = self._sweeps.weights_of(states)
            weights = sourced_weights(weights_of(newest, len(self._lams), k), dataset)
        return self._reading.narrowed(weights) if self._reading else weights

    @property
    def _record(self) -> RunRecord:
        """The record by which held-out rows are read."""
        return self._reading.record if self._reading else self._training.run.record()

    def _scored_rows(self) -> Dataset | None:
        """Return the held-out rows, if there are any, which are read from now on."""
        if self._training.plan.held_out is None:
            return self._reading.held_out() if self._reading else None
        self._training.executor.everywhere(free_rows)  # other rows are read, within the same budget
        return held_out_rows(self._training)

    def _choose(
        self, certified: Certificate | None, held_out: Dataset | None, *, finished: bool
    ) -> Choice | None:
        """Choose the lam whose model is handed on: the best on held-out rows, else the first."""
        lams, training = self._lams, self._training
        if held_out is None:
            if finished and len(lams) > 1:
                return self._by_progressive_loss()
            return Choice(lams[0]) if len(lams) > 1 else None
        head, trained = self._sweeps.heads[0], training.dataset
        reads: ReadsWeights = self._sweeps.solver
        if self._reading is not None:  # weights of the columns that there are, in their order
            head, trained, reads = self._reading.head(self._sweeps.solver, head), held_out, AsRead()
        models = ModelsToScore(self._record, trained, held_out, reads, head)
        return choose_lam(models, lams, certified, training.executor)

    def _by_progressive_loss(self) -> Choice:
        """Choose by the losses of rows before they were learnt from, at the end of the pass.

        Of a lam that has left the pass to another one no loss is known.
        """
        lams, read = self._lams, self._sweeps.solver.before_steps
        losses = np.array(self._sweeps.ask("losses", read, self._sweeps.heads[0]))
        if len(losses) < len(lams):
            return Choice(lams[0])
        means = losses.reshape(len(lams), -1).mean(axis=1).tolist()
        each = [Candidate(*pair, None) for pair in zip(lams, means, strict=True)]
        return best_of([one for one in each if np.isfinite(one.loss)] or each)

    def _scores(
        self, weights: Weights, certified: Certificate | None, held_out: Dataset | None
    ) -> Choice | None:
        """Score the models of all classes and lam on held-out rows, if there are any."""
        training, executor = self._training, self._training.executor
        if held_out is None:
            return None
        head = executor.submit_small("weights", same, stored_weights(weights, training.dataset))
        own = (self._sweeps.job.problem.penalty.total,)
        lams = self._lams if len(self._lams) > 1 else own
        models = ModelsToScore(self._record, training.dataset, held_out, AsRead(), head)
        return choose_lam(models, lams, certified, executor)

    def _calibrate(self, weights: Weights, held_out: Dataset | None) -> Calibration | None:
        """Learn the calibration of scores from held-out rows, if the plan asks for one."""
        training, method = self._training, self._plan.calibrate
        if method is None or held_out is None:
            return None
        return calibrate(self._record, held_out, weights, method, training.executor)
