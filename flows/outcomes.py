"""Results of commands and flows: facts as JSON has them, and whether a tolerance was reached."""
# ruff: noqa: PLC0415 - commands import this before they know what to do

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fewpass.flows.refusals import ToleranceMissed
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sizes import as_fixed, counted, format_bytes

if TYPE_CHECKING:
    from fewpass.pipeline.models.refresh.column_drift import ColumnDrift
    from fewpass.pipeline.models.refresh.drift import Drift
    from fewpass.pipeline.models.refresh.listing import StoreModels
    from fewpass.pipeline.models.refresh.store_events import Event, Published, RefusedFile
    from fewpass.pipeline.runs.outcome import TrainingResult
    from fewpass.pipeline.scoring.evaluated_slices import Slice
    from fewpass.pipeline.scoring.evaluation import Evaluation
    from fewpass.pipeline.settings.training_plan import TrainingPlan
    from fewpass.pipeline.tables.ingest.progress import IngestResult
    from fewpass.pipeline.training.cross_validation import CrossValidated

REFUSED = ("file", "reason", "size", "refused")
COLUMNS = ("generation", "state", "learnt from", "loss before", "above optimum", "finished")
#: Facts of an ingest that are there even where they are 0 or nothing.
OF_EVERY_INGEST = ("rows", "features", "nnz", "labels", "scale", "seconds", "bytes_in", "files")
NOT_OF_INGESTS = {
    "task", "chunks", "chunk_rows", "skipped_rows", "fingerprint", "test_fingerprint",
}  # fmt: skip
UNTOLD = ("begun", "moved", "cleared", "settled", "dropped")  # events that say nothing to people


def require_tolerance(plan: TrainingPlan, *, asked: bool) -> None:
    """Refuse to require a tolerance that the plan does not have."""
    if asked and plan.tol is None:
        raise BadInput(
            "require_tol is set, but the plan asks for no tolerance. Give --tol, or leave "
            "--require-tol out."
        )


def require_convergence(result: TrainingResult, plan: TrainingPlan) -> None:
    """Raise ToleranceMissed where a tolerance was asked for and missed."""
    from fewpass.pipeline.training.missed import other_prover, what_helps

    if result.converged is False:
        prover = other_prover(plan, result)
        raise ToleranceMissed(
            f"{result.convergence.sentence(result.passes)} The model is in {result.run}. "
            f"{what_helps(result, prover)}"
        )


def ingest_facts(result: IngestResult) -> dict[str, Any]:
    """Return what --json prints."""
    every = result.model_dump(mode="json", exclude=NOT_OF_INGESTS) | {
        "encoded": dict(result.encoded)
    }
    return {name: value for name, value in every.items() if value or name in OF_EVERY_INGEST}


def evaluation_facts(evaluation: Evaluation) -> dict[str, Any]:
    """Return what --json prints: error and auc for labels, mse and r2 for numbers, deviance and d2.

    Of more than two classes, the error, r2 if they are grades, and what becomes of each.
    """
    usual: tuple[str, ...] = ("error", "auc") if evaluation.mse is None else ("mse", "r2")
    usual = usual[:1] if evaluation.classes else usual
    usual += ("d2",) if evaluation.deviance is not None else ()
    names = ("rows", "objective", "loss", *usual, "r2", "deviance", "d2", "pinball")
    own = {name: getattr(evaluation, name) for name in names} | evaluation.metrics._asdict()
    facts: dict[str, Any] = {k: v for k, v in own.items() if v is not None or k in usual}
    if evaluation.left_out:
        facts["left_out"] = evaluation.left_out
    if evaluation.skipped:
        facts["skipped"] = evaluation.skipped
    if evaluation.notes:
        facts["notes"] = evaluation.notes
    if evaluation.classes:
        facts["classes"] = [figures._asdict() for figures in evaluation.classes]
    if evaluation.slices:
        facts["slices"] = {column: [*map(slice_facts, of)] for column, of in evaluation.slices}
    return facts


def cross_validation_facts(result: CrossValidated) -> dict[str, Any]:
    """Return what --json prints of a cross-validation with one lam."""
    folds = [
        {name: value for name, value in fold._asdict().items() if name != "evaluation"}
        | {"held_out": evaluation_facts(fold.evaluation)}
        for fold in result.folds
    ]
    means = {
        one.metric: {"mean": one.mean, "standard_error": one.standard_error} for one in result.means
    }
    return result._asdict() | {"folds": folds, "means": means}


