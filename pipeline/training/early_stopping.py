"""Held-out rows scored after every epoch: the best model is retained, and training may end early.

Prechelt, "Early stopping - but when?" (1998), with patience for a criterion as scikit-learn has it.
"""

from __future__ import annotations

from fewpass.pipeline.runs.events import Event, HeldOut
from fewpass.pipeline.runs.grid import Candidate, Choice, finite
from fewpass.pipeline.runs.model import sourced_weights, stored_weights
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.runs.validation import Validation, ValidationPoint, extended
from fewpass.pipeline.scoring.choosing_lam import ModelsToScore, held_out_figures
from fewpass.pipeline.scoring.metric import cost_of
from fewpass.pipeline.training.engine import Training
from fewpass.pipeline.training.sweeps import Sweeps
from fewpass.solvers.protocol import Certificate, Weights
from fewpass.storage.dataset import Dataset


class EarlyStopping:
    """Keeps the best model of a training, and says when to end it.

    Attributes
    ----------
    validation : Validation or None
        Scores of held-out rows; None before the first.
    best : Weights or None
        The model of the lowest point, features in the order of the source.
    """

    def __init__(self, training: Training, held_out: Dataset) -> None:
        self._training, self._held_out = training, held_out
        self.validation: Validation | None = None
        self.best: Weights | None = None

    def restore(self, saved: Saved) -> None:
        """Go on from the scores of a snapshot."""
        self.validation, self.best = saved.validation, saved.best

    def begin_again(self) -> None:
        """Reset the patience after a restart."""
        if self.validation is not None:
            self.validation = self.validation._replace(waited=0)

    @property
    def is_over(self) -> bool:
        """Return whether it is time to end."""
        patience = self._training.plan.n_iter_no_change
        return self.validation is not None and self.validation.is_over(patience)

    def evaluate(self, sweeps: Sweeps) -> Event | None:
        """Score the newest model on held-out rows; None where that is done."""
        training, cursor = self._training, self._training.progress.cursor
        if self.validation is not None and self.validation.sweeps == cursor.sweeps:
            return None
        record = training.run.record()
        newest = ModelsToScore(
            record, training.dataset, self._held_out, sweeps.solver, sweeps.heads[0]
        )
        ((scores, *_),) = held_out_figures(newest, 1, training.executor)
        cost = cost_of(record.plan.metric, scores)
        loss = finite(scores.loss)
        point = ValidationPoint(cursor.passes, loss, scores.error, cost)
        self.validation = extended(self.validation, point, cursor.sweeps, sweeps.proven())
        if self.validation.is_at_best:
            self.best = sourced_weights(sweeps.weights(), training.dataset)
        return training.progress.event(HeldOut(loss, scores.error))

    def end(
        self, sweeps: Sweeps, weights: Weights, certified: Certificate | None, lam: float
    ) -> tuple[Weights, Certificate | None, Choice]:
        """Return the best model, its certificate, and its scores; `weights` are the newest.

        A pass is paid for a certificate where one is asked for and there is none.
        """
        self.evaluate(sweeps)
        plan, dataset = self._training.plan, self._training.dataset
        validation, best = self.validation, self.best
        assert validation is not None, "it was evaluated"
        assert best is not None, "one of the points is the lowest"
        if validation.is_at_best:
            best = weights
        else:
            certified = validation.certified
        if certified is None and (plan.certify or plan.tol is not None):
            certified = sweeps.certify(stored_weights(best, dataset))
        proven = (certified.objective, certified.gap) if certified else ()
        at = validation.best
        score = Candidate(lam, at.loss, at.error, *proven)._replace(cost=at.cost)
        return best, certified, Choice(lam, (score,))
