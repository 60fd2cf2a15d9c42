"""A check that the newest run of a schedule was trained by the same plan on the same data set."""

from __future__ import annotations

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.planning.largest_lam import with_largest_lam
from fewpass.pipeline.runs.run_folder import RunFolder, changed_settings
from fewpass.pipeline.runs.run_series import is_finished, runs_of
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.prepared import as_in_run
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged


def trained_already(plan: TrainingPlan, pattern: str) -> RunFolder | None:
    """Return the newest finished run of a schedule, where training anew would be to repeat it.

    That is where its plan is this one, and its rows, also those held out, have not changed since.
    A training that starts from another model is never a repetition.

    Parameters
    ----------
    plan
        What is to be trained now.
    pattern
        Address of the schedule's runs, with {date} or {date} and {time} for the scheduled start.

    Raises
    ------
    BadInput
        The address is the same every time, or the plan's source is read once.
    """
    if plan.source is not None or "{date}" not in pattern:
        what = "its source is read once" if plan.source is not None else "run has no {date}"
        raise BadInput(
            f"skip_unchanged compares a data set with that of earlier runs, but {what}. "
            "Leave it out."
        )
    finished = (run for run in runs_of(pattern) if is_finished(run))
    newest = next(finished, None)
    if newest is None or plan.start_from is not None:
        return None
    return newest if _repeats(plan, newest) else None


def _repeats(plan: TrainingPlan, run: RunFolder) -> bool:
    dataset = Dataset.open(plan.dataset)
    try:
        record = run.record()
    except (Damaged, ValueError):  # of another version, or not intact: trained anew
        return False
    if record.dataset_fingerprint != dataset.manifest.fingerprint:
        return False
    held_out = None if plan.held_out is None else Dataset.open(plan.held_out)
    if record.held_out_fingerprint != (held_out and held_out.manifest.fingerprint):
        return False
    places = {"dataset": dataset.folder.url, "held_out": held_out and held_out.folder.url}
    placed = plan.model_copy(update=places)
    again = with_largest_lam(as_in_run(placed, run), dataset)
    return not changed_settings(record.plan, again)
