"""lam where nobody gave one: the best of some by the loss of held-out rows.

c = lam n hardly depends on how many rows there are: it is chosen on a sample (100,000 rows or a
tenth, whichever is more, as far as the memory goes), by models that are only good to a percent.
The training learns from all rows.

    for c in 1000, 100, 10, 1, .1, .01 (10,000, ... where the first is the best so far), then
            between the best and the better one next to it:
        the loss of the held-out rows (lam_comparison.py)
    the c nearest to 1 whose loss is within one standard error and a percent of the least, or within
        a thousandth; nearest to the one that the form of an additive model was chosen with

The standard error is that of the mean difference from the best, row by row.  With a penalty of
sizes, shares of the largest lam take the place of c, smaller ones while the last is the best, and
the largest within one standard error is taken, which leaves the fewest columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.passes.blas import one_blas_thread
from fewpass.pipeline.planning.default_memory import require_memory
from fewpass.pipeline.planning.largest_lam import with_largest_lam
from fewpass.pipeline.planning.problem import loss_of
from fewpass.pipeline.runs.grid import Candidate, LamOrigin, best_of, finite
from fewpass.pipeline.scoring.row_losses import RowLosses
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.lam_comparison import LamComparison
from fewpass.pipeline.training.lam_sample import LEAST_ROWS
from fewpass.storage.column_schema import GroupedChoice
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Values

MULTIPLES = (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)  # of 1/n
LARGEST = 1e7  # of them: where the first is the best, ten times as much is tried
SMALLEST = 1e-7  # dispersion
SHARES = (0.5, 0.2, 0.1, 0.03, 0.01, 0.003)  # of the largest lam, with a penalty of sizes
MORE_SHARES = (0.001, 0.0003, 0.0001, 3e-5, 1e-5)  # one by one, while the last is the best


def with_chosen_lam(
    plan: TrainingPlan,
    dataset: Dataset,
    held_out: Dataset | None = None,
    *,
    near: bool = True,
    compared: LamComparison | None = None,
) -> tuple[TrainingPlan, LamOrigin | None]:
    """Return the plan with lam chosen where it is "auto", once it fits into its memory, and how.

    Nothing is said of a lam that was given, nor where rows are too few, or too equal, to choose by.

    Parameters
    ----------
    plan
        What is asked for.
    dataset
        The rows to train on.
    held_out
        Rows to compare by; None: some of the others.
    near
        Whether the training is one of this process, and may use its memory.
    compared
        The rows to compare on, where they are read already.
    """
    if not plan.lam.is_auto:
        return plan, None
    few = dataset.n_rows < LEAST_ROWS or _are_equal(dataset)
    if plan.solver.goal == "steps" or few:
        return plan.model_copy(update={"lam": Lam.of("1/n")}), None
    encoding = dataset.schema.encoding if dataset.schema else None
    if held_out is None and encoding and encoding.grouped and not plan.l1_share:
        origin = by_groups(encoding.grouped, dataset.n_rows)
        return plan.model_copy(update={"lam": Lam.of(origin.written)}), origin
    require_memory(plan, dataset, near=near)
    with one_blas_thread():
        compared = compared or LamComparison.on(plan, dataset, held_out)
        origin = origin_on(plan, dataset, compared)
    lam = Lam.of(origin.written)
    if lam.has("max"):
        lam = Lam.of(best_of([*origin.candidates]).lam)
    return plan.model_copy(update={"lam": lam}), origin


def by_groups(grouped: GroupedChoice, n: int) -> LamOrigin:
    """Return the lam of n rows that whole groups of rows chose together with the form."""
    one = Candidate(grouped.lam / n, grouped.loss, None, standard_error=0.0)
    return LamOrigin(
        f"{grouped.lam:g}/n", (one,), grouped.rows, grouped.held_out_rows, groups_of=grouped.by
    )


def _are_equal(dataset: Dataset) -> bool:
    """Say whether targets are numbers that do not differ, nor by what they count in.

    Of counts that are all 0 each lam has its model far below 0, which takes long and tells nothing.
    """
    targets, offsets = dataset.manifest.targets, dataset.manifest.offsets
    if not isinstance(targets, Values) or targets.minimum != targets.maximum:
        return False
    return offsets is None or targets.maximum == 0.0


def origin_on(plan: TrainingPlan, dataset: Dataset, compared: LamComparison) -> LamOrigin:
    """Compare the coarse grid, then what lies between the best two neighbours."""
    usual = _usual_multiple(plan, dataset)
    multiples = tuple(usual * number for number in MULTIPLES)
    unit, coarse = ("max", SHARES) if plan.l1_share else ("/n", multiples)
    numbers, losses = [*coarse], compared.losses(_with_lams(plan, unit, coarse))
    while unit == "/n" and numbers[0] < usual * LARGEST and not np.argmin(losses.criterion()):
        numbers = [10.0 * numbers[0], *numbers]
        losses = compared.losses(_with_lams(plan, unit, numbers[:1])).with_models(losses)
    for share in MORE_SHARES if unit == "max" else ():
        if np.argmin(losses.criterion()) < len(numbers) - 1:
            break
        numbers.append(share)
        losses = losses.with_models(compared.losses(_with_lams(plan, unit, numbers[-1:])))
    numbers = [*numbers, between_best(numbers, losses.criterion())]
    losses = losses.with_models(compared.losses(_with_lams(plan, unit, numbers[-1:])))
    lams = with_largest_lam(_with_lams(plan, unit, numbers), dataset).lam.values(dataset.n_rows)
    candidates = candidates_of(lams, losses)
    likely = _form_lam(dataset) if usual == 1.0 else usual
    choice = best_of(candidates, None if plan.l1_share else likely / dataset.n_rows)
    number = numbers[lams.index(choice.lam)]
    ordered = sorted(candidates, key=lambda each: -each.lam)
    _, rows, held_out, folds, times = compared
    written = f"{number:g}{unit}"
    origin = LamOrigin(written, tuple(ordered), rows, held_out, folds, times)
    # Of shares of the largest lam more than the largest leaves no weight at all.
    ends = {min(numbers): 0.1} | ({max(numbers): 10.0} if unit == "/n" else {})
    return origin._replace(beyond=f"{ends[number] * number:g}{unit}") if number in ends else origin


def _usual_multiple(plan: TrainingPlan, dataset: Dataset) -> float:
    """Return the multiple of 1/n that is usual, a power of 10: 1, or the dispersion of amounts.

    That is at most their variance over what the loss takes it for: of counts their mean.  It grows
    with the unit of the targets, and so do the loss and the best lam.
    """
    targets, loss = dataset.manifest.targets, loss_of(plan, dataset.manifest)
    if not loss.is_steep or not isinstance(targets, Values) or targets.mean <= 0.0:
        return 1.0
    dispersion = targets.variance * loss.rate(targets.mean) / targets.mean**2
    return float(10.0 ** round(math.log10(min(max(dispersion, SMALLEST), LARGEST))))


def _form_lam(dataset: Dataset) -> float:
    """Return the multiple of 1/n that other held-out rows chose with the form; else 1."""
    encoding = dataset.schema.encoding if dataset.schema else None
    return (encoding.form_lam if encoding else None) or 1.0


def candidates_of(lams: Sequence[float], losses: RowLosses) -> list[Candidate]:
    """Return what became of every lam, with the standard errors of the distances to the best."""
    means, costs = losses.mean(), losses.mean_costs()
    costs = np.full(len(lams), np.inf) if costs is None else costs
    deviations = losses.standard_errors(int(np.argmin(means)))
    each = zip(lams, means, losses.errors(), deviations, costs.tolist(), strict=True)
    return [
        Candidate(
            lam, finite(float(mean)), error, standard_error=finite(float(deviation)),
            cost=cost if np.isfinite(cost) else None,
        )
        for lam, mean, error, deviation, cost in each
    ]  # fmt: skip


def between_best(tried: Sequence[float], means: NDArray[np.float64]) -> float:
    """Return what lies between the best and the better one next to it, to two digits."""
    best = int(np.argmin(means))
    neighbours = [k for k in (best - 1, best + 1) if 0 <= k < len(tried)]
    other = min(neighbours, key=lambda k: float(means[k]))
    return float(f"{np.sqrt(tried[best] * tried[other]):.2g}")


def _with_lams(plan: TrainingPlan, unit: str, numbers: Sequence[float]) -> TrainingPlan:
    lam = Lam.of(",".join(f"{number:g}{unit}" for number in numbers))
    return plan.model_copy(update={"lam": lam})
