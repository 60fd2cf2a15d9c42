"""Models of all windows are trained, and that of the best window is published or kept back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from fewpass.pipeline.models.refresh.gates import results_of
from fewpass.pipeline.models.refresh.night_evaluation import FIRST, loss_of_halves
from fewpass.pipeline.models.refresh.night_rule import (
    AFTER_TURN,
    BETTER,
    REPLACES,
    TURNED,
    Rule,
    candidates,
    chosen,
    first,
    learnt_from,
)
from fewpass.pipeline.models.refresh.past_nights import PUBLISHED, Past
from fewpass.pipeline.models.refresh.store_events import (
    GateFact,
    NotPublished,
    Published,
)
from fewpass.pipeline.models.refresh.store_state import Generation, Store, last_runs, run_of
from fewpass.pipeline.models.refresh.window_models import (
    WindowModel,
    folder_of,
    is_other_recipe,
    models_of,
    n_rows,
    recipe_of,
)
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.refresh_plan import RefreshPlan

NEW = "new"


class _Unseen(NamedTuple):
    """A model, the one published before if it is another, and rows new to both."""

    run: str
    before: str | None
    rows: str


class NightLearner(NamedTuple):
    """Trains models on the nights that count, once a generation is evaluated."""

    plan: RefreshPlan
    work: RefreshWork
    rule: Rule
    store: Store
    generation: Generation

    def event(self) -> Published | NotPublished:
        """Train models of all windows; return the publication, or why there is none."""
        store, past, one = self.store, self.store.past, self.generation
        wanted = learnt_from(self.rule, past)
        models = models_of(self.plan, store, one, wanted, self.work.train)
        choice = chosen(self.rule, past, store.window)
        model = models[choice.window]
        run = f"{one.folder.url}/{model.folder}"
        unseen = self._unseen(choice.window, run)
        if unseen is not None:
            self.work.show_models(unseen.run, self._predecessor(unseen), unseen.rows)
        gates = self._gates(unseen)
        refused = self._refused(model, run, gates)
        return (NotPublished if refused else Published)(
            generation=one.number, run=model.folder,
            runs={name: made.folder for name, made in models.items()},
            weights_sha256=model.result.weights_sha256, nights=model.nights,
            rows=n_rows(store, model.nights), recipe=recipe_of(self.plan), window=choice.window,
            choice=choice,
            objective=model.result.objective, certificate=model.result.certificate,
            converged=model.result.converged, gates=gates,
            past=self._begun_anew(refused) or self._other_usual(refused, choice.window),
            why=refused,
        )  # fmt: skip

    def _begun_anew(self, refused: str) -> Past | None:
        """Return the past of a first model, or of the first by other settings; None of others.

        The loss of models of halves of the night is the only usual one so far.
        """
        store, one = self.store, self.generation
        is_first = one.evaluated is None or one.evaluated.verdict == FIRST
        if not is_first and (refused or not is_other_recipe(self.plan, store.published)):
            return None
        loss = loss_of_halves(self.plan, self.work, store.data_of(one.night))
        past = store.past._replace(usual=(), scores=())
        return past if loss is None else first(past, one.night, loss)

    def _other_usual(self, refused: str, window: str) -> Past | None:
        """Return the past with the usual loss of the model in use, where that of another is there.

        A verdict on a turn expects the window's model to be published.  Where it is kept back, the
        model from before the turn stays, until one of a later night is published.
        """
        evaluated, published, past = (
            self.generation.evaluated,
            self.store.published,
            self.store.past,
        )
        if evaluated is None or evaluated.scores is None or published is None or past.turn is None:
            return None
        is_turn = evaluated.verdict in AFTER_TURN
        by = PUBLISHED if refused else window
        is_other = is_turn if refused else not is_turn and max(published.nights) < past.turn
        if not is_other or by not in evaluated.scores.names:
            return None
        return past._replace(usual=((self.generation.night, evaluated.scores.of(by)[0]),))

    def _refused(self, model: WindowModel, run: str, gates: Sequence[GateFact]) -> str:
        """Return why a model is not published; nothing where it is."""
        reasons = [f"{one.gate} failed: {one.reason}" for one in gates if not one.passed]
        result = model.result
        if result.converged is False and self.plan.require_tol:
            reasons.append(str(result.convergence.sentence(result.passes)))
        current = self.store.published
        if self.plan.held_out is not None and current is not None:
            runs = {PUBLISHED: run_of(self.plan.store, current), NEW: run}
            scores = self.work.score(runs, self.plan.held_out)
            mean, error = scores.difference(NEW, PUBLISHED)
            if not mean <= BETTER * error:  # a loss that is no number is no better
                reasons.append(
                    f"its loss on {self.plan.held_out} is {mean:.4g} +- {error:.2g} above that of "
                    "the model published before"
                )
        return "; ".join(reasons)

    def _unseen(self, window: str, run: str) -> _Unseen | None:
        """Return a model and rows to evaluate it on; None where there are no such rows.

        Held-out rows, or tonight's: a model of the window that has not learnt from these stands for
        tonight's.
        """
        new, rows = run, self.plan.held_out
        if rows is None:
            stand_in, rows = self._stand_in(window), self.generation.data
            if stand_in is None:
                return None
            new = stand_in
        current = self.store.published
        before = None if current is None else run_of(self.plan.store, current)
        return _Unseen(new, before, rows)

    def _stand_in(self, window: str) -> str | None:
        """Return the window's model of the nights before; None where there is none.

        After a turn it is the one with the nights that waited, by which the window was chosen.
        """
        one, evaluated = self.generation, self.generation.evaluated
        if evaluated is None or evaluated.verdict in (FIRST, REPLACES):
            return None
        if evaluated.verdict not in AFTER_TURN:
            return last_runs(self.store, one).get(window)
        wanted = candidates(self.rule, one.before, one.night)
        if one.night in evaluated.nights or TURNED + window not in wanted:
            return None  # it was chosen by halves of tonight's rows
        run = RunFolder(f"{one.folder.url}/{folder_of(wanted, TURNED + window)}")
        return run.url if run.exists() else None

    def _predecessor(self, unseen: _Unseen) -> str | None:
        """Return the model that one is compared with on the pages: the one published before it."""
        if unseen.before != unseen.run:
            return unseen.before
        earlier = self.store.published_before
        run = None if earlier is None else run_of(self.plan.store, earlier)
        return run if run is not None and RunFolder(run).exists() else None

    def _gates(self, unseen: _Unseen | None) -> tuple[GateFact, ...]:
        """Return what comes of the gates on rows that models have not learnt from."""
        if unseen is None:
            why = "there are no rows that it has not learnt from"
            return tuple(GateFact(gate=gate, passed=True, reason=why) for gate in self.plan.gates)
        before, rows = unseen.before, unseen.rows
        return results_of(
            self.plan.gates, partial(self.work.evaluate, unseen.run, rows),
            None if before is None else partial(self.work.evaluate, before, rows),
        )  # fmt: skip
