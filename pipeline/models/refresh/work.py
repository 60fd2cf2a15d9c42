"""Parts of a refresh, done here, or, in a flow, as tasks of Prefect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fewpass.pipeline.models.refresh.drift import Drift
from fewpass.pipeline.models.refresh.gates import Slices
from fewpass.pipeline.models.refresh.night_scores import Scores, joint_losses
from fewpass.pipeline.models.refresh.store_state import Generation, Store
from fewpass.pipeline.models.refresh.taking import TakenFiles, take
from fewpass.pipeline.paired_mean import JointMeans
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.span import SpanReport, counting
from fewpass.pipeline.planning.engines import engine_for_pass, engine_for_training
from fewpass.pipeline.rows.targets import Bounds
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.category_slices import evaluate_slices
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.scoring.evaluation_job import scored_together
from fewpass.pipeline.scoring.row_losses import row_losses
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_passes
from fewpass.pipeline.training.cross_validation import cross_validate
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder

HALVES, OF_HALVES = 2, "halves"
ShowShare = Callable[[float, str], None]


class RefreshWork:
    """The parts of a refresh, done here.

    Parameters
    ----------
    execution
        Where to train and to evaluate: threads of this process, or Dask.
    show
        Called with the share of the rows that were scored, and words for it.
    """

    def __init__(
        self,
        execution: Execution | None = None,
        show: ShowShare = lambda _share, _said: None,
    ) -> None:
        self.execution, self._show = execution or Execution(), show

    def take(self, plan: RefreshPlan, store: Store, generation: Generation) -> TakenFiles:
        """Make the files of a generation a data set."""
        return take(plan, store, generation)

    def train(self, plan: TrainingPlan, run: str) -> TrainingResult:
        """Train a model, or go on with it."""
        return trained_to_the_end(plan, run, self.execution)

    def score(self, runs: Mapping[str, str], rows: str) -> Scores:
        """Return what models make of rows."""
        data = Dataset.open(rows)
        with engine_for_pass(self.execution, data) as executor:
            return _scores_of(runs, data, executor, counting(data.n_rows, self._show))

    def evaluate(self, run: str, rows: str, column: str | None) -> Slices:
        """Evaluate a model on rows of every value of a column; of None on all, under ""."""
        data, model = Dataset.open(rows), load_model(RunFolder(run))
        with engine_for_pass(self.execution, data) as executor:
            count = counting(data.n_rows, self._show)
            if column is None:
                return {"": evaluate(model, data, executor, count)}
            return evaluate_slices(model, data, executor, column, count)

    def loss_of_halves(self, plan: TrainingPlan) -> float:
        """Return the mean loss of models of one half of a plan's rows on the other half."""
        engine = engine_for_training(self.execution, plan)
        with self._halves_folder(plan.dataset) as url, engine as executor:
            (made,) = cross_validate(plan, url, executor, HALVES, self._show_passes)
        rows = sum(fold.rows for fold in made.folds)
        return sum(fold.rows * fold.evaluation.loss for fold in made.folds) / rows

    def _show_passes(self, event: Event) -> None:
        self._show(0.0, format_passes(event.cursor.passes, ".3g"))

    @contextmanager
    def _halves_folder(self, rows: str) -> Iterator[str]:
        """Open a folder that goes at the end; of another's cluster where its workers read rows."""
        if not self.execution.is_elsewhere:
            with TemporaryDirectory(prefix="fewpass-halves-") as url:
                yield url
            return
        folder = Folder(rows.rpartition("/")[0])
        folder.delete_tree(OF_HALVES)  # of a call that was killed
        try:
            yield f"{folder.url}/{OF_HALVES}"
        finally:
            folder.delete_tree(OF_HALVES)

    def show_drift(self, store: str, generation: int, drift: Drift | None) -> None:
        """Show how far the rows of a generation are from those before."""

    def show_models(self, new: str, before: str | None, rows: str) -> None:
        """Show a model next to the one published before, on rows that neither has learnt from."""


def trained_to_the_end(
    plan: TrainingPlan, run: str, execution: Execution, options: dict[str, Any] | None = None
) -> TrainingResult:
    """Train a model to its end, or go on with it; `options` are those of the places' storage."""
    with engine_for_training(execution, plan, options) as executor:
        training = TrainingRun.start(plan, run, executor, options)
        for _ in training:
            pass
        return training.result


def _scores_of(
    runs: Mapping[str, str], rows: Dataset, executor: Executor,
    on_report: Callable[[SpanReport], None],
) -> Scores:  # fmt: skip
    """Return the losses of models on the same rows, and how they vary together.

    Parameters
    ----------
    runs
        Addresses of runs by the names of the models; one that has several names is read once.
    rows
        A data set with the columns of all of them.
    """
    distinct = list(dict.fromkeys(runs.values()))
    models = [load_model(RunFolder(run)) for run in distinct]
    what = Sum("reduce-scores", _none, partial(_add, [model.bounds for model in models]))
    total: JointMeans = scored_together(models, rows, executor, what, on_report=on_report)
    return Scores.of_sums(distinct, total).renamed(runs)


def _none(at: tuple[Weights, ...]) -> JointMeans:
    return JointMeans.of(np.zeros((len(at), 0)), np.zeros(0))


def _add(
    bounds: Sequence[Bounds | None], problem: Problem, at: tuple[Weights, ...], block: Block,
    part: JointMeans,
) -> JointMeans:  # fmt: skip
    rows = row_losses(problem, block, at, bounds)
    total: JointMeans = add_parts(part, joint_losses(rows.loss, rows.weight))
    return total
