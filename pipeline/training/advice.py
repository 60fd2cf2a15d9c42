"""What to know before a training begins, in sentences: one of fact, one of what helps."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.streaming.sweeps import Job
from pipeline.training.clustering import clustering_warning
from pipeline.training.forecast import Forecast
from pipeline.training.plan import TrainingPlan
from solvers.outlook import Conditioning, conditioning, slowness, slowness_for, usual_passes
from solvers.sdca import Sdca

MANY_PASSES = 100
FEW_PASSES = 30  # what a larger lam is proposed for
HEAVY_TAIL = 50.0  # largest over mean smoothness
BETTER = 0.5  # a cure is named when it leaves at most that share of the passes
UNIT_ROWS, STANDARD = "unit-rows", "standard"


def warnings(plan: TrainingPlan, job: Job, foreseen: Forecast) -> list[str]:
    """Return what `fewpass train` says before it begins: why it may not come to its end."""
    sorted_rows = clustering_warning(job.dataset.manifest, job.windows)
    usual, said = foreseen.usual_passes, [sorted_rows] if sorted_rows else []
    if usual is not None and usual > plan.passes:
        said.append(
            f"A certificate of {plan.tol:g} usually takes about {usual:.0f} passes here, but "
            f"--passes allows {plan.passes}. Raise it, ask for a larger --tol, or see what "
            "fewpass plan advises."
        )
    if isinstance(plan.solver, Sdca) and plan.solver.batch == "naive":
        said.append(
            "Naive batches step too far where rows are alike, and may circle or diverge. They are "
            "there to be compared with; use --set solver.batch=aggressive."
        )
    return said


def advice(plan: TrainingPlan, job: Job, foreseen: Forecast) -> list[str]:
    """Return the warnings and what would make the training shorter or surer."""
    return [*warnings(plan, job, foreseen), *_hints(plan, job, foreseen)]


def _hints(plan: TrainingPlan, job: Job, foreseen: Forecast) -> Iterator[str]:
    if plan.solver.audit is not None:
        return  # the duality gap goes to zero for any loss
    known = conditioning(job.problem, job.facts)
    if known is None:
        yield (
            "The hinge has a kink, so its certificate does not go to zero. Use --solver sdca, or "
            "--loss smoothed_hinge, for one that does."
        )
        return
    usual = foreseen.usual_passes
    if plan.tol is not None and usual is None:
        usual = passes_of_s2gd(known, job.facts.n, plan.tol)
        yield (
            f"{foreseen.solver} is made for few passes, and its certificate falls slowly. "
            f"--solver s2gd+ usually takes about {usual:.0f} passes to a tolerance of {plan.tol:g}."
        )
    if plan.tol is not None and usual is not None and usual > MANY_PASSES:
        yield from _cures(plan, job, known, usual)
    if foreseen.usual_passes is not None and known.largest > HEAVY_TAIL * known.mean:
        yield (
            f"The longest row's loss is {known.largest / known.mean:.0f} times as curved as the "
            "mean, so the first step may be too long; each halving costs an epoch. "
            f"Ingest with --scale {UNIT_ROWS} to avoid it."
        )


def _cures(plan: TrainingPlan, job: Job, known: Conditioning, usual: float) -> Iterator[str]:
    assert plan.tol is not None
    K = known.mean / (known.mu * job.facts.n)
    yield (
        f"The problem is hard: the mean curvature over lam is {known.mean / known.mu:.2g}, "
        f"{K:.3g} times the number of rows. What helps is rows of smaller norm, a larger --lam, or "
        "a larger --tol."
    )
    for scale, square in scaled_squares(job).items():
        scaled = conditioning(
            job.problem, job.facts._replace(mean_square=square, max_square=square)
        )
        assert scaled is not None
        passes = passes_of_s2gd(scaled, job.facts.n, plan.tol)
        if passes <= BETTER * usual:
            yield f"Ingested with --scale {scale}, it usually takes about {passes:.0f} passes."
    lam = lam_for(FEW_PASSES, known, job.facts.n, plan.tol)
    if lam is not None:
        yield (
            f"With --lam {lam:.1g} ({lam * job.facts.n:.2g}/n) it usually takes about "
            f"{FEW_PASSES} passes; the model is then another."
        )


def scaled_squares(job: Job) -> dict[str, float]:
    """Return what mean ||x||^2 would be by the other scalings that `fewpass ingest` offers."""
    manifest = job.dataset.manifest
    others = {UNIT_ROWS: 1.0}
    if manifest.layout == "dense":
        others[STANDARD] = float(manifest.n_features)
    return {kind: square for kind, square in others.items() if kind != manifest.scaling.kind}


def passes_of_s2gd(known: Conditioning, n: int, tol: float) -> float:
    """Passes that S2GD with its default step usually takes."""
    return usual_passes(slowness(1.0 / (4.0 * known.mean), known.mu, n), tol)


def lam_for(passes: float, known: Conditioning, n: int, tol: float) -> float | None:
    """Return the lam with which S2GD usually takes that many passes, if there is one."""
    K = slowness_for(passes, tol)
    if K is None or K * n <= 1.0:
        return None
    return (known.mean - known.mu) / (K * n - 1.0)  # K = (data's curvature + lam) / (lam n)
