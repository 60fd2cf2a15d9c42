"""lam where a plan leaves it open and makes one pass: the best of three in that pass.

1/n comes nearest to what rows of unit length want; text is often predicted better with less.  Rows
are read and decoded once for all three, and the model is the one with the least mean loss: of the
held-out rows (`pipeline/scoring/choosing_lam.py`), where there are none of the rows themselves
before they were learnt from.
"""

from __future__ import annotations

from fewpass.pipeline.planning.method_choice import MOST_MODELS
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.storage.manifest import Labels, Manifest

PATH = Lam.of("1/n,.1/n,.01/n")


def with_lam_path(plan: TrainingPlan, manifest: Manifest) -> TrainingPlan:
    """Return the plan with a path of lam, where it was left open, and one pass scores it.

    Of 22 to 64 classes `auto` would take averaged SGD for that many models; the one lam of several
    learners is better there.
    """
    if not plan.lam.is_auto:
        return plan
    one = plan if plan.source is None else plan.model_copy(update={"lam": Lam.of("1/n")})
    if not plan.tries_several_lam or plan.start_from is not None:
        return one
    labels = manifest.targets.labels if isinstance(manifest.targets, Labels) else ()
    several = len(labels) > 2 and plan.positive is None
    if several and len(labels) <= MOST_MODELS < len(labels) * len(PATH.factors):
        return one
    return plan.model_copy(update={"lam": PATH})
