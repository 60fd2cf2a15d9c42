"""Result of a refresh, as facts and as the sentence of a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.models.refresh.night_rule import REPLACES, TO_REPLACE
from fewpass.pipeline.models.refresh.past_nights import PUBLISHED
from fewpass.pipeline.models.refresh.store_events import (
    GateFact,
    ModelLearnt,
    NotPublished,
    Published,
    RefusedFile,
    RowsEvaluated,
)
from fewpass.pipeline.models.refresh.store_state import Generation, Store, run_of
from fewpass.pipeline.sizes import counted
from fewpass.storage.addresses import command

State = Literal["published", "kept back", "waits", "settled", "unchanged"]
EXPLAINED = "A model of tonight alone explains it: the world or the coding has changed"
UNEXPLAINED = "No model explains it: its labels look wrong"


class RefreshResult(BaseModel):
    """Result of a refresh.

    Attributes
    ----------
    state
        published; kept back (by a gate, held-out rows or a missed tolerance); waits (an odd night);
        settled (files of a waiting or quarantined night had changed); unchanged (nothing new).
    message
        The same in sentences.
    generation, files
        The number, and the files that were taken; None and nothing where nothing is new.
    model
        Address of the run that is published now.
    nights, rows, window
        Generations, and number of rows, that the generation's model has learnt from.
    loss, usual, usual_error, deviations
        Mean loss of the published model on the rows before they were learnt, the usual one, its
        deviation, and by how many of these it is above.
    explained
        Of an odd night, whether a model of its own rows explains it.
    objective, certificate, converged
        Of the generation's model; the objective is at most `certificate` above the optimum.
    gates
        What came of each.
    refused, growing
        Files that were not taken: unreadable ones, and those that still change.
    notes
        On the rows of the generation: what somebody should look at.
    earlier
        Results of other generations that the same refresh finished.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    store: str
    state: State
    message: str
    generation: int | None = None
    files: tuple[str, ...] = ()
    model: str | None = None
    nights: tuple[int, ...] = ()
    rows: int = 0
    window: str = ""
    loss: float | None = None
    usual: float | None = None
    usual_error: float | None = None
    deviations: float | None = None
    explained: bool | None = None
    objective: float | None = None
    certificate: float | None = None
    converged: bool | None = None
    gates: tuple[GateFact, ...] = ()
    refused: tuple[RefusedFile, ...] = ()
    growing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    earlier: tuple[RefreshResult, ...] = ()


def unchanged(store: Store, growing: Sequence[FileState]) -> RefreshResult:
    """Return the result of a refresh that found nothing new."""
    refused = ""
    if store.refused:
        refused = f"; {counted(len(store.refused), 'file')} refused"
    message = f"Nothing to do: there is no new file{refused}.{_growing(growing)}"
    return RefreshResult(
        store=store.folder.url, state="unchanged", message=message, model=_model(store),
        refused=store.refused, growing=tuple(file.name for file in growing),
    )  # fmt: skip


def result_of(store: Store, generation: Generation, growing: Sequence[FileState]) -> RefreshResult:
    """Return what came of a generation that is finished."""
    evaluated, learnt = generation.evaluated, generation.learnt
    assert evaluated is not None, "it is finished"
    sentences = [_sentence(store, generation, evaluated), *_others(store, generation)]
    sentences += [f"Drift: {one.why}." for one in generation.drift if not one.refused]
    refused = f"{counted(len(store.refused), 'file')} refused." if store.refused else ""
    message = " ".join(filter(None, [*sentences, refused])) + _growing(growing)
    scores = evaluated.scores
    return RefreshResult(
        store=store.folder.url,
        state=_state(generation, evaluated),
        message=message,
        generation=generation.number,
        files=tuple(file.name for file in generation.files),
        model=_model(store),
        nights=numbers_of(store, learnt.nights) if learnt else (),
        rows=learnt.rows if learnt else 0,
        window=learnt.window if learnt else "",
        loss=scores.of(PUBLISHED)[0] if scores else None,
        usual=evaluated.usual,
        usual_error=evaluated.usual_error,
        deviations=evaluated.deviations,
        explained=evaluated.explained,
        objective=learnt.objective if learnt else None,
        certificate=learnt.certificate if learnt else None,
        converged=learnt.converged if learnt else None,
        gates=learnt.gates if learnt else (),
        refused=store.refused,
        growing=tuple(file.name for file in growing),
        notes=evaluated.notes,
    )


def numbers_of(store: Store, nights: Sequence[int]) -> tuple[int, ...]:
    """Return the generations whose rows some nights have."""
    return tuple(store.of_night(night).number for night in nights)


def _model(store: Store) -> str | None:
    return None if store.published is None else run_of(store.folder.url, store.published)


def _state(generation: Generation, evaluated: RowsEvaluated) -> State:
    if isinstance(generation.ended, Published):
        return "published"
    if isinstance(generation.ended, NotPublished):
        return "kept back"
    return "waits" if evaluated.verdict in ("waits", TO_REPLACE) else "settled"


