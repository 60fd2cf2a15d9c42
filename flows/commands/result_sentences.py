"""Sentences on a training's result: its held-out loss, its certificate, its tolerance."""
# ruff: noqa: PLC0415 - methods, which other sentences need not wait for

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fewpass.pipeline.runs.timeline_points import NO_BOUND
from fewpass.pipeline.sizes import as_fixed, format_passes

if TYPE_CHECKING:
    from fewpass.pipeline.runs.outcome import TrainingResult
    from fewpass.pipeline.settings.training_plan import TrainingPlan
    from fewpass.pipeline.training.missed import Prover

NO_ROWS_LEFT = (
    "Certificate: not computed; it needs the rows again, which are stored nowhere (--ingest-into "
    "DATASET keeps them)."
)

BY_GRADIENTS = (
    "It is the gradient's bound, which lags behind the true excess; the duality gap of "
    "`solver=psdca` lags less."
)


class Verdict(NamedTuple):
    """A sentence on the tolerance, and if it was reached."""

    sentence: str
    missed: bool  # against what was asked for


def held_out_sentence(result: TrainingResult, metric: str) -> str:
    """Say which model was the best on held-out rows, and whether that ended the training."""
    from fewpass.pipeline.reporting.figure_rows import metric_of

    (chosen,) = result.candidates
    by_loss = chosen["cost"] is None
    what = "the held-out loss was lowest" if by_loss else f"the held-out {metric} was best"
    best = as_fixed(chosen["loss"], 6) if by_loss else metric_of(chosen["cost"], metric)
    ended = "Stopped early" if result.stopped_early else "Ended"
    return (
        f"{ended} after {format_passes(result.passes, '.4g')}: {what} after "
        f"{result.passes_of_model:.4g}, {best}, and that model is kept."
    )


def proves_nothing(result: TrainingResult) -> bool:
    """Return whether a certificate says, of some model, no more than that no loss is below 0."""
    return result.relative_gap is not None and result.relative_gap >= 1.0


def certificate_sentence(result: TrainingResult, prover: Prover | None) -> str:
    """Say how far from the best possible model this one can be."""
    from fewpass.pipeline.training.missed import goes_by_gradients

    if result.certificate is None or result.relative_gap is None:
        return "Certificate: not computed (--certify pays one more pass for it)."
    if proves_nothing(result):
        more = prover.sentence if prover else "More `passes` or a larger `lam` tighten it."
        return f"Certificate: {NO_BOUND}, only that no loss is below 0. {more}"
    relative = result.relative_gap
    hinge = result.hinge_certificate
    whose = f"of each of the {result.classes} models " if result.classes else ""
    return (
        f"Certificate: the objective {whose}is at most {result.certificate:.3g} above the optimum "
        f"({relative:.2g} of it)."
        + (f" With the plain hinge for a loss, at most {hinge:.3g} above its." if hinge else "")
        + (f" {BY_GRADIENTS}" if prover and goes_by_gradients(result.solver) else "")
    )


def prover_of(result: TrainingResult, plan: TrainingPlan) -> Prover | None:
    """Return the method that would prove more, where this one has proven too little."""
    from fewpass.pipeline.training.missed import other_prover

    if result.converged is False or (result.converged is None and proves_nothing(result)):
        return other_prover(plan, result)
    return None


def verdict_on(result: TrainingResult, prover: Prover | None) -> Verdict | None:
    """Say whether the tolerance was reached, and what would help; None where none was asked for."""
    from fewpass.pipeline.training.missed import what_helps

    sentence = result.convergence.sentence(result.passes)
    if not sentence:
        return None
    by_choice = result.passes_of_model not in (None, result.passes)
    missed = result.converged is False and not by_choice
    more = f" {what_helps(result, prover)}" if missed else ""
    return Verdict(f"{sentence}{more}", missed)
