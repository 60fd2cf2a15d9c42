"""Evaluation of a generation's rows by the nights before: scored before they are learnt.

A new night, and the rows of files that have changed, are scored by the published model; a new night
by last night's model of each window as well, and by models with the nights that wait.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.drift_watch import watched
from fewpass.pipeline.models.refresh.night_rule import (
    REPLACES,
    NightVerdict,
    Rule,
    candidates,
    night_verdict,
    replacement_verdict,
)
from fewpass.pipeline.models.refresh.night_scores import Scores
from fewpass.pipeline.models.refresh.past_nights import HALF, PUBLISHED, Past
from fewpass.pipeline.models.refresh.store_events import RowsEvaluated
from fewpass.pipeline.models.refresh.store_state import Generation, Store, last_runs
from fewpass.pipeline.models.refresh.taking import TakenFiles
from fewpass.pipeline.models.refresh.window_models import is_other_recipe, models_of, training_plan
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.pipeline.settings.refresh_plan import RefreshPlan

FIRST = "first"  # the verdict on a generation that no night before scores


class NightEvaluation(NamedTuple):
    """The evaluation of a generation whose rows are stored."""

    plan: RefreshPlan
    work: RefreshWork
    rule: Rule
    store: Store
    generation: Generation

    def event(self, taken: TakenFiles) -> RowsEvaluated:
        """Return the verdict, with the notes on the rows that were taken."""
        return self._verdict_on(taken.left_out).model_copy(update={"notes": taken.notes})

    def _verdict_on(self, left_out: Sequence[str]) -> RowsEvaluated:
        """Return the verdict; `left_out` are columns that the first generation does not have."""
        one, past = self.generation, self.generation.before
        number, files = one.number, tuple(file.name for file in one.files)
        is_new = one.night not in self.store.nights
        if is_new and self.store.newest_learnt is None:
            past = past._replace(used=(one.night,))
            return RowsEvaluated(generation=number, files=files, verdict=FIRST, past=past)
        if not files:  # a night that is learnt anew
            return RowsEvaluated(generation=number, files=files, verdict=REPLACES)
        drifted = self._has_drifted(left_out)
        if is_other_recipe(self.plan, self.store.newest_learnt):
            past = past._replace(usual=(), scores=())  # whose losses say nothing of this one's
        made, scores = self._verdict(past, is_new=is_new, drifted=drifted)
        return RowsEvaluated(
            generation=number, files=files, verdict=made.kind, nights=made.nights, scores=scores,
            deviations=made.deviations, usual=made.usual, usual_error=made.usual_error,
            explained=made.explained, past=None if made.past == past else made.past,
            why=self._said(scores, made),
        )  # fmt: skip

    def _has_drifted(self, left_out: Sequence[str]) -> bool:
        """Show how far the rows are from those before, and say whether they wait for that."""
        drift = watched(self.store, self.generation, left_out, self.plan.max_drift)
        self.work.show_drift(self.plan.store, self.generation.number, drift)
        return drift is not None and bool(drift.sentence) and self.plan.drift == "wait"

    def _verdict(self, past: Past, *, is_new: bool, drifted: bool) -> tuple[NightVerdict, Scores]:
        scores = self.work.score(self._scorers(is_new=is_new), self.generation.data)
        made = self._verdict_by(past, scores, None, is_new=is_new, drifted=drifted)
        if made.deviations > (self.rule.odd or math.inf):
            halves = self._halves(scores)
            made = self._verdict_by(past, scores, halves, is_new=is_new, drifted=drifted)
        return made, scores

    def _verdict_by(
        self, past: Past, scores: Scores, halves: Scores | None, *, is_new: bool, drifted: bool
    ) -> NightVerdict:
        night = self.generation.night
        if is_new:
            return night_verdict(self.rule, past, night, scores, halves, drifted=drifted)
        stored = self.store.of_night(night).number
        waiting = [one for one in self.store.versions(night) if one.number > stored]
        return replacement_verdict(
            self.rule, past, night, scores, halves, waiting=len(waiting), drifted=drifted
        )

    def _scorers(self, *, is_new: bool) -> dict[str, str]:
        """Return the runs of the models that score the rows."""
        store, one = self.store, self.generation
        if not is_new:
            return {PUBLISHED: store.scorer}
        wanted = candidates(self.rule, one.before, one.night)
        made = models_of(self.plan, store, one, wanted, self.work.train)
        own = {name: f"{one.folder.url}/{model.folder}" for name, model in made.items()}
        is_other = is_other_recipe(self.plan, store.newest_learnt)
        windows = {} if is_other else last_runs(store, one)
        return {PUBLISHED: store.scorer} | windows | own

    def _halves(self, scores: Scores) -> Scores | None:
        """Return what models of one half of odd rows make of the other half.

        The error of their loss is taken to be that of the published model's.
        """
        loss = loss_of_halves(self.plan, self.work, self.generation.data)
        if loss is None:
            return None
        mean, error = scores.of(PUBLISHED)
        return Scores((PUBLISHED, HALF), (mean, loss), ((error**2, 0.0), (0.0, 0.0)), scores.rows)

    def _said(self, scores: Scores, made: NightVerdict) -> str:
        """Say what the rows were to the published model, and which nights this is about."""
        loss, _ = scores.of(PUBLISHED)
        usual = f"loss {loss:.4g}, usual {made.usual:.4g} +- {made.usual_error:.2g}"
        before = [night for night in made.nights if night in self.store.nights]
        which = ", ".join(f"{self.store.of_night(night).number:06d}" for night in before)
        return f"{which}; {usual}" if which else usual


def loss_of_halves(plan: RefreshPlan, work: RefreshWork, rows: str) -> float | None:
    """Return the loss of models of one half of some rows on the other; None where unknown.

    That of a model on rows that it has learnt from would be far too low on wide rows.
    """
    try:
        return work.loss_of_halves(training_plan(plan, rows, None))
    except BadInput:  # of a method that certifies nothing, or too few rows
        return None