def _sentence(store: Store, generation: Generation, evaluated: RowsEvaluated) -> str:
    """Say what became of a generation, and why."""
    name = f"Generation {generation.number:06d}"
    if generation.learnt is None:
        return _waiting(store, name, evaluated)
    learnt = generation.learnt
    if isinstance(generation.ended, NotPublished):
        why = learnt.why.rstrip(".")
        said = f"{name} kept back: {why}. The next refresh learns from its rows, too."
        return f"{said} {_published_still(store)}".rstrip()
    source = _learnt_from(store, learnt, evaluated)
    return f"{name} published: {source}.{_window(learnt)}{_loss(evaluated)}"


def _learnt_from(store: Store, learnt: ModelLearnt, evaluated: RowsEvaluated) -> str:
    rows, nights, used = counted(learnt.rows, "row"), learnt.nights, store.past.used
    if evaluated.verdict == "first":
        return f"the first model, learnt from {rows}"
    if not set(nights) <= {*used}:
        which = f"{len(nights)} nights, some of which are quarantined"
    elif len(nights) == len(used) > 1:
        which = f"all {len(nights)} nights"
    elif len(nights) == 1:
        which = "the newest night alone" if evaluated.verdict == REPLACES else "tonight alone"
    else:
        which = f"the newest {len(nights)} nights"
    return f"learnt from {which} ({rows})"


def _window(learnt: ModelLearnt) -> str:
    choice = learnt.choice
    if choice is None or not choice.changed or not choice.difference:
        return ""
    return (
        f" Its window had {-choice.difference:.2g} +- {choice.error:.1g} less loss over "
        f"{counted(len(choice.nights), 'night')} than the longest."
    )


def _loss(evaluated: RowsEvaluated) -> str:
    if evaluated.scores is None or evaluated.usual is None or evaluated.verdict != "usual":
        return ""
    loss, _ = evaluated.scores.of(PUBLISHED)
    compares = evaluated.usual != loss  # or else no night says yet what is usual
    usual = f" (usual {evaluated.usual:.4g} +- {evaluated.usual_error:.2g})" * compares
    return (
        f" The model before had loss {loss:.4g} on tonight's rows before they were learnt{usual}."
    )


def _waiting(store: Store, name: str, evaluated: RowsEvaluated) -> str:
    if evaluated.scores is None or evaluated.verdict == REPLACES:
        return f"{name} replaces the rows of a night that is not learnt from; nothing was learnt."
    loss, _ = evaluated.scores.of(PUBLISHED)
    why = {True: f" {EXPLAINED}.", False: f" {UNEXPLAINED}.", None: ""}[evaluated.explained]
    take = command("store", "take", store.folder.url, name.removeprefix("Generation "))
    if evaluated.verdict == TO_REPLACE:
        (stored,) = numbers_of(store, evaluated.nights)
        of = (
            f" Files of {stored:06d} have changed: its rows stay, and those of the files wait until"
        )
        then = f"{take} has them take the place of its own, or the files change again."
    else:
        of, then = "", f"No row is lost, the next refresh decides; {take} has it learnt from."
    return (
        f"{name} waits: loss {loss:.4g}, "
        f"usual {evaluated.usual:.4g} +- {evaluated.usual_error:.2g}."
        f"{why} {_published_still(store)}{of} {then}"
    )


def _published_still(store: Store) -> str:
    current = store.published
    return "" if current is None else f"{current.generation:06d} stays published."


def _others(store: Store, generation: Generation) -> list[str]:
    """Say what became of nights before by this one."""
    evaluated = generation.evaluated
    if evaluated is not None and evaluated.verdict == REPLACES and generation.files:
        took = store.versions(generation.night)
        before = [n for n in took if n.number < generation.number and not n.waits_to_replace]
        return [f"Files of {before[-1].number:06d} had changed: these rows take its rows' place."]
    if evaluated is None or evaluated.verdict in ("usual", "waits", "first", REPLACES, TO_REPLACE):
        return []
    nights = [night for night in evaluated.nights if night != generation.night]
    which = ", ".join(f"{number:06d}" for number in numbers_of(store, nights))
    are = "is" if len(nights) == 1 else "are"
    said = {
        "confirms": f"{which} {are} confirmed.",
        "quarantines": f"{which} {are} quarantined: the rows stay, and compete.",
        "takes": f"{which} {are} taken, as {counted(len(nights), 'night')} waited."
        if nights
        else "It is odd, and a model of its own rows explains it.",
        "as a week ago": f"{which}, a week before, was as odd, and is taken back.",
    }
    return [said[evaluated.verdict]]


def _growing(files: Sequence[FileState]) -> str:
    if not files:
        return ""
    return f" {counted(len(files), 'file')} still growing, and left for the next refresh."
