"""`fewpass train` and `fewpass resume`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from fewpass.flows.options import (
    OUTPUT,
    PLAN_SOURCE,
    TRAINING,
    WHERE,
    Output,
    PlanSource,
    RequireTol,
    TrainingOptions,
    Where,
    given,
)
from fewpass.flows.outcomes import require_convergence, require_tolerance
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import settings
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.solvers.registry import SQUARES

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.executors.executor import Executor
    from fewpass.pipeline.runs.outcome import TrainingResult
    from fewpass.pipeline.training.missed import Prover
    from fewpass.pipeline.training.training_run import TrainingRun

    Begin = Callable[[Executor], TrainingRun]

CANDIDATE_STYLES = {"error": ".2%", "objective": ".6g", "gap": ".2e"}

NO_ROWS_LEFT = (
    "Certificate: not computed; it needs the rows again, which are stored nowhere (--keep DATASET "
    "keeps them)."
)

BY_GRADIENTS = (
    "It is the gradient's bound, which lags behind the true excess; the duality gap of "
    "`solver=psdca` lags less."
)


def train(
    dataset: str,
    run: str,
    /,
    *,
    training: TrainingOptions = TRAINING,
    plan_source: PlanSource = PLAN_SOURCE,
    require_tol: RequireTol = False,
    output: Output = OUTPUT,
) -> int:
    """Train a model on a data set, in one pass or to a tolerance (--tol).

    Instead of a data set, it also takes what ingest reads (a file, a folder, a glob, an address;
    standard input is -), and then learns from the rows in one pass without storing them.

    If a training was interrupted, the same command continues it; a finished one is left alone.

    Parameters
    ----------
    dataset
        Data set made by ingest, or a source of rows.
    run
        Folder or address for the run: its plan, snapshots and log.
    require_tol
        Exit with 1 if the tolerance was missed; the model is kept all the same.
    """
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.settings import as_toml, training_settings
    from fewpass.pipeline.settings.flat_settings import flat
    from fewpass.pipeline.tables.stream.sources import is_source

    terminal, from_source = Terminal(output), is_source(dataset)
    if from_source and training.keep is not None:
        dataset, training, from_source = *_stored(terminal, dataset, training), False
    plan, place = training_settings(dataset, training, plan_source, is_source=from_source)
    if plan_source.dry_run:
        terminal.result(flat(plan, place), as_toml(plan, place))
        return 0
    require_tolerance(plan, asked=require_tol)
    terminal.plan(as_toml(plan, place))
    result = train_shown(terminal, plan, run, place)
    plan = plan.model_copy(update={"lam": Lam.of(result.lam)})  # it may have been open
    return _report(terminal, result, plan, require_tol=require_tol)


def _stored(
    terminal: Terminal, source: str, training: TrainingOptions
) -> tuple[str, TrainingOptions]:
    """Ingest a source as --keep asks; return its data set, and the options that are left."""
    from fewpass.flows.commands.ingesting import ingest_shown, show_columns
    from fewpass.flows.settings import checked

    words = given(training)
    stored_at = words.pop("keep")
    words.pop("expected_rows", None)
    reading = {name: words.pop(name) for name in settings(SourceReading) if name in words}
    shared = {name: words[name] for name in ("memory", "seed") if name in words}
    places = {"sources": (source,), "dataset": stored_at}
    result = ingest_shown(terminal, checked(IngestPlan, reading | shared | places))
    show_columns(terminal, result)
    return result.dataset, TrainingOptions(**words)


def resume(
    run: str,
    /,
    *,
    where: Where = WHERE,
    require_tol: RequireTol = False,
    output: Output = OUTPUT,
) -> int:
    """Continue a training that was interrupted; the model will be the same, bit for bit.

    Parameters
    ----------
    run
        Folder or address of the run.
    require_tol
        Exit with 1 when the tolerance was missed; the model is there all the same.
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
    from fewpass.flows.cluster import engine_for_training
    from fewpass.flows.display.pass_lines import display
    from fewpass.flows.interrupts import stopping
    from fewpass.solvers.kernels.compiling import Compiling

    at_work = plan  # until a method is chosen
    with stopping(terminal) as asked:
        with (
            Compiling(lambda: _say_compiling(terminal, at_work)),
            engine_for_training(place, plan) as executor,
        ):
            asked.training = training = begin(executor)
            at_work = training.plan
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
            if training.finished:
                return training.result
        raise asked.interrupted()