def slice_facts(one: Slice) -> dict[str, Any]:
    """Return what --json prints of a slice of the rows."""
    intervals: dict[str, float | None] = {"loss_within": one.loss_within}
    if one.error_low is not None:
        intervals |= {"error_low": one.error_low, "error_high": one.error_high}
    return {"slice": one.name} | evaluation_facts(one.evaluation) | intervals


def models_facts(store: str, listed: StoreModels) -> dict[str, Any]:
    """Return what --json prints of a store: generations, the published one, events, files."""
    return {
        "store": store,
        "published": listed.published,
        "generations": [one._asdict() for one in listed.generations],
        "refused": refused_facts(listed.refused),
        "events": [one.model_dump(mode="json", exclude={"past"}, exclude_none=True)
                   for one in listed.events],
    }  # fmt: skip


def refused_facts(listed: Sequence[RefusedFile]) -> list[dict[str, Any]]:
    """Return refused files as JSON has them."""
    return [
        {"file": one.file.name, "reason": one.why, "size": one.file.bytes, "refused_at": one.at}
        for one in listed
    ]


def refused_rows(listed: Sequence[RefusedFile]) -> list[dict[str, str]]:
    """Return refused files as rows of text."""
    cells = ((one.file.name, one.why, _size(one.file.bytes), when(one.at)) for one in listed)
    return [dict(zip(REFUSED, row, strict=True)) for row in cells]


def model_rows(listed: StoreModels) -> list[dict[str, str]]:
    """Write generations down as rows of text."""
    from fewpass.pipeline.runs.timeline_points import written_gap

    rows = []
    for one in listed.generations:
        nights, gap, objective = len(one.nights), one.certificate, one.objective
        relative = gap / objective if gap and objective else None
        cells = (
            f"{one.generation:06d}", one.state,
            f"{counted(nights, 'night')}, {one.rows:,}" if nights else "-",
            as_fixed(one.loss, 6), written_gap(gap, relative, ".2e") or "-", when(one.at),
        )  # fmt: skip
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
    return rows


def history_rows(events: Sequence[Event]) -> list[dict[str, str]]:
    """Write down what happened in a store as rows of text."""
    return [
        {
            "when": when(event.at),
            "what": _what(event),
            "generation": f"{event.generation:06d}" if event.generation else "-",
            "by": event.by,
            "why": event.why,
        }
        for event in events
        if event.what not in UNTOLD
    ]


def _what(event: Event) -> str:
    """Say in a word or two what happened."""
    if event.what == "evaluated":
        return event.verdict if event.files != () else "learns anew"
    if event.what == "refused":
        return f"refused {event.file.name}"
    return event.what


def drift_rows(drift: Drift) -> list[dict[str, str]]:
    """Write down how far rows are from those before: what is reported first, new columns last."""
    rows = [
        {
            "column": one.column,
            "drift": f"{one.drift:.3g}",
            "usual": _next_to_usual(one),
            "moved most": one.moved,
            "before": one.was,
            "now": one.became,
            "missing": _from_to(one.missing_before, one.missing),
            "unseen": _from_to(one.unseen_before, one.unseen),
        }
        for one in drift.columns
    ]
    new = dict.fromkeys(rows[0], "-") if rows else {}
    rows += [new | {"column": name, "moved most": "new, left out"} for name in drift.left_out]
    return rows


def _next_to_usual(one: ColumnDrift) -> str:
    """Say how many times as far as usually a column moved, and whether that is reported."""
    times = "-" if one.times_usual is None else f"{one.times_usual:.1f} times"
    return f"{times}, told" if one.reported else times


def _from_to(before: float | None, now: float | None) -> str:
    return "-" if before is None or now is None else f"{100 * before:.3g} % to {100 * now:.3g} %"


def publication_facts(store: str, made: Published) -> dict[str, Any]:
    """Return what --json prints of a publication."""
    from fewpass.pipeline.models.refresh.store_state import run_of

    named = ("number", "generation", "weights_sha256", "at", "by", "why")
    return {name: getattr(made, name) for name in named} | {"run": run_of(store, made)}


def _size(size: int | None) -> str:
    return "-" if size is None else format_bytes(size)


def when(time: str | None) -> str:
    """Write a time as people read it, to the minute; UTC, as on record."""
    return "-" if time is None else time[:16].replace("T", " ") + "Z"
