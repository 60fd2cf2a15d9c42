"""Warnings and advice before a training begins: a sentence of fact, and one of what helps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.planning.clustering import clustering_warning
from fewpass.pipeline.planning.conditioning import (
    Conditioning,
    conditioning,
    slowness,
    slowness_for,
)
from fewpass.pipeline.planning.expected_passes import expected_passes
from fewpass.pipeline.planning.forecast import Forecast
from fewpass.pipeline.planning.ill_conditioned import (
    HEAVY_TAIL,
    UNIT_ROWS,
    Columns,
    ill_conditioned,
)
from fewpass.pipeline.planning.job import method_for
from fewpass.pipeline.planning.method_choice import method
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.rows.units import advised_scaling, unlike_columns
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import counted, format_passes
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ENOUGH_MERGES, ProblemStats
from fewpass.solvers.registry import (
    DUAL,
    ONE_LEARNER,
    PRIMAL,
    SEVERAL_LEARNERS,
    SMALLER_DUAL,
    fit_for,
    method_class,
)
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels

FINEST = 1e-14  # relative gap that float64 certifies
ANY = 1.0  # relative gap from here on that asks for no proof, and takes no passes to predict
MANY_PASSES = 100
FEW_PASSES = 30  # what a larger lam is proposed for
TIGHT = 0.75  # of the passes allowed: where as many are usual, they may be too few
BETTER = 0.5  # a cure is named when it leaves at most that share of the passes
STANDARD = "standard"
VARIES, COUNTED = 0.5, 1000  # of the mean: what counts deviate by; rows that are looked at
MANY_CLASSES = 50  # of which most people have fewer, and their targets are amounts
SHORT_OF_MEMORY = ", but needs more `memory`"


def warnings(planner: Planner, plan: TrainingPlan, job: Job, predicted: Forecast) -> list[str]:
    """Return the warnings of `fewpass train` before it begins: why it may not reach its end.

    Parameters
    ----------
    planner
        Knows whether another method fits.
    plan, job
        With the method that is at work.
    predicted
        Of these.
    """
    sorted_rows = clustering_warning(job.dataset.manifest, job.windows)
    said = [sorted_rows] if sorted_rows else []
    if job.rule.n_classes > MANY_CLASSES:
        said.append(
            f"The labels are {job.rule.n_classes} classes, a model each. If they are amounts, "
            "ingest with `task=regression`."
        )
    said += _of_counts(plan, job.dataset)
    if plan.tol is not None and plan.tol < FINEST:
        said.append(
            f"A certificate of {plan.tol:g} is finer than sums over rows in float64, which carry "
            f"about 15 digits: it may never come. Ask for `tol={FINEST:g}` or more."
        )
    if plan.tol is not None and plan.tol < ANY:
        said += _out_of_reach(planner, plan, plan.tol, job, predicted)
    if plan.tol is not None and visits_chunks_alone(plan, job):
        said.append(
            "A window holds one chunk, so that the same rows meet in every pass: dual ascent then "
            "takes about twice the passes, and up to four times. Raise `memory`, or ingest with "
            "smaller chunks (`chunk_bytes`)."
        )
    said += _several_at_work(planner, plan, job)
    if getattr(plan.solver, "batch", None) == "naive":
        said.append(
            "Naive batches step too far where rows are alike, and may circle or diverge. They are "
            "there to be compared with; use `solver.batch=aggressive`."
        )
    columns = Columns(
        lambda: unlike_columns(job.dataset), advised_scaling(job.dataset.manifest.layout)
    )
    kind = method_for(plan).kind
    return [*said, *ill_conditioned(job.problem, job.stats, kind, plan.passes, columns)]


def _of_counts(plan: TrainingPlan, dataset: Dataset) -> Iterator[str]:
    """Yield what suits counts, where targets look like such and nobody has named a loss.

    They are whole numbers from 0 or 1 that differ by much of their mean; years and ages do not.
    """
    targets = dataset.manifest.targets
    if plan.named_loss or isinstance(targets, Labels) or targets.minimum not in {0.0, 1.0}:
        return
    if targets.variance < (VARIES * targets.mean) ** 2:
        return
    some = dataset.sample(COUNTED).target
    if np.array_equal(some, np.round(some)):
        yield (
            f"The targets are whole numbers from {targets.minimum:.0f} to {targets.maximum:,.0f}, "
            "as counts are. `loss=poisson` is made for these, and then usually nearer to them."
        )


def _several_at_work(planner: Planner, plan: TrainingPlan, job: Job) -> Iterator[str]:
    """Yield what several threads or workers had better do, where they are asked for."""
    kind, problem = method_for(plan).kind, job.problem
    able = problem.penalty.is_smooth and not problem.loss.is_wide
    merges = job.stats.merges
    if plan.streams > 1 and kind in (DUAL, SMALLER_DUAL) and merges < ENOUGH_MERGES:
        yield (
            f"The data set has {job.windows.n_chunks} chunks, so that streams of {kind} are added "
            f"up {counted(merges, 'time')} a pass: with fewer than {ENOUGH_MERGES} it takes up to "
            "twice the passes of one stream. Leave `streams` out, or ingest with smaller chunks "
            "(`chunk_bytes`)."
        )
    one_by_one = plan.passes == 1 and kind in (ONE_LEARNER, SEVERAL_LEARNERS)
    if one_by_one and able and plan.streams == 1 and planner.distributed:
        yield (
            "One pass is one chain of steps, which workers take in turn; several chains, averaged, "
            f"come out further from the optimum. Two passes of {DUAL} (`solver={DUAL}`, "
            "`passes=2`) end with a certificate, and workers share their steps where a pass is "
            "long enough for that."
        )


def visits_chunks_alone(plan: TrainingPlan, job: Job) -> bool:
    """Return whether windows of a dual method stay, as each is one chunk of several."""
    windows = job.windows
    several = windows.n_chunks > windows.streams
    dual = method_for(plan).certify_pass is not None
    return several and windows.chunks_per_window == 1 and dual


def _out_of_reach(
    planner: Planner, plan: TrainingPlan, tol: float, job: Job, predicted: Forecast
) -> Iterator[str]:
    """Yield the reason why a tolerance may not be certified in the passes allowed."""
    by_dual_gap, usual = method_for(plan).certify_pass is not None, predicted.usual_passes
    enough, solver = predicted.theory_passes, predicted.solver
    if not job.problem.loss.is_smooth and not by_dual_gap:
        loss = job.problem.loss
        rounded = "" if loss.takes_numbers else ", or `loss=smoothed_hinge`"
        yield (
            f"{solver} cannot certify {tol:g}: the {loss.name} loss has a kink, where gradients "
            f"prove nothing. Use `solver={DUAL}`, whose certificate holds for it{rounded}."
        )
    elif usual is not None and usual > TIGHT * plan.passes:
        allows = f"but `passes` allows {plan.passes}"
        if usual <= plan.passes:
            allows = f"and `passes` allows {plan.passes}, which may be too few"
        yield (
            f"A certificate of {tol:g} usually takes about {format_passes(usual)} here, {allows}. "
            "Raise it, ask for a larger `tol`, or see what `plan` advises."
        )
    elif method_class(method_for(plan).kind).is_sublinear:
        yield (
            f"The excess of {solver} falls like one over the number of passes, and its "
            f"certificate no faster. `solver={DUAL}` proves {tol:g} sooner."
        )
    elif usual is None and (enough is None or enough > plan.passes):
        yield from _unpredictable(planner, plan, tol, job, predicted)


def _unpredictable(
    planner: Planner, plan: TrainingPlan, tol: float, job: Job, predicted: Forecast
) -> Iterator[str]:
    if conditioning(job.problem, job.stats) is None:  # a kink, or too small a lam
        return
    kind, best = best_method(job.problem, job.stats, tol)
    fits = "" if planner.fits(plan.memory, method(kind), in_groups=True) else SHORT_OF_MEMORY
    if plan.passes == 1:  # `passes` decided on the method, too
        yield (
            f"Whether one pass comes to a certificate of {tol:g} cannot be predicted. With more "
            f"`passes`, {kind} usually takes about {best:.0f}{fits}."
        )
        return
    yield (
        f"Whether {predicted.solver} comes to a certificate of {tol:g} in {plan.passes} passes "
        f"cannot be predicted. `solver={kind}` usually takes about {best:.0f}{fits}."
    )


def advice(planner: Planner, plan: TrainingPlan, job: Job, predicted: Forecast) -> list[str]:
    """Return the warnings, and hints that make the training shorter or surer."""
    return [*warnings(planner, plan, job, predicted), *_hints(plan, job, predicted)]


def _hints(plan: TrainingPlan, job: Job, predicted: Forecast) -> Iterator[str]:
    cond = conditioning(job.problem, job.stats)
    if cond is None:  # a kink, or lam is too small for anything to be predicted
        return
    if plan.tol is not None and plan.tol < ANY:
        yield from _shorter(plan, job, cond, predicted)
    if method_class(method_for(plan).kind).halves_steps and cond.largest > HEAVY_TAIL * cond.mean:
        yield (
            f"The longest row's loss is {cond.largest / cond.mean:.0f} times as curved as the "
            "mean, so the first step may be too long; each halving costs an epoch. "
            f"Ingest with `scale={UNIT_ROWS}` to avoid it."
        )


def _shorter(
    plan: TrainingPlan, job: Job, cond: Conditioning, predicted: Forecast
) -> Iterator[str]:
    assert plan.tol is not None
    usual, (kind, best) = predicted.usual_passes, best_method(job.problem, job.stats, plan.tol)
    if usual is not None and best <= BETTER * usual:
        yield f"`solver={kind}` usually takes about {format_passes(best)} to {plan.tol:g}."
    if min(best, usual or best) > MANY_PASSES:
        yield from _cures(plan.tol, job, cond, best)


def _cures(tol: float, job: Job, cond: Conditioning, best: float) -> Iterator[str]:
    yield (
        f"The problem is hard: the mean curvature over lam is {cond.mean / cond.mu:.2g}, "
        f"{slowness_of(cond, job.stats.n):.3g} times the number of rows. What helps is rows of "
        "smaller norm, a larger `lam`, or a larger `tol`."
    )
    for scale, square in scaled_squares(job).items():
        scaled = job.stats._replace(mean_square=square, max_square=square, sigma_square=square)
        kind, passes = best_method(job.problem, scaled, tol)
        if passes <= BETTER * best:
            usual = format_passes(passes)
            yield f"Ingested with `scale={scale}`, {kind} usually takes about {usual}."
    lam = lam_for(FEW_PASSES, cond, job.stats.n, tol)
    if lam is not None:
        yield (
            f"With `lam={lam:.1g}` ({lam * job.stats.n:.2g}/n) {PRIMAL} usually takes about "
            f"{FEW_PASSES} passes; the model is then another."
        )


def best_method(problem: Problem, stats: ProblemStats, tol: float) -> tuple[str, float]:
    """Return the method of many passes that usually takes the fewest, and their number."""
    single, width = stats._replace(streams=1, stream_rows=stats.n), problem.loss.width
    smooth = problem.penalty.is_smooth
    words = (PRIMAL, DUAL) if width == 1 and smooth else (DUAL,)
    passes = {
        solver.kind: expected_passes(solver, problem, single, tol).usual
        for solver in (fit_for(method(word), width, smooth=smooth) for word in words)
    }
    expected = {kind: number for kind, number in passes.items() if number is not None}
    return min(expected.items(), key=lambda item: item[1])


def slowness_of(cond: Conditioning, n: int) -> float:
    """K of S2GD's default step."""
    return slowness(1.0 / (4.0 * cond.mean), cond.mu, n)


def scaled_squares(job: Job) -> dict[str, float]:
    """Return mean ||x||^2 by each of the other scalings that `fewpass ingest` offers."""
    manifest = job.dataset.manifest
    others = {UNIT_ROWS: 1.0}
    if manifest.layout == "dense":
        others[STANDARD] = float(manifest.n_features)
    return {kind: square for kind, square in others.items() if kind != manifest.scaling.kind}


def lam_for(passes: float, cond: Conditioning, n: int, tol: float) -> float | None:
    """Return the lam with which S2GD usually takes that many passes, if there is one."""
    K = slowness_for(passes, tol)
    if K is None or K * n <= 1.0:
        return None
    return (cond.mean - cond.mu) / (K * n - 1.0)  # K = (data's curvature + lam) / (lam n)