def _say_compiling(terminal: Terminal, plan: TrainingPlan) -> None:
    """Tell the user about first-time compilation."""
    from fewpass.pipeline.training.planning.problem import loss_of
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
    from rich.console import Group

    from fewpass.flows.display.console import columns_table, facts_table
    from fewpass.pipeline.training.missed import other_prover, what_helps

    shown: list[RenderableType] = [columns_table(result.encoded)] if result.encoded else []
    shown.append(facts_table("Run", _shown(result)))
    if result.lam_origin:
        shown.append(origin_table(result.lam_origin, plan.metric))
    if result.candidates:
        shown.append(candidate_table(result, plan))
    terminal.result(asdict(result), Group(*shown))
    if result.passes_of_model is not None:
        terminal.say(held_out_sentence(result))
    prover = None
    if result.converged is False or (result.converged is None and proves_nothing(result)):
        prover = other_prover(plan, result.solver)
    if plan.source is not None and result.certificate is None:
        terminal.say(NO_ROWS_LEFT)
    else:
        terminal.say(certificate_sentence(result, prover))
    if require_tol:
        require_convergence(result, plan)
    if verdict := result.convergence.sentence(result.passes):
        by_choice = result.passes_of_model not in (None, result.passes)
        missed = result.converged is False and not by_choice
        more, style = (f" {what_helps(result, prover)}", "yellow") if missed else ("", None)
        terminal.say(f"{verdict}{more}", style=style)
    return 0


def origin_table(origin: dict[str, Any], metric: str) -> Table:
    """Return a table of the lam that were compared before the training."""
    from fewpass.flows.display.console import as_fixed, or_dash, titled_table

    table = titled_table(f"lam by held-out rows: {origin['written']}")
    costs = any(each.get("cost") is not None for each in origin["candidates"])
    for name in ("lam", "loss", "above the best", "error", *([metric] if costs else [])):
        table.add_column(name, justify="right", no_wrap=True)
    least = min(each["loss"] for each in origin["candidates"])
    for each in origin["candidates"]:
        above = f"{each['loss'] - least:.2g} +- {each['standard_error']:.1g}"
        error = or_dash(each["error"], ".2%")
        figures = [_figure(each["cost"], metric)] if costs else []
        table.add_row(f"{each['lam']:.6g}", as_fixed(each["loss"], 6), above, error, *figures)
    return table


def _figure(cost: float, metric: str) -> str:
    """Write a metric by its cost, which is negated where higher is better."""
    from fewpass.pipeline.scoring.row_metrics import HIGHER

    return f"{-cost if metric in HIGHER else cost:.6g}"


def candidate_table(result: TrainingResult, plan: TrainingPlan) -> Table:
    """Return a table of all lam, the chosen one marked."""
    from fewpass.flows.display.console import as_fixed, or_dash, titled_table

    of_source = plan.source is not None and plan.source.test_fraction > 0.0
    held_out = plan.held_out is not None or of_source
    title = "On held-out rows" if held_out else "On rows before they were learnt from"
    table = titled_table(title)
    sparse = any(candidate["nonzeros"] is not None for candidate in result.candidates)
    counted = ("above\nleast", "not 0") if sparse else ()
    costs = any(candidate["cost"] is not None for candidate in result.candidates)
    asked = (plan.metric,) if costs else ()
    for name in ("lam", "loss", *counted, *asked, "error", "objective", "above\noptimum", ""):
        table.add_column(name, justify="right", no_wrap=True)
    least = min(candidate["loss"] for candidate in result.candidates)
    for candidate in result.candidates:
        table.add_row(
            f"{candidate['lam']:.6g}",
            as_fixed(candidate["loss"], 6),
            *_counted(candidate, least),
            *(_figure(candidate["cost"], plan.metric) for _ in asked),
            *(or_dash(candidate[name], style) for name, style in CANDIDATE_STYLES.items()),
            "chosen" if candidate["lam"] == result.lam else "",
        )
    return table


def _counted(candidate: dict[str, Any], least: float) -> list[str]:
    """Return how far a loss is above the least, and the non-zeros, where these were counted."""
    if candidate["nonzeros"] is None:
        return []
    error = candidate["standard_error"] or 0.0
    return [f"{candidate['loss'] - least:.2g} +- {error:.1g}", f"{candidate['nonzeros']:,}"]


