"""Refreshing a model: new files are judged, learnt from, and a model of them is published.

The rule is night_rule.py; this is the order of things, and what is written when:

1. an open generation is finished before new files are looked at, so that a refresh that was killed
   is simply run again;
2. files become a generation (inbox.py) and its data set (taking.py), or are refused;
3. its rows are judged by the models of the night before, in one reading;
4. unless it waits, models of all windows are trained, and that of the best one is published.

Every step ends with an event in the store's log (store_log.py); what is in the log is not done
again, and data sets and runs that are there are finished, not made anew.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from functools import partial

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.drift_watch import watched
from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.models.refresh.gates import results_of
from fewpass.pipeline.models.refresh.inbox import CannotReplace, Replacement, arrivals
from fewpass.pipeline.models.refresh.night_rule import (
    BETTER,
    HALF,
    PUBLISHED,
    NightVerdict,
    Rule,
    candidates,
    chosen,
    first,
    judged,
    learnt_from,
)
from fewpass.pipeline.models.refresh.night_scores import Scores
from fewpass.pipeline.models.refresh.old_generations import remove_old_generations, remove_unused
from fewpass.pipeline.models.refresh.refresh_result import (
    REPLACES,
    RefreshResult,
    result_of,
    unchanged,
)
from fewpass.pipeline.models.refresh.store_events import (
    Begun,
    Cleared,
    Event,
    FileMoved,
    GateFact,
    Judged,
    ModelLearnt,
    NotPublished,
    Published,
    RefusedFile,
    Settled,
)
from fewpass.pipeline.models.refresh.store_log import Overtaken, append_event
from fewpass.pipeline.models.refresh.store_state import (
    Generation,
    Store,
    last_runs,
    refresh_lock,
    run_of,
    store_at,
    store_of,
)
from fewpass.pipeline.models.refresh.taking import NotReplaced, TakenFiles, reading_of
from fewpass.pipeline.models.refresh.window_models import (
    WindowModel,
    models_of,
    n_rows,
    training_plan,
)
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.pipeline.runs.lease import Lease
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY

FIRST = "first"  # the verdict on a generation that no night before scores
NEW = "new"


def refresh(plan: RefreshPlan, work: RefreshWork | None = None) -> RefreshResult:
    """Finish what was begun, and learn from files that are new or have changed.

    Parameters
    ----------
    plan
        Where files appear, where everything goes, and how it is decided.
    work
        How the parts are done; by default here.

    Returns
    -------
    RefreshResult
        Of the newest generation; `earlier` has those of others that the same call finished.

    Raises
    ------
    InUse
        Another process refreshes the store.
    AllRefused
        No new file can be read; each is refused, with the reason.
    BadInput
        Settings that cannot be used, or rows that drifted too far.
    Overtaken
        Somebody published another model meanwhile: the next refresh scores anew.
    """
    with refresh_lock(plan.store) as lease:
        return _Refresh(plan, work or RefreshWork(), lease).run()


class _Refresh:
    """One refresh of a store, alone in it."""

    def __init__(self, plan: RefreshPlan, work: RefreshWork, lease: Lease) -> None:
        self.plan, self.work, self.lease = plan, work, lease
        self.store = store_at(plan.store)
        self.rule, self.recipe = rule_of(plan), _recipe_of(plan)
        self.growing: tuple[FileState, ...] = ()

    def run(self) -> RefreshResult:
        done: list[RefreshResult] = []
        if self.store.open is not None:
            self._look_again(self.store.open)
            done += self._replaced(self._open())
        for night, files in self._arrived():
            done += self._replaced(self._begun(night, files))
        if not done and self.store.is_stale:  # somebody took a night that had waited
            done.append(self._finished(self._begun(self.store.past.used[-1], ())))
        if not done:
            return unchanged(self.store, self.growing)
        return done[-1].model_copy(update={"earlier": tuple(done[:-1])})

    def _append(self, event: Event) -> None:
        self.lease.check()
        append_event(
            self.store.folder, lambda events: self._unless_overtaken(event, events),
            self.store.events,
        )  # fmt: skip
        self._read()

    def _read(self) -> None:
        """Read what was added to the store's log."""
        self.store = store_at(self.plan.store, self.store.events)

    def _unless_overtaken(self, event: Event, events: list[Event]) -> Event:
        """Return an event that is still right: what was judged and learnt is of one past."""
        now = store_of(self.store.folder, events).published
        follows = isinstance(event, Judged | Settled | ModelLearnt)
        if follows and now is not None and now != self.store.published:
            raise Overtaken(
                f"Generation {event.generation:06d} was not published: {now.sentence()} meanwhile. "
                "The next refresh judges it anew."
            )
        return event

    # -- files ------------------------------------------------------------------------------------

    def _arrived(self) -> list[tuple[int | None, tuple[FileState, ...]]]:
        """Return the files of each generation to begin, and the night whose rows they replace."""
        store, reading = self.store, reading_of(self.plan.ingest)
        newest = {one.night: one for one in store.generations if one.took}
        taken = {one.number: one.files for one in newest.values()}
        refused = [one.file for one in store.refused if one.reading == reading]
        came = arrivals(self.plan.sources, taken, refused, settle_s=self.plan.settle)
        self.growing = came.growing
        for moved in came.moved:
            self._append(FileMoved(generation=moved.generation, then=moved.then, now=moved.now))
        for file, number, why in (*came.cannot_replace, *_stay(store, came.changed)):
            self._append(RefusedFile(generation=number, file=file, why=why, reading=reading))
        for one in store.refused:
            if one.file.now() is None:
                self._append(Cleared(file=one.file.name))
        nights = {one.number: night for night, one in newest.items()}
        replaced = [
            (nights[one.generation], one.files)
            for one in came.changed
            if _why_it_stays(store, one) is None
        ]
        return [*replaced, *([(None, came.new)] if came.new else [])]

    def _look_again(self, generation: Generation) -> None:
        """Note how the files of a generation are now, if they are still to be read."""
        if Folder(generation.data).exists(KEY):
            return
        for file in generation.files:
            now = file.now()
            if now is not None and now.differs(file):
                self._append(FileMoved(generation=generation.number, then=file, now=now))

    def _begun(self, night: int | None, files: tuple[FileState, ...]) -> Generation:
        every = self.store.generations
        newest = max((one.night for one in every if not one.is_abandoned), default=0)
        place = newest + 1 if night is None else night
        self._append(Begun(generation=self.store.next_number, files=files, night=place))
        return self.store.generations[-1]

    def _replaced(self, generation: Generation) -> list[RefreshResult]:
        """Finish a generation; return nothing of one that could not replace the rows of a night."""
        try:
            return [self._finished(generation)]
        except NotReplaced:
            self._read()
            return []

    def _finished(self, generation: Generation) -> RefreshResult:
        """Take, judge and learn from a generation, as far as that is not done."""
        taken = TakenFiles(generation, ())
        if generation.files:
            taken = self.work.take(self.plan, self.store, generation)
        self._read()
        while self._open().judged is None:
            self._judge(self._open(), taken.left_out)
        if self._open().night in self.store.past.used:
            self._learn(self._open())
        else:
            self._append(Settled(generation=generation.number))
        remove_unused(self.store)
        if self.plan.keep_generations is not None:
            remove_old_generations(self.store, self.plan.keep_generations)
        return result_of(self.store, self.store.generations[-1], self.growing)

    def _open(self) -> Generation:
        return self.store.generations[-1]

    # -- judging ----------------------------------------------------------------------------------

    def _judge(self, generation: Generation, left_out: Sequence[str]) -> None:
        """Write down what a generation's rows are to the nights before."""
        past, number = generation.before, generation.number
        files = tuple(file.name for file in generation.files)
        replaces = generation.night in self.store.nights
        if not past.used and not replaces:
            past = past._replace(used=(generation.night,))
            self._append(Judged(generation=number, files=files, verdict=FIRST, past=past))
            return
        drift = None
        if generation.files:
            drift = watched(self.store, generation, left_out, self.plan.max_drift)
            self.work.show_drift(self.plan.store, generation.number, drift)
        if replaces:
            self._append(Judged(generation=number, files=files, verdict=REPLACES))
            return
        last = self.store.newest_learnt
        if self._is_other_recipe(last):  # whose losses say nothing of this one's
            past = past._replace(usual=(), scores=())
        moved = drift is not None and bool(drift.sentence) and self.plan.drift == "wait"
        scores = self.work.score(self._scorers(generation), generation.data)
        made = judged(self.rule, past, generation.night, scores, drifted=moved)
        if made.deviations > (self.rule.odd or math.inf):
            halves = self._halves(generation, scores)
            made = judged(self.rule, past, generation.night, scores, halves, drifted=moved)
        event = Judged(
            generation=number, files=files, verdict=made.kind, nights=made.nights, scores=scores,
            deviations=made.deviations, usual=made.usual, usual_error=made.usual_error,
            explained=made.explained, past=made.past, why=self._said(scores, made),
        )  # fmt: skip
        self._append(event)

    def _said(self, scores: Scores, made: NightVerdict) -> str:
        """Say what the rows were to the published model, and which nights this is about."""
        loss, _ = scores.of(PUBLISHED)
        usual = f"loss {loss:.4g}, usual {made.usual:.4g} +- {made.usual_error:.2g}"
        before = [night for night in made.nights if night in self.store.nights]
        which = ", ".join(f"{self.store.of_night(night).number:06d}" for night in before)
        return f"{which}; {usual}" if which else usual

    def _scorers(self, generation: Generation) -> dict[str, str]:
        """Return the runs of the models that a generation's rows score."""
        store = self.store
        wanted = candidates(self.rule, generation.before, generation.night)
        made = models_of(self.plan, store, generation, wanted, self.work.train)
        own = {name: f"{generation.folder.url}/{model.folder}" for name, model in made.items()}
        is_other = self._is_other_recipe(store.newest_learnt)
        windows = {} if is_other else last_runs(store, generation)
        return {PUBLISHED: store.judge} | windows | own

    def _is_other_recipe(self, before: ModelLearnt | None) -> bool:
        """Whether models were trained by other settings: losses and scores begin anew then."""
        return before is not None and before.recipe not in ("", self.recipe)

    def _halves(self, generation: Generation, scores: Scores) -> Scores | None:
        """Return what models of one half of an odd night make of the other half.

        The error of their loss is taken to be that of the published model's.
        """
        loss = self._loss_of_halves(generation.data)
        if loss is None:
            return None
        mean, error = scores.of(PUBLISHED)
        return Scores((PUBLISHED, HALF), (mean, loss), ((error**2, 0.0), (0.0, 0.0)), scores.rows)

    def _loss_of_halves(self, rows: str) -> float | None:
        """Return the loss of models of one half of some rows on the other; None where unknown.

        That of a model on rows that it has learnt from would be far too low on wide rows.
        """
        try:
            return self.work.loss_of_halves(training_plan(self.plan, rows, None))
        except BadInput:  # of a method that certifies nothing, or too few rows
            return None

    # -- learning ---------------------------------------------------------------------------------

    def _learn(self, generation: Generation) -> None:
        """Train models of all windows, and publish that of the best one, or keep it back."""
        store, past = self.store, self.store.past
        wanted = learnt_from(self.rule, past)
        models = models_of(self.plan, store, generation, wanted, self.work.train)
        choice = chosen(self.rule, past, store.window)
        model = models[choice.window]
        run = f"{generation.folder.url}/{model.folder}"
        unseen = self._unseen(generation, choice.window, run)
        if unseen is not None:
            self.work.show_models(*unseen)
        gates = self._gates(unseen)
        verdict = generation.judged.verdict if generation.judged else FIRST
        refused = self._refused(model, run, gates)
        begins = verdict == FIRST or (not refused and self._is_other_recipe(store.published))
        if begins:  # the loss of models of halves of it is the only usual one so far
            loss = self._loss_of_halves(store.data_of(generation.night))
            past = past._replace(usual=(), scores=())
            past = past if loss is None else first(past, generation.night, loss)
        event = (NotPublished if refused else Published)(
            generation=generation.number, run=model.folder,
            runs={name: one.folder for name, one in models.items()},
            weights_sha256=model.result.weights_sha256, nights=model.nights,
            rows=n_rows(store, model.nights), recipe=self.recipe, window=choice.window,
            choice=choice,
            objective=model.result.objective, certificate=model.result.certificate,
            converged=model.result.converged, gates=gates,
            past=past if begins else None, why=refused,
        )  # fmt: skip
        self._append(event)

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
            if mean > BETTER * error:
                reasons.append(
                    f"its loss on {self.plan.held_out} is {mean:.4g} +- {error:.2g} above that of "
                    "the model published before"
                )
        return "; ".join(reasons)

    def _unseen(
        self, generation: Generation, window: str, run: str
    ) -> tuple[str, str | None, str] | None:
        """Return a model, the one published before if it is another, and rows new to both.

        Held-out rows, or tonight's: last night's model of the window, which has not learnt from
        these, stands for tonight's.  None where there are no such rows.
        """
        is_night = generation.judged is not None and generation.judged.scores is not None
        new, rows = run, self.plan.held_out
        if rows is None:
            new, rows = last_runs(self.store, generation).get(window, ""), generation.data
            if not is_night or not new:
                return None
        current = self.store.published
        before = None if current is None else run_of(self.plan.store, current)
        return new, before, rows

    def _gates(self, unseen: tuple[str, str | None, str] | None) -> tuple[GateFact, ...]:
        """Return what comes of the gates on rows that models have not learnt from."""
        if unseen is None:
            why = "there are no rows that it has not learnt from"
            return tuple(GateFact(gate=gate, passed=True, reason=why) for gate in self.plan.gates)
        new, before, rows = unseen
        made = results_of(
            self.plan.gates, partial(self.work.evaluate, new, rows),
            None if before is None else partial(self.work.evaluate, before, rows),
        )  # fmt: skip
        return tuple(GateFact(**one._asdict()) for one in made)


def _stay(store: Store, changed: Sequence[Replacement]) -> Iterator[CannotReplace]:
    """Yield changed files of generations that are not read anew all the same, and why."""
    for one in changed:
        why = _why_it_stays(store, one)
        if why is not None:
            yield from (CannotReplace(file, one.generation, why) for file in one.changed)


def _why_it_stays(store: Store, one: Replacement) -> str | None:
    """Return why the rows of a generation are not replaced; None where they are."""
    taken = store.numbered(one.generation)
    if taken is None or taken.is_removed:
        return "its rows were removed, as they were old"
    if any(made.change == "forget" for made in Dataset.open(taken.data).manifest.changes):
        return "rows of it were forgotten, and reading it anew would bring them back"
    return None


def _recipe_of(plan: RefreshPlan) -> str:
    """Return the digest of what models are trained by."""
    settings = plan.training.model_dump(mode="json", exclude={"snapshot_every"})
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def rule_of(plan: RefreshPlan) -> Rule:
    """Return the rule that a plan asks for."""
    return Rule(
        plan.windows, plan.judge_generations, plan.odd, plan.most_waiting, plan.after_turn,
        plan.keep_generations,
    )  # fmt: skip
