"""The end of a training, and its loss, where nobody has named one."""

from __future__ import annotations

from fewpass.pipeline.errors import BadInput, PlanMismatch
from fewpass.pipeline.planning.place import LONG_SECONDS, rough_seconds
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.flat_settings import plan_of
from fewpass.pipeline.settings.method_kinds import Auto
from fewpass.pipeline.settings.regularisation import AUTO
from fewpass.pipeline.settings.training_plan import DEFAULT_TOL, MOST_PASSES, TrainingPlan
from fewpass.solvers.registry import loss_class
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, NotADataset


def with_defaults(plan: TrainingPlan) -> TrainingPlan:
    """Return a plan with an end, and to a tolerance with a loss that is to be chosen.

    A loss that is named stays, and so does that of a plan that names a method or lam, or reads a
    source.  What goes on from another model has that model's.
    """
    plan = with_end(with_loss_of_start(plan))
    is_open = plan.loss is None and plan.lam.is_auto and isinstance(plan.solver, Auto)
    if not is_open or plan.tol is None or plan.source is not None or plan.start_from is not None:
        return plan
    return plan.model_copy(update={"loss": AUTO})


def with_end(plan: TrainingPlan) -> TrainingPlan:
    """Return a plan that trains to a tolerance where half a minute is expected to be enough.

    A plan that names passes, a tolerance or a method stays as it is, and so does one whose single
    pass goes on from another model, reads a source, or chooses among several lam.

    Parameters
    ----------
    plan
        As it was asked for; the manifest of its data set is read.  Where there is none the plan
        stays as it is, and training by it says so.
    """
    ends = plan.tol is not None or plan.certify or plan.early_stopping
    if ends or "passes" in plan.model_fields_set or not isinstance(plan.solver, Auto):
        return plan
    if plan.source is not None or plan.start_from is not None or plan.is_scored_by_its_pass:
        return plan
    proven = plan.model_copy(update={"tol": DEFAULT_TOL, "passes": MOST_PASSES})
    try:
        seconds = rough_seconds(proven, Dataset.open(plan.dataset).manifest)
    except NotADataset:
        return plan
    return proven if seconds < LONG_SECONDS else plan


def with_loss_of_start(plan: TrainingPlan) -> TrainingPlan:
    """Return a plan without a loss with that of the model that it goes on from, if there is one.

    Where the model's record cannot be read the loss stays open: its weights are worth having all
    the same.
    """
    if plan.loss is not None or plan.start_from is None:
        return plan
    try:
        before = RunFolder(plan.start_from).record().plan
    except (BadInput, PlanMismatch, Damaged):
        return plan
    if before.loss is None:
        return plan
    names = ("loss", *loss_class(before.loss).parameters())
    own = {name: getattr(before, name) for name in names}
    return plan_of(TrainingPlan, plan.model_dump(exclude_unset=True) | own)
