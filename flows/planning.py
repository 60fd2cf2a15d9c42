"""`fewpass plan`: what a training is going to take, before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fewpass.flows.display.console import Terminal, facts_table, format_seconds
from fewpass.flows.display.training_display import ENGINES
from fewpass.flows.flags import in_flags
from fewpass.flows.options import Output, PlanSource, TrainingOptions
from fewpass.flows.settings import as_toml, training_settings
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.executors.executor import threads_of
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import flat
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.straight.telling import is_source
from fewpass.pipeline.training.planning.advice import advice
from fewpass.pipeline.training.planning.default_memory import with_memory
from fewpass.pipeline.training.planning.forecast import Forecast, forecast
from fewpass.pipeline.training.planning.job import solver_of_job
from fewpass.pipeline.training.planning.lam_path import with_lam_path
from fewpass.pipeline.training.planning.place import place_of
from fewpass.pipeline.training.planning.planner import Planner
from fewpass.pipeline.training.planning.trial import Speed, seconds_of, try_out
from fewpass.storage.dataset import Dataset

if TYPE_CHECKING:
    from fewpass.pipeline.straight.forecast import StraightForecast

KEPT = (
    "A plan writes nothing, and `keep` asks for a data set. Leave it out to plan a training "
    "straight from the source; or ingest, and plan on the data set."
)
NOT_STORED = (
    "A certificate or a tolerance needs the rows again, which are stored nowhere; train with "
    "--keep DATASET, or ingest, for them."
)


def run_plan(
    dataset: str,
    training: TrainingOptions,
    plan_source: PlanSource,
    output: Output,
) -> int:
    """Forecast a training as the options say it."""
    terminal = Terminal(output)
    from_source = is_source(dataset)
    if from_source and training.keep is not None:
        raise BadInput(KEPT)
    plan, place = training_settings(dataset, training, plan_source, is_source=from_source)
    if plan_source.dry_run:
        terminal.result(flat(plan, place), as_toml(plan, place))
        return 0
    terminal.plan(as_toml(plan, place))
    if plan.source is not None:
        return _straight(terminal, dataset, plan)
    return _on_data_set(terminal, dataset, plan, place)


def _straight(terminal: Terminal, source: str, plan: TrainingPlan) -> int:
    """Tell what learning straight from a source takes."""
    from fewpass.pipeline.straight.forecast import foresee  # noqa: PLC0415 - and readers of text

    _, choice, foreseen, notes = foresee(plan)
    facts = {"source": source} | foreseen.model_dump()
    facts |= {"chosen": choice.reason if choice else None, "notes": notes}
    for note in notes:
        terminal.say(note, style="yellow")
    terminal.result(facts, facts_table("Forecast", shown_straight(foreseen)))
    if choice:
        terminal.explain(f"Chosen: {choice.reason}.")
    terminal.explain(NOT_STORED)
    return 0


def _on_data_set(terminal: Terminal, dataset: str, plan: TrainingPlan, place: Execution) -> int:
    """Tell what a training on a data set takes."""
    data = Dataset.open(plan.dataset)
    where_to, why = place_of(place, plan, data.manifest)
    planner = Planner(with_lam_path(plan, data.manifest), data)
    memory = with_memory(planner).memory
    plan, choice, job = planner.named(memory), planner.choice(memory), planner.job(memory)
    foreseen = forecast(plan, job)
    said = [in_flags(one) for one in advice(planner, plan, job, foreseen)]
    speed = try_out(solver_of_job(plan, job), job)
    seconds = seconds_of(foreseen, speed, plan.streams, threads_of(where_to))
    facts = {"dataset": dataset} | foreseen.model_dump()
    facts |= {"tried_rows": speed.rows, "seconds": seconds, "advice": said}
    facts |= {"chosen": choice.reason if choice else None}
    facts |= {"engine": where_to.engine, "why": why}
    lines = shown(foreseen, speed, seconds) | {"engine": f"{ENGINES[where_to.engine]} ({why})"}
    terminal.result(facts, facts_table("Forecast", lines))
    if choice:
        terminal.explain(f"Chosen: {choice.reason}.")
    for sentence in said:
        terminal.explain(sentence)
    return 0


def shown(foreseen: Forecast, speed: Speed, seconds: float) -> dict[str, Any]:
    """Lay a forecast out for people."""
    windows = f"windows of {foreseen.window_rows:,} rows"
    rows = "all rows, which are read once," if foreseen.resident else windows
    memory = foreseen.state_bytes + foreseen.window_bytes + foreseen.overhead_bytes
    return {
        "method": f"{foreseen.solver}, loss {foreseen.loss}, lam {foreseen.lam:.6g}",
        "models": models_line(foreseen),
        "L": smoothness_line(foreseen),
        "mu": foreseen.strong_convexity,
        "kappa": foreseen.kappa,
        "passes": passes_line(foreseen),
        "to read": f"{format_bytes(foreseen.bytes_per_pass)} a pass, "
        f"{format_bytes(foreseen.bytes_read)} in all",
        "memory": f"{format_bytes(memory)} at most: state {format_bytes(foreseen.state_bytes)}, "
        f"{rows} {format_bytes(foreseen.window_bytes)}, "
        f"overhead {format_bytes(foreseen.overhead_bytes)}",
        "time": f"about {format_seconds(seconds)}, as {speed.rows:,} rows went here",
    }


def shown_straight(foreseen: StraightForecast) -> dict[str, Any]:
    """Lay the forecast of a straight training out for people."""
    memory = foreseen.state_bytes + foreseen.buffer_bytes + foreseen.overhead_bytes
    expected = f"about {foreseen.n_rows:,}, by the first {foreseen.first_rows:,}"
    more = ", later rows may have more" if foreseen.columns_may_grow else ""
    size, seconds = foreseen.bytes_to_read, foreseen.seconds
    speed = f", as {foreseen.tried_rows:,} rows went here"
    return {
        "method": f"{foreseen.solver}, loss {foreseen.loss}, lam {foreseen.lam:.6g}",
        "models": None if foreseen.models == 1 else f"{foreseen.models}: one per class and lam",
        "rows": f"{foreseen.n_rows:,}" if foreseen.whole else expected,
        "columns": f"{foreseen.n_features:,}{more}",
        "to read": None if size is None else f"{format_bytes(size)}, once",
        "memory": f"{format_bytes(memory)} at most: state {format_bytes(foreseen.state_bytes)}, "
        f"rows {format_bytes(foreseen.buffer_bytes)}, "
        f"overhead {format_bytes(foreseen.overhead_bytes)}",
        "time": None if seconds is None else f"about {format_seconds(seconds)}{speed}",
        "engine": "threads of this process (rows are read once)",
    }


def models_line(foreseen: Forecast) -> str | None:
    """Say how many models there are, if several, and whether they are trained together."""
    if foreseen.models == 1:
        return None
    line = f"{foreseen.models}: one per class and value of lam"
    if foreseen.groups == 1:
        return line
    return f"{line}, in {foreseen.groups} groups one after the other, as memory is short"


def smoothness_line(foreseen: Forecast) -> str:
    """Write down both smoothness constants, or why there is none."""
    if foreseen.largest_smoothness is None:
        return "none: the loss has a kink"
    return f"{foreseen.largest_smoothness:.4g} (mean {foreseen.mean_smoothness:.4g})"


def passes_line(foreseen: Forecast) -> str:
    """Tell passes: as allowed, as usual, as the theory has it."""
    certifying = f" and {foreseen.certifying_passes:.0f} to certify"
    line = f"{foreseen.passes:.0f}{certifying if foreseen.certifying_passes else ''}"
    if foreseen.usual_passes is not None:
        line += f", of about {foreseen.usual_passes:.0f} usual for {foreseen.tol:g}"
    if foreseen.theory_passes is not None:
        line += f" (theory: at most {foreseen.theory_passes:,.0f} on average)"
    return line
