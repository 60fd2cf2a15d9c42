"""Rows that are forgotten, the models that have learnt from them, and models without them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fewpass.pipeline.executors.executor import open_executor
from fewpass.pipeline.runs.learnt_from import learnt_from
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.change_plans import ForgetPlan, require_retraining
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.changing.forgetting import ForgetResult, forget
from fewpass.pipeline.training.planning.place import place_of
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder

_AGAIN = re.compile(r"-g\d+$")  # of a run that was trained anew
ShowShare = Callable[[float, str], None]


def forgotten_everywhere(
    plan: ForgetPlan,
    *,
    runs: str | None = None,
    retrain: bool = False,
    warm: bool = False,
    execution: Execution | None = None,
    progress: ShowShare = lambda _share, _said: None,
) -> ForgetResult:
    """Delete rows, name the models that have learnt from them, and train these anew if asked to.

    A new run lies next to the old one, which stays: RUN-g3 for generation 3 of the data set.
    It has the same plan.  Called again after a kill it goes on.

    Parameters
    ----------
    plan
        Which rows of which data set.
    runs
        Folder to look for runs in, three deep [default: the one that the data set lies in].
    retrain
        Whether to train the models anew.
    warm
        Whether to begin at the old weights.  Then the new model is free of the rows as far as its
        certificate says, and no further.
    execution
        Where to train.
    progress
        As for `forget`.

    Raises
    ------
    ValueError
        `warm` without `retrain`.
    """
    require_retraining(retrain=retrain, warm=warm)
    result = forget(plan, progress=progress)
    options = plan.storage_options
    folder = Folder(plan.dataset, options)
    place = runs or folder.url.rpartition("/")[0] or "/"
    models = tuple(one.run for one in learnt_from(place, result.learnt_from, options))
    result = result.model_copy(update={"models": models})
    if not retrain:
        return result
    bases = dict.fromkeys(_AGAIN.sub("", run) for run in models)
    retrained = []
    for base in bases:
        newest = [run for run in models if _AGAIN.sub("", run) == base][-1]
        to = f"{base}-g{result.generation}"
        progress(0.0, f"training {to}")
        _trained(newest, to, warm=warm, execution=execution or Execution(), options=options)
        retrained.append(to)
    return result.model_copy(update={"retrained": tuple(retrained)})


def _trained(
    run: str, to: str, *, warm: bool, execution: Execution, options: dict[str, Any]
) -> None:
    """Train a run's plan anew, on its data set as it is now."""
    before: TrainingPlan = RunFolder(run, options).record().plan
    plan = before.model_copy(update={"start_from": run if warm else None})
    place = place_of(execution, plan, Dataset.open(plan.dataset, options).manifest)
    with open_executor(*place) as executor:
        for _ in TrainingRun.start(plan, to, executor, options):
            pass
