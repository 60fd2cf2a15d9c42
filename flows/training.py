"""`fewpass train` and `fewpass resume`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from flows.cluster import cluster
from flows.console import Terminal, facts_table, format_seconds, or_dash
from flows.errors import Interrupted
from flows.options import Output, PlanSource, Training, Where
from flows.progress import GrowingIntervals, training_display
from flows.settings import as_toml, as_values, execution, training_settings
from pipeline.errors import BadInput
from pipeline.sizes import format_bytes
from pipeline.streaming.executor import Execution, Executor
from pipeline.training.feature_run import FeatureResult, FeatureRun
from pipeline.training.outcome import Event, TrainingResult
from pipeline.training.plan import ByFeatures, TrainingPlan
from pipeline.training.run_folder import RunFolder
from pipeline.training.training_run import TrainingRun

CANDIDATE_STYLES = {"error": ".2%", "objective": ".8f", "gap": ".2e"}

Begin = Callable[[Executor], TrainingRun]


def run_train(
    dataset: str,
    run: str,
    training: Training,
    where: Where,
    plan_source: PlanSource,
    output: Output,
) -> int:
    """Train as the options say, and report."""
    terminal = Terminal(output)
    plan, place = training_settings(dataset, training, where, plan_source)
    if plan_source.dry_run:
        terminal.result(as_values(plan, place), as_toml(plan, place))
        return 0
    terminal.plan(as_toml(plan, place))
    _report(terminal, train_shown(terminal, plan, run, place))
    return 0


def run_resume(run: str, where: Where, output: Output) -> int:
    """Continue a run, and report."""
    terminal = Terminal(output)
    if isinstance(RunFolder(run).record().plan.solver, ByFeatures):
        require_one_process(execution(where))
        _report(terminal, _follow_features(terminal, run, lambda: FeatureRun.resume(run)))
        return 0
    result = _follow(terminal, run, execution(where), lambda e: TrainingRun.resume(run, e))
    _report(terminal, result)
    return 0


def train_shown(
    terminal: Terminal, plan: TrainingPlan, run: str, place: Execution
) -> TrainingResult:
    """Train with a live display."""
    if isinstance(plan.solver, ByFeatures):
        require_one_process(place)
        return _follow_features(terminal, run, lambda: FeatureRun.start(plan, run))
    return _follow(terminal, run, place, lambda e: TrainingRun.start(plan, run, e))


def require_one_process(place: Execution) -> None:
    """Refuse a cluster for a method that reads single rows and columns at random."""
    if place.scheduler not in (None, "none") or place.workers is not None:
        raise BadInput(
            "simba reads single rows and columns at random and runs in one process. Leave "
            "--scheduler and --workers out, or choose another --solver."
        )


def _follow(terminal: Terminal, run: str, place: Execution, begin: Begin) -> TrainingResult:
    try:
        with cluster(place) as executor:
            training = begin(executor)
            for sentence in training.warnings:
                terminal.say(sentence, style="yellow")
            with training_display(terminal, training.plan) as show:
                for event in training:
                    show(event)
            return training.result
    except KeyboardInterrupt:
        raise _interrupted(run) from None


def _follow_features(
    terminal: Terminal, run: str, begin: Callable[[], FeatureRun]
) -> FeatureResult:
    """Train in this process, a line now and then."""
    intervals = GrowingIntervals()
    try:
        training = begin()
        for event in training:
            if event.kind == "span" and intervals.due():
                terminal.say(_step_line(training, event))
    except KeyboardInterrupt:
        raise _interrupted(run) from None
    return training.result


def _step_line(training: FeatureRun, event: Event) -> str:
    told = event.facts["metrics"]
    return f"step {told['steps']:,} of {training.of.iterations:,}, {told['accesses']:,} accesses"


def _interrupted(run: str) -> Interrupted:
    begun = RunFolder(run).exists()
    how = f"`fewpass resume {run}` continues." if begun else "Nothing was written yet."
    return Interrupted(f"Interrupted. {how}")


def _report(terminal: Terminal, result: TrainingResult) -> None:
    shown: list[RenderableType] = [facts_table("Run", _shown(result))]
    if result.candidates:
        shown.append(candidate_table(result))
    terminal.result(asdict(result), Group(*shown))
    terminal.say(certificate_sentence(result))


def candidate_table(result: TrainingResult) -> Table:
    """Lay out what became of every lam, the one that was chosen marked."""
    table = Table(title="On held-out rows", title_justify="left", title_style="bold", box=None)
    for name in ("lam", "loss", "error", "objective", "above optimum", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for found in result.candidates:
        table.add_row(
            f"{found['lam']:.6g}",
            f"{found['loss']:.6f}",
            *(or_dash(found[name], style) for name, style in CANDIDATE_STYLES.items()),
            "chosen" if found["lam"] == result.lam else "",
        )
    return table


def _shown(result: TrainingResult) -> dict[str, Any]:
    by_features = _shown_features(result) if isinstance(result, FeatureResult) else {}
    return {
        "at": result.run,
        "snapshot": result.snapshot,
        "solver": f"{result.solver}, loss {result.loss}, lam {result.lam:.6g}",
        "models": f"{result.classes}, one per class" if result.classes else None,
        "passes": f"{result.passes:.4g}, {result.rows_seen:,} rows",
        **by_features,
        "objective": result.objective,
        "read": format_bytes(result.bytes_read),
        "took": f"{format_seconds(result.seconds)}, at most "
        f"{format_bytes(result.peak_memory_bytes)} of memory",
    }


def _shown_features(result: FeatureResult) -> dict[str, Any]:
    """Lay out what counts where single features are read."""
    share = result.accesses / max(result.passes, 1e-300)  # values of the data set
    pilot = f", and {result.pilot_accesses:,} to find nu" if result.pilot_accesses else ""
    where = "mapped from files" if result.mapped else "in memory"
    return {
        "passes": f"none; {result.iterations:,} steps, rows and columns {where}",
        "accesses": f"{result.accesses:,}{pilot}; the data have {share:,.0f} values",
        "nu": result.nu,
        "margin": f"{result.margin:.6g}, at most {result.margin_bound:.6g} is possible",
    }


def certificate_sentence(result: TrainingResult) -> str:
    """Say how far from the best possible model this one can be."""
    if result.certificate is None or result.objective is None:
        return "How far from optimal: not asked for (--certify pays one more pass to know)."
    if result.certificate >= result.objective:
        return (
            "Certificate: nothing is proven yet but that no loss is below 0. "
            "More --passes or a larger --lam tighten it."
        )
    relative = result.certificate / max(1.0, abs(result.objective))
    hinge = result.hinge_certificate
    whose = f"of each of the {result.classes} models " if result.classes else ""
    return (
        f"Certificate: the objective {whose}is at most {result.certificate:.3g} above the optimum "
        f"(relative {relative:.2g})."
        + (f" With the plain hinge for a loss, at most {hinge:.3g} above its." if hinge else "")
    )
