"""Rows that are forgotten, in a data set or in all generations of a store, and their models.

Of a store, the models that the published one comes of are trained anew next to the old ones, each
on its own generation; the last of them becomes the run of a new generation, which has no files, and
is published.  A refresh goes on from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.generations import (
    Decision,
    Generation,
    begin_generation,
    generations,
    write_decision,
)
from fewpass.pipeline.models.refresh.publications import Publication, newest_readable, user_and_host
from fewpass.pipeline.models.refresh.refreshing import refresh_lock, rows_before
from fewpass.pipeline.models.retraining import Retrained, Retraining
from fewpass.pipeline.runs.learnt_from import Forgotten, LearntRun, chosen_by, learnt_from
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.settings.change_plans import ForgetPlan, require_retraining
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.changing.forgetting import EXAMPLES, ForgetResult, forget_in
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import kind_of
from fewpass.storage.manifest import KEY

_IN_STORE = re.compile(r"/generations/\d{6}(?:/[^/]*)?$")
ShowShare = Callable[[float, str], None]


def forgotten_everywhere(
    plan: ForgetPlan,
    *,
    runs: str | None = None,
    retrain: bool = False,
    warm: bool = False,
    execution: Execution | None = None,
    progress: ShowShare = lambda _share, _said: None,
) -> ForgetResult:
    """Delete rows, name the models that have learnt from them, and train these anew if asked to.

    A new run lies next to the old one, which stays: RUN-g3 for generation 3 of its data set, or the
    next number that is free.  It has the same plan, and begins at what the old one began at, or at
    that trained anew.  Called again after a kill it goes on.

    Parameters
    ----------
    plan
        Which rows of which data set.
    runs
        Folder to look for runs in, three deep [default: the one that the data set lies in, or the
        store that it is of].
    retrain
        Whether to train the models anew.
    warm
        Whether to begin at the old weights.  Then the new model is free of the rows as far as its
        certificate says, and no further.
    execution
        Where to train.
    progress
        As for `forget`.

    Raises
    ------
    ValueError
        `warm` without `retrain`.
    """
    require_retraining(retrain=retrain, warm=warm)
    options = plan.storage_options
    retraining = Retraining(execution or Execution(), options, warm=warm, progress=progress)
    anew = retraining if retrain and not plan.dry_run else None
    if kind_of(Folder(plan.dataset, options)) == "store":
        return _in_store(plan, runs, anew, progress)
    [result] = forget_in([plan.dataset], plan, progress=progress)
    sets = [Forgotten(result.learnt_from, result.fingerprint)]
    place = runs or _place_of_runs(Folder(plan.dataset, options).url)
    learnt = learnt_from(place, sets, options)
    result = _with_models(result, learnt)
    chosen = chosen_by(place, {*result.learnt_from, *result.test_fingerprints}, options)
    others = tuple(run for run in chosen if run not in result.models)
    result = result.model_copy(update={"chosen": others})
    return result if anew is None else _with_retrained(result, anew.of(learnt))


def _with_models(result: ForgetResult, learnt: Sequence[LearntRun]) -> ForgetResult:
    models = [one.run for one in learnt]
    published = tuple(run for run in models if _is_published(run))
    return result.model_copy(update={"models": tuple(models), "published": published})


def _place_of_runs(dataset: str) -> str:
    """Return the folder that a data set lies in, or the store that it is a generation of."""
    is_of_store = _IN_STORE.search(dataset)
    return _IN_STORE.sub("", dataset) if is_of_store else dataset.rpartition("/")[0] or "/"


def _is_published(run: str) -> bool:
    store = _IN_STORE.sub("", run)
    current = newest_readable(store) if store != run else None
    return current is not None and current.run_in(store) == run


def _with_retrained(result: ForgetResult, made: Retrained) -> ForgetResult:
    runs = tuple(one.run for one in made.results.values())
    notes = (*result.notes, *made.notes)
    return result.model_copy(update={"retrained": runs, "notes": notes})


def _in_store(
    plan: ForgetPlan, runs: str | None, anew: Retraining | None, progress: ShowShare
) -> ForgetResult:
    """Delete rows of all generations of a store, alone in it."""
    with nullcontext() if plan.dry_run else refresh_lock(plan.dataset):
        every = generations(Folder(plan.dataset))
        open_ones = [one for one in every if not one.is_decided and one.files]
        if open_ones:
            raise BadInput(
                f"Generation {open_ones[-1].number:06d} of {plan.dataset} is not decided. Finish "
                "it by another refresh, or abandon it."
            )
        there = [one.data for one in every if Folder(one.data).exists(KEY)]
        results = forget_in(there, plan, progress=progress)
        sets = [Forgotten(one.learnt_from, one.fingerprint) for one in results]
        learnt = learnt_from(runs or plan.dataset, sets)
        result = _with_models(_of_all(plan.dataset, every[-1].number, results), learnt)
        if anew is None:
            return result
        return _published_anew(plan.dataset, result, learnt, anew)


def _of_all(store: str, newest: int, results: Sequence[ForgetResult]) -> ForgetResult:
    sums = {
        name: sum(getattr(one, name) for one in results)
        for name in ("rows", "forgotten", "test_rows", "test_forgotten")
    }
    together = {
        "dataset": store,
        "generation": newest,
        "test_dataset": next((one.test_dataset for one in results if one.test_dataset), None),
        "examples": tuple(row for one in results for row in one.examples)[:EXAMPLES],
        "learnt_from": tuple(name for one in results for name in one.learnt_from),
        "notes": tuple(note for one in results for note in one.notes),
    }
    return results[-1].model_copy(update=sums | together)


def _published_anew(
    store: str, result: ForgetResult, learnt: Sequence[LearntRun], retraining: Retraining
) -> ForgetResult:
    """Train the models anew that the published one comes of, and publish the last of them."""
    current = newest_readable(store)
    if current is None or current.run_in(store) not in result.models:
        return result
    newest = current.run_in(store)
    begun: list[Generation] = []

    def to(run: str, plan: TrainingPlan) -> str:
        if run != newest:
            return retraining.next_to(run, plan)
        begun.append(_new_generation(store))
        return begun[0].run

    made = retraining.of(list(_behind(newest, learnt)), to)
    if begun:
        _decide(store, begun[0], current, made.results[newest], result.forgotten)
        result = result.model_copy(update={"generation": begun[0].number})
    return _with_retrained(result, made)


def _behind(run: str, learnt: Sequence[LearntRun]) -> Iterator[LearntRun]:
    """Yield a run, what it began at, what that began at, and so on."""
    by_name = {one.run: one for one in learnt}
    at: str | None = run
    while at in by_name:
        one = by_name.pop(at)
        yield one
        at = one.plan.start_from


def _new_generation(store: str) -> Generation:
    """Begin a generation without files, or return the one that was begun before a kill."""
    last = generations(Folder(store))[-1]
    return begin_generation(Folder(store), last.number + 1, ()) if last.is_decided else last


def _decide(
    store: str, generation: Generation, before: Publication, trained: TrainingResult, gone: int
) -> None:
    made = Decision(
        published=True,
        reason=f"rows were forgotten, and what generation {before.generation:06d} had learnt was "
        "learnt anew without them",
        loss=None, loss_before=None, rows=rows_before(store, generation) - gone,
        after=before.number, objective=trained.objective, certificate=trained.certificate,
        decided_at=datetime.now(UTC).isoformat(timespec="seconds"), decided_by=user_and_host(),
        converged=trained.converged,
    )  # fmt: skip
    write_decision(store, generation, made)
