"""lam where a plan leaves it open: with held-out rows, the best of three in the same pass.

1/n comes nearest to what rows of unit length want; text is often predicted better with less.  Rows
are read and decoded once for all three, and the model is the one with the least mean loss on the
held-out rows (`pipeline/scoring/choosing_lam.py`).
"""

from __future__ import annotations

from fewpass.pipeline.settings.method_kinds import Auto
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.planning.auto import MOST_MODELS
from fewpass.solvers.registry import method_class
from fewpass.storage.manifest import Labels, Manifest

PATH = Lam.of("1/n,.1/n,.01/n")


def with_lam_path(plan: TrainingPlan, manifest: Manifest) -> TrainingPlan:
    """Return the plan with a path of lam, where it was left open, and one pass scores it.

    Of 22 to 64 classes `auto` would take averaged SGD for that many models; the one lam of several
    learners is better there.
    """
    held_out = plan.held_out is not None or bool(plan.source and plan.source.test_fraction)
    one_pass = (plan.tol is None or plan.passes == 1) and not plan.early_stopping
    asked = "lam" in plan.model_fields_set or plan.start_from is not None
    if asked or not held_out or not one_pass or not _tries_several(plan):
        return plan
    labels = manifest.targets.labels if isinstance(manifest.targets, Labels) else ()
    several = len(labels) > 2 and plan.positive is None
    if several and len(labels) <= MOST_MODELS < len(labels) * len(PATH.factors):
        return plan
    return plan.model_copy(update={"lam": PATH})


def _tries_several(plan: TrainingPlan) -> bool:
    if isinstance(plan.solver, Auto):
        return True
    tries: bool = method_class(plan.solver.kind).tries_several_lam
    return tries
