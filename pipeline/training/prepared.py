"""Preparation of a training that begins or goes on: its plan, data and method.

Open settings are chosen here, and misfits are refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fewpass.pipeline.cores import usable_cores
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.planning.default_memory import fits_for_sure, with_memory
from fewpass.pipeline.planning.in_streams import require_meetings
from fewpass.pipeline.planning.lam_path import with_lam_path
from fewpass.pipeline.planning.largest_lam import with_largest_lam
from fewpass.pipeline.planning.method_choice import MethodChoice
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.planning.problem import problem_of, with_loss_of_exposures
from fewpass.pipeline.planning.source_job import choose_for_source, planned_for_source
from fewpass.pipeline.rows.from_source import OpenedSource
from fewpass.pipeline.rows.targets import Bounds, range_of, union_of
from fewpass.pipeline.runs.grid import LamOrigin
from fewpass.pipeline.runs.model import load_model, weights_to_start_at
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_log import LOG, SEGMENTS
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.run_snapshots import TrainedFolder
from fewpass.pipeline.scoring.calibrating import require_calibratable
from fewpass.pipeline.scoring.evaluation_job import evaluation_job
from fewpass.pipeline.scoring.metric import require_defined
from fewpass.pipeline.settings.regularisation import AUTO, Lam
from fewpass.pipeline.settings.training_plan import StorageOptions, TrainingPlan
from fewpass.solvers.registry import LOSS_OF_CLASSES, SEVERAL_LEARNERS, loss_class
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import ELSEWHERE, inside_of_ours, owner_of
from fewpass.storage.locations import Location
from fewpass.storage.redaction import without_secrets

FOR_EACH_CLASS = "a model for each class, as the memory is too short for one of all"


#: Opens the source of a plan, and reads its first rows; `again`: another session read it before.
OpenSource = Callable[..., OpenedSource]


def no_source(plan: TrainingPlan, *, again: bool) -> OpenedSource:  # noqa: ARG001
    """Refuse a plan that has a source."""
    raise AssertionError("whoever trains on a source says how it is opened")


class Prepared(NamedTuple):
    """A training that can begin."""

    run: TrainedFolder
    plan: TrainingPlan
    dataset: Dataset
    planner: Planner
    methods: MethodChoice | None  # those in place of `auto`
    source: OpenedSource | None = None  # that is read once
    held_out: Dataset | None = None  # that the plan names
    lam_origin: LamOrigin | None = None  # of a lam that nobody gave

    def require_fit(self, record: RunRecord) -> None:
        """Refuse weights to start from, and held-out rows, that are not of this training."""
        if self.plan.start_from is not None and not self.run.exists():
            chosen = self.methods.plan(self.plan) if self.methods else self.plan
            job = self.planner.job(chosen.memory, chosen.solver)
            weights_to_start_at(self.plan.start_from, job)
        if self.held_out is not None and self.source is None:
            job = evaluation_job(record, self.held_out)
            require_defined(self.plan.metric, job.problem, job.rule)
            if self.plan.calibrate:
                require_calibratable(record, self.held_out)


def prepare(
    plan: TrainingPlan,
    url: str,
    storage_options: StorageOptions,
    open_source: OpenSource,
    *,
    near: bool,
    workers: int = 1,
) -> Prepared:
    """Make ready a plan for a new run at `url`, or for the one that is there already.

    `near` says whether its tasks run in this process, and may use its memory; `workers` is the
    number of processes that do elsewhere.
    """
    run = TrainedFolder(url, storage_options)
    _require_place(run)
    if not run.exists():
        _require_use_of_metric(plan)
    if plan.start_from is not None:
        plan = plan.model_copy(update={"start_from": Folder(plan.start_from).url})
    if plan.source is not None:
        return _on_source(plan, run, open_source)
    dataset = Dataset.open(plan.dataset, storage_options)
    held_out = _held_out(plan, storage_options, dataset.folder.url)
    places = {"dataset": dataset.folder.url, "held_out": held_out and held_out.folder.url}
    plan = plan.model_copy(update=places)  # independent of the working directory
    asked = plan
    if run.exists():
        origin = run.record().lam_origin
        plan = with_largest_lam(as_in_run(plan, run), dataset)
        planner = Planner(plan, dataset, distributed=not near, cores=usable_cores())
    else:
        planner, plan, origin = planned(plan, dataset, held_out, near=near, workers=workers)
    methods = planner.choice(plan.memory)
    if methods and plan.classes == "ovr" and asked.classes == "auto" and asked.is_multinomial:
        methods = methods.model_copy(update={"reason": f"{methods.reason}; {FOR_EACH_CLASS}"})
    return Prepared(run, plan, dataset, planner, methods, held_out=held_out, lam_origin=origin)


def _held_out(
    plan: TrainingPlan, storage_options: StorageOptions, like: str | None = None
) -> Dataset | None:
    """Open the held-out rows that a plan names, if it names any."""
    if plan.held_out is None:
        return None
    return Dataset.open(plan.held_out, storage_options, like=like)


def target_bounds(begins: Prepared) -> Bounds | None:
    """Return the range of targets that predictions are clipped to; None where none are.

    With offsets none are: a longer exposure has more than any row that was seen.  Of a run that is
    there they are as they were when it began: the model that it started from may be gone.
    """
    if begins.run.exists():
        return begins.run.record().seen
    plan, data = begins.plan, begins.dataset.manifest
    clips = plan.clip and not data.has_offset
    own = range_of(data, problem_of(plan, data).loss, plan.positive) if clips else None
    if own is None or plan.start_from is None:
        return own
    return union_of(load_model(RunFolder(plan.start_from)).seen, own)


def _require_place(run: RunFolder) -> None:
    """Refuse a new run in a data set, in another run, or among files that it would write into.

    Raises BadInput; a run that is there goes on wherever it lies.
    """
    if run.exists():
        return
    if refusal := inside_of_ours(Location.of(run.url), run.folder.storage_options):
        raise BadInput(refusal)
    shown = without_secrets(run.url)
    if owner_of(run.folder) is not None:
        raise BadInput(f"{shown} is a data set, and no place for a run. {ELSEWHERE}")
    for name in (LOG, SEGMENTS, "report"):
        files = [name] if run.folder.exists(name) else run.folder.list(name)
        if files and not run.snapshots.names():
            raise BadInput(
                f"{shown} holds other files, such as {files[0]}, which a run would write "
                "to. Choose an empty folder."
            )


def _require_use_of_metric(plan: TrainingPlan) -> None:
    """Refuse a metric where held-out rows choose nothing."""
    if plan.metric == "loss":
        return
    if plan.source is not None:
        raise BadInput(
            f"metric = {plan.metric} chooses among models of a data set; straight from a source "
            "lam is chosen by the loss. Leave it out, or ingest the source first (`ingest_into` "
            "does)."
        )
    several = plan.lam.is_auto or len(plan.lam.factors) > 1
    if not (several or plan.early_stopping):
        raise BadInput(
            f"metric = {plan.metric} is what held-out rows choose lam by, or when to stop, and "
            "this training does neither. Leave it out."
        )
    if plan.tries_several_lam and plan.held_out is None:
        raise BadInput(
            f"metric = {plan.metric} is one of held-out rows, and one pass chooses lam by the "
            "losses of rows before they are learnt from. Name a data set with `held_out`, or give "
            "`tol`."
        )


def _on_source(asked: TrainingPlan, run: TrainedFolder, open_source: OpenSource) -> Prepared:
    """Make ready the plan of a source that is read once."""
    source = open_source(asked, again=False)
    held_out = _held_out(source.plan, run.folder.storage_options)
    plan = source.plan.model_copy(update={"held_out": held_out and held_out.folder.url})
    if run.exists():
        plan = as_in_run(plan, run)
        methods = choose_for_source(plan, source)
    else:
        plan, methods = planned_for_source(plan, source)
        if plan.memory > source.plan.memory and not source.endless:
            # More memory may mean more first rows: they are read as they will be for a resumed run.
            source.close()
            source = open_source(asked.model_copy(update={"memory": plan.memory}), again=False)
            again = source.plan.model_copy(update={"held_out": plan.held_out})
            plan, methods = planned_for_source(again, source)
    dataset = source.dataset
    return Prepared(run, plan, dataset, Planner(plan, dataset), methods, source, held_out)


def planned(
    plan: TrainingPlan, dataset: Dataset, held_out: Dataset | None, *, near: bool, workers: int = 1
) -> tuple[Planner, TrainingPlan, LamOrigin | None]:
    """Return the planner, the plan with all settings as numbers, and where its lam comes from.

    Several lam that one pass tries are those of several learners: where the memory is too short for
    these, one lam is chosen before.
    """
    plan = with_loss_of_exposures(plan, dataset.schema)
    plan = with_largest_lam(with_classes_that_fit(plan, dataset, near=near), dataset)
    tried = with_lam_path(plan, dataset.manifest)
    if tried.lam != plan.lam:
        planner = Planner(tried, dataset)
        tried = with_memory(planner) if near else tried
        if planner.method(tried.memory).kind == SEVERAL_LEARNERS:
            return planner, tried, None
    origin = None
    if plan.lam.is_auto:
        from fewpass.pipeline.training.chosen_loss import with_chosen_loss  # noqa: PLC0415 - SciPy

        plan, origin = with_chosen_loss(plan, dataset, held_out, near=near)
    planner = Planner(plan, dataset, distributed=not near, cores=usable_cores())
    plan = with_memory(planner) if near else plan
    if workers > 1 and "streams" not in plan.model_fields_set:
        planner = planner.for_workers(workers, plan.memory)
        plan = planner.plan.model_copy(update={"memory": plan.memory})
    require_meetings(planner.method(plan.memory).kind, dataset.manifest, plan.streams)
    return planner, plan, origin


def with_classes_that_fit(plan: TrainingPlan, dataset: Dataset, *, near: bool) -> TrainingPlan:
    """Fall back to one-vs-rest where the multinomial model does not fit in memory.

    Models of single classes are trained in groups; only a plan that leaves `classes` open changes.
    """
    if plan.classes != "auto" or plan.loss == LOSS_OF_CLASSES or not plan.is_multinomial:
        return plan
    if fits_for_sure(plan, dataset):
        return plan
    planner = Planner(plan.model_copy(update={"lam": Lam.of("1/n")}), dataset)
    if planner.problem.rule.width == 1:
        return plan
    memory = with_memory(planner).memory if near else plan.memory
    fits = planner.fits(memory, in_groups=True)
    return plan if fits else plan.model_copy(update={"classes": "ovr"})


def as_in_run(plan: TrainingPlan, run: RunFolder) -> TrainingPlan:
    """Return a plan with its open settings as in the run's plan.

    That is loss and lam, one model of all classes or several, the memory, of which other processes
    may have less than this one, and the streams, for which another cluster may have more workers.
    """
    record = run.record()
    before, given = record.plan, set(plan.model_fields_set)
    chosen_there = record.lam_origin or len(before.lam.factors) > 1 or before.lam == Lam.of("1/n")
    if plan.lam.is_auto and chosen_there:
        given.discard("lam")
    if plan.loss == AUTO:
        given.discard("loss")
    of_loss = loss_class(before.loss).parameters() if before.loss and "loss" not in given else ()
    open_ones = ("loss", *of_loss, "lam", "memory", "classes", "streams")
    chosen = {name: getattr(before, name) for name in open_ones if name not in given}
    return plan.model_copy(update=chosen)


def prepared_again(
    url: str, storage_options: StorageOptions, open_source: OpenSource, *, near: bool
) -> Prepared:
    """Make ready the run at `url` to go on, with the data it began with; `near` as in `prepare`."""
    run = TrainedFolder(url, storage_options)
    record = run.record()
    held_out = _held_out(record.plan, storage_options)
    run.require_held_out(record, held_out.manifest.fingerprint if held_out else None)
    if record.plan.source is not None:
        source = open_source(record.plan, again=True)
        run.require_data(record, source.dataset.manifest.fingerprint)
        planner = Planner(record.plan, source.dataset)
        return Prepared(run, record.plan, source.dataset, planner, record.methods, source, held_out)
    dataset = Dataset.open(record.plan.dataset, storage_options)
    run.require_data(record, dataset.manifest.fingerprint, dataset.manifest)
    planner, origin = Planner(record.plan, dataset, distributed=not near), record.lam_origin
    return Prepared(run, record.plan, dataset, planner, record.methods, None, held_out, origin)