def _shown(result: TrainingResult) -> dict[str, Any]:
    from fewpass.flows.display.console import format_seconds, passes_and_rows

    return {
        "at": result.run,
        "snapshot": result.snapshot,
        "solver": f"{result.solver}, loss {result.loss}, {_shown_penalty(result)}",
        "models": f"{result.classes}, one per class" if result.classes else None,
        "passes": passes_and_rows(result.passes, result.rows_seen),
        **_shown_features(result),
        "objective": result.objective,
        "weights": _shown_zeros(result),
        "probabilities": _calibrated(result),
        "read": format_bytes(result.bytes_read),
        "took": f"{format_seconds(result.seconds)}, at most "
        f"{format_bytes(result.peak_memory_bytes)} of memory",
    }


def _shown_penalty(result: TrainingResult) -> str:
    """Tell lam, and the penalty if it is not of squares alone."""
    lam = f"lam {result.lam:.6g}"
    return lam if result.penalty == SQUARES else f"penalty {result.penalty}, {lam}"


def _shown_zeros(result: TrainingResult) -> str | None:
    """Tell how many weights an l1 penalty left, and of how many that is proven."""
    if result.nonzeros is None:
        return None
    text = f"{result.nonzeros:,} are not 0"
    if result.proven_zeros:
        text += f"; {result.proven_zeros:,} columns are proven to be 0 at the optimum"
    return text


def _calibrated(result: TrainingResult) -> str | None:
    """Return how scores become probabilities, if the run has a calibration."""
    calibration = result.calibration
    if calibration is None:
        return None
    if "p" in calibration:
        return f"isotonic, {len(calibration['p'])} points"
    offset = f"{calibration['offset']:.4g}" if "offset" in calibration else "an offset per class"
    form = "sigmoid of" if "offset" in calibration else "softmax of"
    return f"{form} {calibration['slope']:.4g} * score + {offset}"


def _shown_features(result: TrainingResult) -> dict[str, Any]:
    """Lay out the results of a method that reads single features."""
    features = result.features
    if features is None:
        return {}
    share = features["accesses"] / max(result.passes, 1e-300)  # values of the data set
    pilot = f", and {features['pilot_accesses']:,} to find nu" if features["pilot_accesses"] else ""
    where = "mapped from files" if features["mapped"] else "in memory"
    return {
        "passes": f"none; {features['iterations']:,} steps, rows and columns {where}",
        "accesses": f"{features['accesses']:,}{pilot}; the data have {share:,.0f} values",
        "nu": features["nu"],
        "margin": f"{features['margin']:.6g}, at most {features['margin_bound']:.6g} is possible",
    }


def held_out_sentence(result: TrainingResult) -> str:
    """Say which model had the lowest held-out loss, and whether that ended the training."""
    from fewpass.flows.display.console import as_fixed

    (chosen,) = result.candidates
    ended = "Stopped early" if result.stopped_early else "Ended"
    return (
        f"{ended} after {result.passes:.4g} passes: the held-out loss was lowest after "
        f"{result.passes_of_model:.4g}, {as_fixed(chosen['loss'], 6)}, and that model is kept."
    )


def proves_nothing(result: TrainingResult) -> bool:
    """Whether a certificate says, of some model, no more than that no loss is below 0."""
    return result.relative_gap is not None and result.relative_gap >= 1.0


def certificate_sentence(result: TrainingResult, prover: Prover | None) -> str:
    """Say how far from the best possible model this one can be."""
    from fewpass.pipeline.training.missed import goes_by_gradients

    if result.certificate is None or result.relative_gap is None:
        return "Certificate: not computed (--certify pays one more pass for it)."
    if proves_nothing(result):
        more = prover.sentence if prover else "More `passes` or a larger `lam` tighten it."
        return f"Certificate: no useful bound yet, only that no loss is below 0. {more}"
    relative = result.relative_gap
    hinge = result.hinge_certificate
    whose = f"of each of the {result.classes} models " if result.classes else ""
    return (
        f"Certificate: the objective {whose}is at most {result.certificate:.3g} above the optimum "
        f"({relative:.2g} of it)."
        + (f" With the plain hinge for a loss, at most {hinge:.3g} above its." if hinge else "")
        + (f" {BY_GRADIENTS}" if prover and goes_by_gradients(result.solver) else "")
    )
