"""Rows that are forgotten, in a data set or in all generations of a store, and their models.

Of a store, the published model is trained anew from zero, on the nights that it has learnt from; it
becomes the model of a new generation, which has no files, and is published.  A refresh goes on from
there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import Any

from fewpass.pipeline.errors import BadInput, NoRowLeft, NoRowMeant
from fewpass.pipeline.models.refresh.old_generations import remove_rows, remove_views
from fewpass.pipeline.models.refresh.store_events import (
    Begun,
    GenerationRemoved,
    Published,
    RowsForgotten,
)
from fewpass.pipeline.models.refresh.store_log import write_event
from fewpass.pipeline.models.refresh.store_state import (
    Generation,
    Store,
    existing_store,
    published,
    refresh_lock,
    run_of,
    store_at,
)
from fewpass.pipeline.models.refresh.window_models import n_rows, rows_of, trained
from fewpass.pipeline.models.retraining import Retrained, Retraining
from fewpass.pipeline.runs.learnt_from import (
    Forgotten,
    LearntRun,
    chosen_by,
    learnt_beyond,
    learnt_from,
)
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.change_plans import ForgetPlan, require_retraining
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.tables.changing.forgetting import EXAMPLES, ForgetResult, forget_in
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import kind_of
from fewpass.storage.locations import Location
from fewpass.storage.manifest import KEY

_IN_STORE = re.compile(r"/generations/\d{6}(?:/[^/]*)?$")
FORGOTTEN = "rows were forgotten"
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
        store that it is of]; of a store, besides its own.
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
        `warm` without `retrain`; a folder of runs that is not there.
    """
    require_retraining(retrain=retrain, warm=warm)
    options = plan.storage_options
    if runs is not None and Location.of(runs).kind(options) != "folder":
        raise BadInput(f"There is no folder {runs}, where models were to be looked for. Name one.")
    retraining = Retraining(execution or Execution(), options, warm=warm, progress=progress)
    anew = retraining if retrain and not plan.dry_run else None
    if kind_of(Folder(plan.dataset, options)) == "store":
        return _in_store(plan, runs, anew, progress)
    [result] = forget_in([plan.dataset], plan, progress=progress)
    url = Folder(plan.dataset, options).url
    around = _place_of_runs(url)
    if _IN_STORE.search(url) and not plan.dry_run:
        remove_views(store_at(around), result.learnt_from)
    place = runs or around
    learnt = learnt_from(place, _sets_of(result), options)
    result = _with_models(result, learnt, place, options)
    if anew is None:
        return result
    had = {*result.learnt_from, *result.test_fingerprints}
    return _with_retrained(result, anew.of(learnt, had))


def _sets_of(result: ForgetResult) -> list[Forgotten]:
    """Return a data set and its test rows: models may have learnt from these, too."""
    return [
        Forgotten(result.learnt_from, result.fingerprint),
        Forgotten(result.test_fingerprints, result.test_fingerprint),
    ]


def _with_models(
    result: ForgetResult, learnt: Sequence[LearntRun], place: str, options: dict[str, Any]
) -> ForgetResult:
    """Name the models that have learnt from the rows, and those that were chosen by them."""
    models = [*dict.fromkeys(one.run for one in learnt)]
    published = tuple(run for run in models if _is_published(run))
    chosen = chosen_by(place, {*result.learnt_from, *result.test_fingerprints}, options)
    others = tuple(run for run in chosen if run not in models)
    update = {"models": tuple(models), "published": published, "chosen": others}
    return result.model_copy(update=update)


def _place_of_runs(dataset: str) -> str:
    """Return the folder that a data set lies in, or the store that it is a generation of."""
    is_of_store = _IN_STORE.search(dataset)
    return _IN_STORE.sub("", dataset) if is_of_store else dataset.rpartition("/")[0] or "/"


def _is_published(run: str) -> bool:
    store = _IN_STORE.sub("", run)
    current = published(store) if store != run else None
    return current is not None and run_of(store, current) == run


def _with_retrained(result: ForgetResult, made: Retrained) -> ForgetResult:
    runs = tuple(one.run for one in made.results.values())
    return _with_notes(result, made.notes).model_copy(update={"retrained": runs})


def _with_notes(result: ForgetResult, notes: Sequence[str]) -> ForgetResult:
    return result.model_copy(update={"notes": (*result.notes, *notes)})


def _in_store(
    plan: ForgetPlan, runs: str | None, anew: Retraining | None, progress: ShowShare
) -> ForgetResult:
    """Delete rows of all generations of a store, alone in it."""
    with nullcontext() if plan.dry_run else refresh_lock(plan.dataset):
        store = existing_store(plan.dataset)
        if store.open is not None and store.open.files:
            raise BadInput(
                f"Generation {store.open.number:06d} of {plan.dataset} is not finished. Finish "
                "it by another refresh, or abandon it."
            )
        asked = plan if anew is None else plan.model_copy(update={"allow_none": True})
        try:
            results = _forgotten_in(store, asked, progress)
        except NoRowMeant as error:
            raise NoRowMeant(" ".join([str(error), *_of_rows_gone(store)])) from error
        sets = [own for one in results for own in _sets_of(one)]
        sets += [Forgotten(had, "") for had in _removed_before(store)]
        if not plan.dry_run:
            remove_views(store, {name for one in sets for name in one.had})
        learnt = [*learnt_from(plan.dataset, sets), *(learnt_from(runs, sets) if runs else ())]
        result = _of_all(plan.dataset, len(store.generations), results)
        result = _with_models(result, learnt, runs or plan.dataset, plan.storage_options)
        result = _with_notes(result, _of_rows_gone(store, result.models))
        rows = result.forgotten + result.test_forgotten
        if not plan.dry_run and rows:
            write_event(store.folder, RowsForgotten(rows=rows))
        if anew is None:
            return result
        if not rows and not result.published:  # nor is there a retraining to go on with
            forget_in([one.dataset for one in results], plan)
        return _published_anew(plan.dataset, result, anew)


