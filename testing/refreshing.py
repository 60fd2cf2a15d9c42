"""Refreshes of a store without Prefect, for tests."""

import numpy as np

from fewpass.pipeline.executors.threads import InProcess
from fewpass.pipeline.models.refresh.publications import NONE_YET, published
from fewpass.pipeline.models.refresh.refreshing import (
    decide,
    held_out,
    next_generation,
    refresh_lock,
    training_plan,
)
from fewpass.pipeline.models.refresh.taking import take
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset


def write_rows(path, seed):
    """Write 300 rows of three columns and a label as CSV."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 3)).round(3)
    y = X.sum(1) + rng.logistic(size=300) > 0
    np.savetxt(
        path, np.column_stack([y, X]), fmt="%.6g", delimiter=",", header="y,a,b,c", comments=""
    )


def plan_of(folder, label="y", **changed):
    """Return a plan that takes CSV files of FOLDER/inbox into FOLDER/store."""
    return RefreshPlan(
        sources=(f"{folder}/inbox/*.csv",), store=f"{folder}/store", margin=1.0, settle=0,
        ingest={"options": {"label": label}}, training={"lam": "1e-2", "passes": 2}, **changed,
    )  # fmt: skip


def trained(plan, generation):
    """Ingest and train a generation; return what came of both."""
    generation = take(plan, generation).generation
    return generation, finished(training_plan(plan, generation), generation.run)


def finished(plan, url):
    """Train to the end."""
    training = TrainingRun.start(plan, str(url), InProcess())
    for _ in training:
        pass
    return training.result


def judged(plan, run):
    """Return the loss of a run's model on the held-out rows."""
    return evaluate(load_model(RunFolder(run)), Dataset.open(held_out(plan)), InProcess()).loss


def refresh(plan, before_it_is_decided=lambda: None):
    """Do what the flow does, without Prefect; None where there is no new file."""
    with refresh_lock(plan.store):
        generation = next_generation(plan)
        if generation is None:
            return None
        generation, result = trained(plan, generation)
        current = published(plan.store)
        loss_before = judged(plan, current.run_in(plan.store)) if current else None
        before_it_is_decided()
        after = current.number if current else NONE_YET
        return decide(plan, generation, result, judged(plan, generation.run), loss_before, after)
