"""Refreshing a model: new files are evaluated, learnt from, and a model of them is published.

The rule is night_rule.py; this is the order of things, and what is written when:

1. an open generation is finished before new files are looked at, so that a refresh that was killed
   is simply run again;
2. files become a generation (inbox.py) and its data set (taking.py), or are refused;
3. its rows are evaluated by the models of the night before, in one reading (night_evaluation.py);
4. unless it waits, models of all windows are trained, and that of the best one is published
   (night_learning.py).

Every step ends with an event in the store's log (store_log.py); what is in the log is not done
again, and data sets and runs that are there are finished, not made anew.
"""

from __future__ import annotations

from typing import NamedTuple

from fewpass.pipeline.lease import Lease
from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.models.refresh.inbox import CannotReplace, arrivals
from fewpass.pipeline.models.refresh.night_evaluation import NightEvaluation
from fewpass.pipeline.models.refresh.night_learning import NightLearner
from fewpass.pipeline.models.refresh.night_rule import Rule
from fewpass.pipeline.models.refresh.old_generations import (
    finish_removal,
    remove_old_generations,
    remove_unused,
)
from fewpass.pipeline.models.refresh.refresh_result import RefreshResult, result_of, unchanged
from fewpass.pipeline.models.refresh.store_events import (
    Begun,
    Cleared,
    Event,
    FileMoved,
    ModelLearnt,
    RefusedFile,
    RowsEvaluated,
    Settled,
)
from fewpass.pipeline.models.refresh.store_log import Overtaken, append_event
from fewpass.pipeline.models.refresh.store_state import (
    Generation,
    Store,
    refresh_lock,
    store_at,
    store_of,
)
from fewpass.pipeline.models.refresh.taking import (
    AllRefused,
    NotReplaced,
    TakenFiles,
    cannot_open,
    reading_of,
)
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY


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
        self.rule = _rule_of(plan)
        self.growing: tuple[FileState, ...] = ()

    def run(self) -> RefreshResult:
        """Finish what was begun, and take what has come."""
        done: list[RefreshResult] = []
        if self.store.open is None:
            finish_removal(self.store)
        else:
            self._look_again(self.store.open)
            done += self._finished(self._newest)
        for came in self._arrived():
            try:
                done += self._finished(self._begun(came))
            except AllRefused:  # they are the last: what was done before is to be said, too
                self._read()
                if not done:
                    raise
                done[-1] = self._result()
        if self.store.is_stale:  # somebody took rows that had waited, and no night was learnt since
            done += self._finished(self._begun(_Came((), self.store.past.used[-1])))
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
        """Return an event that is still right: what was evaluated and learnt is of one past."""
        now = store_of(self.store.folder, events).published
        follows = isinstance(event, RowsEvaluated | Settled | ModelLearnt)
        if follows and now is not None and now != self.store.published:
            raise Overtaken(
                f"Generation {event.generation:06d} was not published: {now.sentence()} meanwhile. "
                "The next refresh evaluates it anew."
            )
        return event

    # -- files ------------------------------------------------------------------------------------

    def _arrived(self) -> list[_Came]:
        """Return the files of each generation to begin: replacements first, then what is new."""
        store, reading = self.store, reading_of(self.plan.ingest)
        newest = {one.night: one for one in store.generations if one.took}
        taken = {one.number: one for one in newest.values()}
        came = arrivals(
            self.plan.sources, {number: one.files for number, one in taken.items()},
            [_passed_over(one) for one in store.refused if one.reading == reading],
            settle_s=self.plan.settle,
        )  # fmt: skip
        self.growing = came.growing
        for moved in came.moved:
            self._append(FileMoved(generation=moved.generation, then=moved.then, now=moved.now))
        replacements: list[_Came] = []
        staying = [*came.cannot_replace]
        for one in came.changed:
            generation = taken[one.generation]
            if why := _why_it_stays(store, generation):
                staying += [CannotReplace(file, one.generation, why) for file in one.changed]
            else:
                replacements.append(_Came(one.files, generation.night))
        for file, number, why in staying:
            self._refuse(RefusedFile(generation=number, file=file, why=why, reading=reading))
        for gone in store.refused:
            if gone.file.now() is None:
                self._append(Cleared(file=gone.file.name))
        return [*replacements, *([_Came(came.new)] if came.new else [])]

    def _refuse(self, event: RefusedFile) -> None:
        """Write down that a file is refused, unless the log has it: each refresh sees it again."""
        own = (event.file, event.why, event.reading)
        if own not in [(one.file, one.why, one.reading) for one in self.store.refused]:
            self._append(event)

    def _look_again(self, generation: Generation) -> None:
        """Note how the files of a generation are now, if they are still to be read."""
        if Folder(generation.data).exists(KEY):
            return
        for file in generation.files:
            now = file.now()
            if now is not None and now.differs(file):
                self._append(FileMoved(generation=generation.number, then=file, now=now))

    def _begun(self, came: _Came) -> Generation:
        every = self.store.generations
        newest = max((one.night for one in every if not one.is_abandoned), default=0)
        night = newest + 1 if came.night is None else came.night
        self._append(Begun(generation=self.store.next_number, files=came.files, night=night))
        return self._newest

    # -- a generation -----------------------------------------------------------------------------

    def _finished(self, generation: Generation) -> list[RefreshResult]:
        """Take, evaluate and learn from a generation, as far as that is not done.

        Return nothing where its files cannot replace the rows of a night.
        """
        taken = TakenFiles(())
        if generation.files:
            try:
                taken = self.work.take(self.plan, self.store, generation)
            except NotReplaced:
                self._read()
                return []
        self._read()
        while self._newest.evaluated is None:
            self._append(NightEvaluation(*self._facts).event(taken))
        if self._newest.night in self.store.past.used and not self._newest.waits_to_replace:
            self._append(NightLearner(*self._facts).event())
        else:
            self._append(Settled(generation=generation.number))
        remove_unused(self.store)
        if self.plan.keep_generations is not None:
            self._read()
            remove_old_generations(self.store, self.plan.keep_generations)
        return [self._result()]

    def _result(self) -> RefreshResult:
        return result_of(self.store, self._newest, self.growing)

    @property
    def _facts(self) -> tuple[RefreshPlan, RefreshWork, Rule, Store, Generation]:
        """Arguments of evaluation and learning."""
        return self.plan, self.work, self.rule, self.store, self._newest

    @property
    def _newest(self) -> Generation:
        return self.store.generations[-1]


class _Came(NamedTuple):
    """Files that are to become a generation, and the night whose rows theirs replace."""

    files: tuple[FileState, ...]
    night: int | None = None


def _passed_over(one: RefusedFile) -> FileState:
    """Return the state in which a refused file is passed over: any, while it cannot be opened."""
    now = one.file.now() if one.file.version is None else None
    return now if now is not None and cannot_open(now.name) else one.file


def _why_it_stays(store: Store, taken: Generation) -> str:
    """Return why the rows of a generation are not replaced; nothing where they are."""
    if taken.is_removed:
        return "its rows were removed"
    with_rows = [one.data for one in store.versions(taken.night) if one.has_rows]
    for data in {taken.data, *with_rows[-1:]}:
        if any(made.change == "forget" for made in Dataset.open(data).manifest.changes):
            return "rows of it were forgotten, and reading it anew would bring them back"
    return ""


def _rule_of(plan: RefreshPlan) -> Rule:
    """Return the rule that a plan asks for."""
    return Rule(
        plan.windows, plan.scored_generations, plan.odd, plan.most_waiting, plan.after_turn,
        plan.keep_generations,
    )  # fmt: skip
