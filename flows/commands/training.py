"""`fewpass train` and `fewpass resume`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fewpass.flows.options import (
    OUTPUT,
    PLAN_SOURCE,
    TRAINING,
    WHERE,
    Output,
    PlanSource,
    TrainingOptions,
    Where,
    given,
    named,
)
from fewpass.flows.outcomes import require_convergence, require_tolerance
from fewpass.flows.usage_errors import missing
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import settings
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan

if TYPE_CHECKING:
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.interrupts import Stopping
    from fewpass.pipeline.passes.executor import Executor
    from fewpass.pipeline.runs.outcome import TrainingResult
    from fewpass.pipeline.training.training_run import TrainingRun

    Begin = Callable[[Executor], TrainingRun]


IS_READ_ONCE = (
    "A source of rows is read once, and by a plan not at all: with --dry-run the settings are "
    "shown. Ingest it, and plan on the data set, for passes, bytes and memory."
)


def train(
    dataset: str,
    run: str | None = None,
    /,
    *,
    plan_only: Annotated[bool, named("--plan")] = False,
    training: TrainingOptions = TRAINING,
    plan_source: PlanSource = PLAN_SOURCE,
    require_tol: bool = False,
    output: Output = OUTPUT,
) -> int:
    """Show a training as `fewpass.train` makes it.

    Parameters
    ----------
    plan_only
        Predict passes, bytes and memory, and write nothing: RUN may be left out. Reads the
        statistics of a data set, and suggests what would help.
    require_tol
        Exit with 1 if the tolerance was missed. The model is kept all the same.
    """
    from fewpass.flows.commands.plan_tables import print_forecast
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.settings import as_toml, training_settings
    from fewpass.pipeline.settings.flat_settings import flat
    from fewpass.pipeline.tables.stream.sources import is_source
    from fewpass.pipeline.training.defaults import with_defaults

    terminal, from_source = Terminal(output), is_source(dataset)
    if run is None and not (plan_only or plan_source.dry_run):
        raise missing("RUN", "train", "DATASET RUN")
    if plan_only and from_source and not plan_source.dry_run:
        raise BadInput(IS_READ_ONCE)
    storing: IngestPlan | None = None
    if from_source and training.ingest_into is not None:
        storing, training = _to_store(dataset, training)
        dataset, from_source = storing.dataset, False
    plan, place = training_settings(
        dataset, training, plan_source, TrainingPlan, is_source=from_source
    )
    if storing is not None and not plan_source.dry_run:
        _store(terminal, storing)
    plan = with_defaults(plan)
    if plan_source.dry_run:
        terminal.result(flat(plan, place), as_toml(plan, place))
        return 0
    terminal.plan(as_toml(plan, place))
    if plan_only or run is None:
        print_forecast(terminal, dataset, plan, place)
        return 0
    require_tolerance(plan, asked=require_tol)
    result = train_shown(terminal, plan, run, place)
    return _report(terminal, result, plan, require_tol=require_tol)


def _to_store(source: str, training: TrainingOptions) -> tuple[IngestPlan, TrainingOptions]:
    """Return how a source is ingested as --ingest-into asks, and the options that are left."""
    from fewpass.flows.settings import checked

    words = given(training)
    places = {"sources": (source,), "dataset": words.pop("ingest_into")}
    words.pop("expected_rows", None)
    reading = {name: words.pop(name) for name in settings(SourceReading) if name in words}
    shared = {name: words[name] for name in ("memory", "seed", "threads") if name in words}
    return checked(IngestPlan, reading | shared | places), TrainingOptions(**words)


def _store(terminal: Terminal, plan: IngestPlan) -> None:
    from fewpass.flows.commands.ingesting import ingest_shown, show_columns

    show_columns(terminal, ingest_shown(terminal, plan))


def resume(
    run: str,
    /,
    *,
    where: Where = WHERE,
    require_tol: bool = False,
    output: Output = OUTPUT,
) -> int:
    """Continue a training that was interrupted, to the same bits.

    Parameters
    ----------
    run
        Folder or address of the run.
    require_tol
        Exit with 1 if the tolerance was missed. The model is kept all the same.
    """
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.settings import checked
    from fewpass.pipeline.runs.run_folder import RunFolder
    from fewpass.pipeline.tables.stream.sources import read_first_rows
    from fewpass.pipeline.training.training_run import TrainingRun

    terminal, plan = Terminal(output), RunFolder(run).record().plan
    require_tolerance(plan, asked=require_tol)
    place = checked(Execution, given(where))
    begin = partial(TrainingRun.resume, run, open_source=read_first_rows)
    result = _follow(terminal, plan, place, begin)
    return _report(terminal, result, plan, require_tol=require_tol)


def train_shown(
    terminal: Terminal, plan: TrainingPlan, run: str, place: Execution
) -> TrainingResult:
    """Train with a live display."""
    from fewpass.pipeline.tables.stream.sources import read_first_rows
    from fewpass.pipeline.training.training_run import TrainingRun

    begin = partial(TrainingRun.start, plan, run, open_source=read_first_rows)
    return _follow(terminal, plan, place, begin)


def _follow(
    terminal: Terminal, plan: TrainingPlan, place: Execution, begin: Begin
) -> TrainingResult:
    from fewpass.flows.interrupts import stopping
    from fewpass.pipeline.planning.engines import engine_for_training
    from fewpass.solvers.kernels.compiling import Compiling

    at_work = plan  # until a method is chosen
    with stopping(terminal) as asked:
        with (
            Compiling(lambda: _say_compiling(terminal, at_work)),
            engine_for_training(place, plan) as executor,
        ):
            asked.training = training = begin(executor)
            at_work = training.plan
            _show(terminal, training, asked)
            if training.finished:
                return training.result
        raise asked.interrupted()


def _show(terminal: Terminal, training: TrainingRun, asked: Stopping) -> None:
    """Show a training until it rests, and what somebody should look at before and after."""
    from fewpass.flows.display.pass_lines import display

    said_before = (*training.notes, *training.warnings)
    for sentence in said_before:
        terminal.say(sentence, style="yellow")
    with display(terminal, training.plan) as show:
        training.hear(show)
        for event in training:
            asked.picked_up = True
            show(event)
    for sentence in training.notes:  # of later rows, maybe
        if sentence not in said_before:
            terminal.say(sentence, style="yellow")


def _say_compiling(terminal: Terminal, plan: TrainingPlan) -> None:
    """Tell the user about first-time compilation."""
    from fewpass.pipeline.planning.problem import loss_of
    from fewpass.storage.dataset import Dataset

    said = [] if plan.solver.kind == "auto" else [plan.solver.kind]
    if plan.source is None:
        manifest = Dataset.open(plan.dataset).manifest
        said += [
            f"loss {loss_of(plan, manifest).name}",
            f"{manifest.layout} rows of {manifest.dtype}",
        ]
    whose = f" for {', '.join(said)}" if said else ""
    terminal.say(
        f"Compiling kernels{whose}: once per machine (fewpass warm-up does it in advance)."
    )


def _report(
    terminal: Terminal, result: TrainingResult, plan: TrainingPlan, *, require_tol: bool
) -> int:
    """Print the result; ToleranceMissed where it is not what is required."""
    from fewpass.flows.commands.result_sentences import (
        NO_ROWS_LEFT,
        certificate_sentence,
        held_out_sentence,
        prover_of,
        verdict_on,
    )
    from fewpass.flows.commands.training_tables import result_tables

    terminal.result(asdict(result), result_tables(result, plan))
    if result.passes_of_model is not None:
        terminal.say(held_out_sentence(result, plan.metric))
    prover = prover_of(result, plan)
    no_rows_left = plan.source is not None and result.certificate is None
    terminal.say(NO_ROWS_LEFT if no_rows_left else certificate_sentence(result, prover))
    if require_tol:
        require_convergence(result, plan)
    if verdict := verdict_on(result, prover):
        terminal.say(verdict.sentence, style="yellow" if verdict.missed else None)
    return 0
