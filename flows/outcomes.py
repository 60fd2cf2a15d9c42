"""Results of commands and flows: facts as JSON has them, and whether a tolerance was reached."""
# ruff: noqa: PLC0415 - commands import this before they know what to do

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fewpass.flows.refusals import ToleranceMissed
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sizes import format_bytes

if TYPE_CHECKING:
    from fewpass.pipeline.models.refresh.column_drift import ColumnDrift
    from fewpass.pipeline.models.refresh.drift import Drift
    from fewpass.pipeline.models.refresh.generations import GenerationList, GenerationState
    from fewpass.pipeline.models.refresh.publications import Publication
    from fewpass.pipeline.models.refresh.refused_files import Refused
    from fewpass.pipeline.models.refresh.store_history import StoreEvent
    from fewpass.pipeline.runs.outcome import TrainingResult
    from fewpass.pipeline.scoring.evaluated_slices import Slice
    from fewpass.pipeline.scoring.evaluation import Evaluation
    from fewpass.pipeline.settings.training_plan import TrainingPlan
    from fewpass.pipeline.tables.ingest.progress import IngestResult
    from fewpass.pipeline.training.cross_validation import CrossValidated

ASIDE = ("file", "reason", "size", "refused")
COLUMNS = ("generation", "state", "loss", "above optimum", "decided")


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
        prover = other_prover(plan, result.solver)
        raise ToleranceMissed(
            f"{result.convergence.sentence(result.passes)} The model is in {result.run}. "
            f"{what_helps(result, prover)}"
        )


def ingest_facts(result: IngestResult) -> dict[str, Any]:
    """Return what --json prints."""
    facts = {
        "dataset": result.dataset,
        "rows": result.rows,
        "features": result.features,
        "nnz": result.nnz,
        "labels": result.labels,
        "scale": result.scale,
        "seconds": result.seconds,
        "bytes_in": result.bytes_in,
        "bytes_out": result.bytes_out,
        "peak_memory_bytes": result.peak_memory_bytes,
    }
    if result.test_dataset is not None:
        facts |= {"test_dataset": result.test_dataset, "test_rows": result.test_rows}
    if result.left_out:
        facts["left_out"] = result.left_out
    if result.partitioned_again:
        facts["partitioned_again"] = result.partitioned_again
    if result.encoded:
        facts["encoded"] = dict(result.encoded)
    if result.notes:
        facts["notes"] = result.notes
    if result.skipped:
        facts["skipped"] = result.skipped
    if result.beyond:
        facts["beyond"] = result.beyond
    if result.merged:
        facts["merged"] = result.merged
    return facts


def evaluation_facts(evaluation: Evaluation) -> dict[str, Any]:
    """Return what --json prints: error and auc for labels, mse and r2 for numbers, deviance and d2.

    Of more than two classes, the error and what becomes of each.
    """
    figures: tuple[str, ...] = ("error", "auc") if evaluation.mse is None else ("mse", "r2")
    if evaluation.deviance is not None:
        figures = (*figures, "deviance", "d2")
    if evaluation.pinball is not None:
        figures = (*figures, "pinball")
    names = ("rows", "objective", "loss", *figures)
    facts = {name: getattr(evaluation, name) for name in names}
    if evaluation.metrics is not None:
        facts |= {k: v for k, v in evaluation.metrics._asdict().items() if v is not None}
    if evaluation.left_out:
        facts["left_out"] = evaluation.left_out
    if evaluation.classes:
        del facts["auc"]
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


def models_facts(listed: GenerationList, moves: Sequence[Publication]) -> dict[str, Any]:
    """Return what --json prints: generations, which one is used, publications, refused files."""
    from fewpass.pipeline.models.refresh.store_history import store_history

    generations = [
        s._asdict()
        | {"publications": [p.number for p in s.publications]}
        | {"drift_refusals": [one._asdict() for one in s.drift_refusals]}
        for s in listed
    ]
    return {
        "published": moves[-1].generation if moves else None,
        "generations": generations,
        "publications": [move._asdict() for move in moves],
        "history": [event._asdict() for event in store_history(listed, moves)],
        "refused": refused_facts(listed.refused),
    }


def refused_facts(listed: Sequence[Refused]) -> list[dict[str, Any]]:
    """Return refused files as JSON has them."""
    names = ("file", "reason", "size", "changed", "refused_at")
    return [{name: getattr(one, name) for name in names} for one in listed]


def refused_rows(listed: Sequence[Refused]) -> list[dict[str, str]]:
    """Return refused files as rows of text."""
    return [
        dict(
            zip(
                ASIDE,
                (one.file, one.reason, _size(one.size), when(one.refused_at)),
                strict=True,
            )
        )
        for one in listed
    ]


def model_rows(listed: Sequence[GenerationState]) -> list[dict[str, str]]:
    """Write generations down as rows of text."""
    from fewpass.flows.display.console import as_fixed, or_dash

    rows = []
    for one in listed:
        made = one.decision or {}
        cells = (
            f"{one.generation:06d}",
            one.state,
            as_fixed(made.get("loss"), 6),
            or_dash(made.get("certificate"), ".2e"),
            when(made.get("decided_at")),
        )
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
    return rows


def history_rows(events: Sequence[StoreEvent]) -> list[dict[str, str]]:
    """Write down what happened in a store as rows of text."""
    return [
        {
            "when": when(one.when),
            "what": one.what,
            "generation": "-" if one.generation is None else f"{one.generation:06d}",
            "by": one.by,
            "why": one.why,
        }
        for one in events
    ]


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


def publication_facts(store: str, made: Publication) -> dict[str, Any]:
    """Return what --json prints of a publication."""
    return made._asdict() | {"run": made.run_in(store)}


def _size(size: int | None) -> str:
    return "-" if size is None else format_bytes(size)


def when(time: str | None) -> str:
    """Write a time as people read it, to the minute; UTC, as on record."""
    return "-" if time is None else time[:16].replace("T", " ")
