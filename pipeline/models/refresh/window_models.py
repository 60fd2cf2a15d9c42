"""The rows of nights as training sets, and models of them.

    STORE/generations/000017/rows-4   a view of the data sets of some nights (night_views below)
                             run-4    the training on them

Equal sets of nights are trained once.  Each model is trained from zero; only that of all nights
begins at last night's, where a tolerance says when it is done.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fewpass.pipeline.errors import PlanMismatch
from fewpass.pipeline.models.refresh.store_events import ModelLearnt
from fewpass.pipeline.models.refresh.store_state import Generation, Store, last_runs
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.changing.viewing import make_view
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder

ALL = "all"
ROWS, RUN = "rows-", "run-"  # how the folders of a window are called
Train = Callable[[TrainingPlan, str], TrainingResult]
Nights = tuple[int, ...]


class WindowModel(NamedTuple):
    """A model of some nights."""

    folder: str  # of its run, below that of the generation
    nights: Nights
    result: TrainingResult


def models_of(
    plan: RefreshPlan, store: Store, generation: Generation, wanted: Mapping[str, Nights],
    train: Train,
) -> dict[str, WindowModel]:  # fmt: skip
    """Train a model of every set of nights, and return them by the names of the sets."""
    made: dict[Nights, WindowModel] = {}
    for name in _in_order(wanted):
        nights = wanted[name]
        if nights not in made:
            folder = folder_of(wanted, name)
            start = _start_of(store, generation, nights) if name == ALL else None
            training = training_plan(plan, rows_of(store, generation, name, nights), start)
            result = trained(training, f"{generation.folder.url}/{folder}", train)
            made[nights] = WindowModel(folder, nights, result)
    return {name: made[nights] for name, nights in wanted.items()}


def folder_of(wanted: Mapping[str, Nights], name: str) -> str:
    """Return the folder of the run of a set of nights: of the first that is equal."""
    return RUN + next(first for first in _in_order(wanted) if wanted[first] == wanted[name])


def _in_order(wanted: Mapping[str, Nights]) -> list[str]:
    """Return the names as models are trained, of which "all" begins at last night's."""
    return sorted(wanted, key=lambda name: name != ALL)


def _start_of(store: Store, generation: Generation, nights: Nights) -> str | None:
    """Return last night's model of all nights; None if it knows rows that were forgotten since.

    Or replaced, quarantined or removed: it has learnt from nothing but these nights, as they are.
    """
    start = last_runs(store, generation).get(ALL)
    if start is None:
        return None
    now = {Dataset.open(store.data_of(night)).manifest.fingerprint for night in nights}
    return start if now.issuperset(RunFolder(start).record().learnt) else None


def trained(plan: TrainingPlan, run: str, train: Train) -> TrainingResult:
    """Train a model, or go on with it; anew where settings, or rows, were others then."""
    try:
        return train(plan, run)
    except PlanMismatch:
        Folder(run).delete_tree()
        return train(plan, run)


def rows_of(store: Store, generation: Generation, name: str, nights: Sequence[int]) -> str:
    """Return the address of the rows of some nights: a data set, or a view that is made now."""
    parts = [store.data_of(night) for night in nights]
    if len(parts) == 1:
        return parts[0]
    return make_view(f"{generation.folder.url}/{ROWS}{name}", parts).folder.url


def n_rows(store: Store, nights: Sequence[int]) -> int:
    """Return how many rows some nights have."""
    return sum(Dataset.open(store.data_of(night)).n_rows for night in nights)


def training_plan(plan: RefreshPlan, rows: str, start: str | None) -> TrainingPlan:
    """Return the plan of a training on some rows, from a model on or from zero."""
    recipe = plan.training
    changed: dict[str, Any] = {"dataset": rows}
    if start is not None and recipe.tol is not None:
        changed["start_from"] = start
    if len(recipe.lam.factors) > 1 or recipe.calibrate or recipe.early_stopping:
        changed["held_out"] = plan.held_out
    return TrainingPlan.model_validate(recipe.model_dump() | changed)


def recipe_of(plan: RefreshPlan) -> str:
    """Return the digest of what models are trained by."""
    settings = plan.training.model_dump(mode="json", exclude={"snapshot_every"})
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def is_other_recipe(plan: RefreshPlan, before: ModelLearnt | None) -> bool:
    """Return whether a model was trained by other settings: losses and scores begin anew then."""
    return before is not None and before.recipe != recipe_of(plan)
