"""Refreshing a model: new files become a data set, a run, and a decision.

A generation (generations.py) without a decision is finished before new files are considered, so
that a refresh that was killed is simply run again.  Every file is taken once (inbox.py);
unreadable files are refused (taking.py), and a generation that cannot be finished can be abandoned.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.file_states import FileState, looked
from fewpass.pipeline.models.refresh.gates import GateResult
from fewpass.pipeline.models.refresh.generations import (
    Decision,
    Generation,
    begin_generation,
    carry_out,
    decided,
    generations,
    taken,
    with_states,
    write_decision,
)
from fewpass.pipeline.models.refresh.inbox import Arrivals, arrivals
from fewpass.pipeline.models.refresh.publications import published, user_and_host
from fewpass.pipeline.models.refresh.refused_files import (
    Refused,
    forget,
    reading_of,
    record_refused,
    refusal,
    refused,
)
from fewpass.pipeline.runs.lease import Lease
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.registry import LOSS_OF_CLASSES
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY

LEASE = "refresh.lease.json"  # of a store
HELD_OUT = 0.1  # of the first generation's rows, without a given held-out data set


def refresh_lock(store: str) -> Lease:
    """Lock a store against other refreshes during a `with` block.

    Raises
    ------
    InUse
        Another process is refreshing it.  A BadInput.
    """
    return Lease(Folder(store), LEASE, "refreshed")


def next_generation(plan: RefreshPlan) -> Generation | None:
    """Return the unfinished generation, else a new one of new files; None without any.

    Raises
    ------
    BegunMeanwhile
        Another refresh began one at the same time; see `refresh_lock`.
    """
    store = Folder(plan.store)
    every = generations(store)
    if every:
        if not every[-1].is_decided:
            if not every[-1].files:
                raise BadInput(
                    f"Generation {every[-1].number:06d} of {plan.store} is of a forget that was "
                    "cut short. Run that again (`retrain`, `allow_none`), or abandon the "
                    "generation."
                )
            return _as_it_is_now(plan, every[-1])
        carry_out(plan.store, every[-1])  # a refresh may have been killed before this
    new = _new_in(plan, store, every)
    return begin_generation(store, len(every) + 1, new) if new else None


def _as_it_is_now(plan: RefreshPlan, generation: Generation) -> Generation:
    """Record the states of files that will be read now."""
    if Folder(generation.data).exists(KEY):
        return generation
    now = {one.name: one for one in looked(plan.sources)}
    return with_states(generation, tuple(now.get(one.name, one) for one in generation.states))


def _new_in(plan: RefreshPlan, store: Folder, every: Sequence[Generation]) -> tuple[FileState, ...]:
    """Return the files to take; record why others are not, and where moved ones are."""
    records, reading = refused(store), reading_of(plan.ingest)
    passed = [one.state for one in records if one.reading == reading]
    result = arrivals(plan.sources, taken(every), passed, settle_s=plan.settle)
    waiting = _not_taken(result)
    record_refused(store, waiting)
    listed = {one.file for one in waiting} | {
        one.name for one in (*result.new, *result.passed_over)
    }
    forget(store, (one.file for one in records if one.file not in listed and _is_past(one, every)))
    now = {(one.generation, one.then): one.now for one in result.moved}
    for number in {number for number, _ in now}:
        states = every[number - 1].states
        with_states(every[number - 1], tuple(now.get((number, one), one) for one in states))
    return result.new


def _not_taken(result: Arrivals) -> list[Refused]:
    """Return the records of files that wait, or whose rows stay as they were taken."""
    waits = "it is still being written. A refresh takes it once it is at rest."
    changed = (
        "it has changed since generation {:06d} took it, whose rows are as they were then. Write "
        "new rows to a file of their own."
    )
    return [
        *(refusal(one, waits) for one in result.growing),
        *(refusal(one.file, one.reason) for one in result.cannot_replace),
        *(refusal(file, changed.format(one.generation))
          for one in result.changed for file in one.changed),
    ]  # fmt: skip


def _is_past(record: Refused, every: Sequence[Generation]) -> bool:
    """Whether a file has gone, or is as a generation has taken it."""
    now = record.state.now()
    took = [one for those in taken(every).values() for one in those if one.name == record.file]
    return now is None or any(not now.differs(one) for one in took)


def ingest_plan(plan: RefreshPlan, generation: Generation) -> IngestPlan:
    """Return the ingest plan of a generation, with the columns of the first one."""
    first = first_of(plan.store)
    values = plan.ingest.model_dump()
    values |= {"sources": generation.files, "dataset": generation.data}
    if generation.number != first:
        values |= {"like": f"{_generation_at(plan.store, first)}/data", "scale": "auto"}
    elif plan.held_out is None:
        values["test_fraction"] = HELD_OUT
    return IngestPlan.model_validate(values)


def first_of(store: str) -> int:
    """Return the number of the generation that defines the columns of all others."""
    every = generations(Folder(store))
    return next((one.number for one in every if not one.is_abandoned), len(every) + 1)


def _generation_at(store: str, number: int) -> str:
    return f"{store.rstrip('/')}/generations/{number:06d}"


def training_plan(plan: RefreshPlan, generation: Generation) -> TrainingPlan:
    """Return the training plan of a generation: on its own rows, starting at the published model.

    A resumed training keeps the model that it started at, whatever is published since.  n in a lam
    like "1/n" is the number of all rows so far, as the model was trained on all of them.  A store
    whose model is one for each class, as before `classes` existed, goes on so.
    """
    lam = plan.training.lam.resolved("/n", rows_so_far(plan, generation))
    start = _start_of(plan.store, RunFolder(generation.run))
    changed: dict[str, Any] = {"dataset": generation.data, "start_from": start, "lam": lam}
    is_open = plan.training.classes == "auto" and plan.training.loss != LOSS_OF_CLASSES
    if is_open and start is not None and RunFolder(start).record().plan.classes == "ovr":
        changed["classes"] = "ovr"
    if len(lam.factors) > 1 or plan.training.calibrate or plan.training.early_stopping:
        changed["held_out"] = held_out(plan)
    return TrainingPlan.model_validate(plan.training.model_dump() | changed)


def _start_of(store: str, run: RunFolder) -> str | None:
    """Return the run whose model a training starts, or has started, at."""
    if run.exists():
        return run.record().plan.start_from
    current = published(store)
    return current.run_in(store) if current else None


def rows_so_far(plan: RefreshPlan, generation: Generation) -> int:
    """Return the number of rows of this and all earlier generations."""
    rows = Dataset.open(generation.data).manifest.n_rows
    return rows + rows_before(plan.store, generation)


def rows_before(store: str, generation: Generation) -> int:
    """Return the number of rows of all earlier generations."""
    if generation.number == 1:
        return 0
    before = Folder(store).child(f"generations/{generation.number - 1:06d}")
    return decided(before, "rows", int)


def held_out(plan: RefreshPlan) -> str:
    """Return the address of the held-out data set."""
    return plan.held_out or f"{_generation_at(plan.store, first_of(plan.store))}/data-test"


def decide(
    plan: RefreshPlan, generation: Generation, trained: TrainingResult,
    loss: float, loss_before: float | None, after: int,
    gates: Sequence[GateResult] = (), drift: float | None = None,
) -> Decision:  # fmt: skip
    """Publish a generation's model unless it is worse by more than the margin; record the reason.

    If the plan requires it, a model that missed the tolerance is not published; nor is one that did
    not pass a gate.

    Parameters
    ----------
    loss, loss_before
        Mean losses on the held-out rows: of the new model, and of the published one, if any.
    after
        Number of the publication of the latter; `publications.NONE_YET` if there is none.
    gates, drift
        What came of the plan's gates, and the largest drift of its rows; both are recorded.

    Raises
    ------
    PublishedMeanwhile
        Another model was published since: nothing is decided, the next refresh decides again.
    """
    rows, converged = rows_so_far(plan, generation), trained.converged
    good, reason = _verdict(plan, loss, loss_before)
    if converged is False:
        good = good and not plan.require_tol
        reason = f"{reason}. {trained.convergence.sentence(trained.passes)}".rstrip(".")
    failed = [f"{one.gate} failed: {one.reason}" for one in gates if not one.passed]
    if failed:
        good, reason = False, f"{'; '.join(failed)}; and {reason}"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    made = Decision(
        good, reason, loss, loss_before, rows, after, trained.objective, trained.certificate,
        now, user_and_host(), converged, drift=drift, gates=tuple(one._asdict() for one in gates),
    )  # fmt: skip
    write_decision(plan.store, generation, made)
    return made


def _verdict(plan: RefreshPlan, loss: float, loss_before: float | None) -> tuple[bool, str]:
    """Return whether a loss is good enough to publish, and why."""
    if loss_before is None:
        return True, "it is the first model"
    more = f" and the margin of {plan.margin:g}" if plan.margin else ""
    against = f"{loss_before:.6g} of the model published before{more}"
    if loss <= loss_before + plan.margin:
        return True, f"its loss {loss:.6g} is at most {against}"
    return False, f"its loss {loss:.6g} is above {against}, which is kept"


def require_judge(plan: RefreshPlan) -> None:
    """Refuse a store without held-out rows, if none are given."""
    if not Folder(held_out(plan)).exists("manifest.json"):
        raise BadInput(
            f"There are no held-out rows at {held_out(plan)}. Name a data set as held_out."
        )