def _forgotten_in(store: Store, plan: ForgetPlan, progress: ShowShare) -> list[ForgetResult]:
    """Delete rows of all generations; those of which no row would be left are removed whole."""
    every = (one for one in store.generations if Folder(one.data).exists(KEY))
    there = {Location.of(one.data).resolved: one for one in every}  # as refusals name them
    if not there:
        raise BadInput(f"The store {store.folder.url} has no rows. A refresh takes some.")
    whole: list[Generation] = []
    while True:
        try:
            results = forget_in([*there], plan, progress=progress)
        except NoRowLeft as error:
            whole.append(there.pop(error.dataset))
            used = {*store.past.used}
            if not there or (used and used <= {one.night for one in whole if one.has_rows}):
                raise
            plan = plan.model_copy(update={"allow_none": True})
        else:
            return [*(_removed_whole(store, one, plan) for one in whole), *results]


def _removed_whole(store: Store, one: Generation, plan: ForgetPlan) -> ForgetResult:
    """Remove the rows of a generation that are all forgotten."""
    data = Dataset.open(one.data)
    had = _all_of(data)
    if not plan.dry_run:
        remove_rows(store, one, "all of its rows were forgotten", had)
    return ForgetResult(
        dataset=one.data, generation=data.manifest.generation, rows=data.n_rows * plan.dry_run,
        forgotten=data.n_rows, dry_run=plan.dry_run, fingerprint="", learnt_from=had,
    )  # fmt: skip


def _removed_before(store: Store) -> list[tuple[str, ...]]:
    """Return the fingerprints of the generations that an earlier call removed whole."""
    removed = (event for event in store.events if isinstance(event, GenerationRemoved))
    return [event.had for event in removed if event.had]


def _of_rows_gone(store: Store, named: Collection[str] = ()) -> list[str]:
    """Return a note on models, other than those named, that have learnt from rows that are gone.

    Those of old nights, or of files that changed: nobody can look for rows there any more.
    """
    there = (Dataset.open(one.data) for one in store.generations if Folder(one.data).exists(KEY))
    sets = [_all_of(data) for data in there] + _removed_before(store)
    own = frozenset(itertools.chain.from_iterable(sets))
    runs = [run for run in learnt_beyond(store.folder.url, own) if run not in named]
    if not runs:
        return []
    which = "; ".join(f"{run}{', which is published' * _is_published(run)}" for run in runs)
    note = (
        "These models have also learnt from rows that the store has no more, and whether such rows "
        f"were among these cannot be known: {which}."
    )
    return [note]


def _all_of(data: Dataset) -> tuple[str, ...]:
    """Return the fingerprints of all generations of a data set."""
    manifest = data.manifest
    return (*(made.parent for made in manifest.changes), manifest.fingerprint)


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
        "test_fingerprints": tuple(name for one in results for name in one.test_fingerprints),
        "notes": tuple(note for one in results for note in one.notes),
    }
    return results[-1].model_copy(update=sums | together)


def _published_anew(url: str, result: ForgetResult, retraining: Retraining) -> ForgetResult:
    """Train the published model anew from zero, on its nights as they are now, and publish it.

    It is the model of a generation without files.
    """
    store = existing_store(url)
    current = store.published
    if current is None or run_of(url, current) not in result.models:
        return result
    nights = tuple(night for night in current.nights if night in store.nights) or store.past.used
    if not nights:
        reason = "no night is left that is learnt from. Publish another generation"
        return _with_notes(result, [f"{run_of(url, current)} was not trained anew: {reason}."])
    if store.open is None:
        night = (store.past.used or nights)[-1]
        begun = Begun(generation=store.next_number, files=(), night=night, why=FORGOTTEN)
        write_event(store.folder, begun)
        store = existing_store(url)
    generation = store.open
    assert generation is not None, "it has just begun"
    rows = rows_of(store, generation, current.window, nights)
    plan = RunFolder(run_of(url, current)).record().plan
    run = f"{generation.folder.url}/{current.run}"
    zero = plan.model_copy(update={"dataset": rows, "start_from": None})
    made_anew = trained(zero, run, retraining.train)
    made = Published(
        generation=generation.number, run=current.run, runs={current.window: current.run},
        weights_sha256=made_anew.weights_sha256, nights=nights, rows=n_rows(store, nights),
        recipe=current.recipe, window=current.window, objective=made_anew.objective,
        certificate=made_anew.certificate, converged=made_anew.converged,
        why=f"{FORGOTTEN}, and learnt anew without them",
    )  # fmt: skip
    write_event(store.folder, made)
    update = {"generation": generation.number, "retrained": (made_anew.run,)}
    return result.model_copy(update=update)
