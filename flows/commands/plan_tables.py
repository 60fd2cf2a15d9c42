"""The forecast of a training as tables, for `fewpass train --plan`."""

from __future__ import annotations

from typing import Any

from rich.console import Group

from fewpass.flows.display.console import Terminal, facts_table
from fewpass.flows.display.seldom_sentences import ENGINES
from fewpass.flows.flags import in_flags, to_reproduce
from fewpass.pipeline.budget import TakenMemory
from fewpass.pipeline.planning.advice import advice
from fewpass.pipeline.planning.forecast import Forecast, forecast, shares_of
from fewpass.pipeline.planning.job import training_memory
from fewpass.pipeline.planning.place import place_of
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.training.prepared import planned
from fewpass.solvers.registry import loss_class
from fewpass.storage.dataset import Dataset


def print_forecast(terminal: Terminal, dataset: str, plan: TrainingPlan, place: Execution) -> None:
    """Print the forecast of a training on a data set."""
    data = Dataset.open(plan.dataset)
    where_to, why = place_of(place, plan, data.manifest)
    held_out = None if plan.held_out is None else Dataset.open(plan.held_out)
    near, workers = where_to.workers is None and not where_to.is_elsewhere, where_to.workers or 1
    planner, plan, origin = planned(plan, data, held_out, near=near, workers=workers)
    memory = plan.memory
    plan, choice = planner.named(memory), planner.choice(memory)
    job = planner.job(training_memory(plan))
    predicted = forecast(plan, job)
    said = [in_flags(one) for one in advice(planner, plan, job, predicted)]
    facts = {"dataset": dataset} | predicted.model_dump()
    facts |= {"advice": said}
    facts |= {"chosen": choice.reason if choice else None}
    facts |= {"lam_origin": origin and origin.as_facts()}
    shares = shares_of(plan, job, predicted)
    facts |= {"engine": where_to.engine, "why": why, "budget": _as_facts(shares)}
    lines = shown(predicted) | {"engine": f"{ENGINES[where_to.engine]} ({why})"}
    terminal.result(facts, _tables(lines, shares))
    if origin:
        terminal.explain(f"Chosen: {in_flags(origin.sentence())}.")
    if choice:
        terminal.explain(f"Chosen: {choice.reason}.")
    if memory > planner.plan.memory:
        terminal.explain(to_reproduce(memory))
    for sentence in said:
        terminal.explain(sentence)


def _as_facts(shares: list[TakenMemory]) -> list[dict[str, Any]]:
    return [one._replace(why=in_flags(one.why))._asdict() for one in shares]


def _tables(lines: dict[str, Any], shares: list[TakenMemory]) -> Group:
    """Lay out a forecast and below it who takes what of the memory."""
    memory = {one.what: f"{format_bytes(one.bytes)}: {in_flags(one.why)}" for one in shares}
    return Group(facts_table("Forecast", lines), facts_table("Memory", memory))


def shown(predicted: Forecast) -> dict[str, Any]:
    """Lay out a forecast."""
    return {
        "method": f"{predicted.solver}, loss {predicted.loss}, lam {predicted.lam:.6g}",
        "models": models_line(predicted),
        "L": smoothness_line(predicted),
        "mu": predicted.strong_convexity,
        "kappa": predicted.kappa,
        "passes": passes_line(predicted),
        "to read": f"{format_bytes(predicted.bytes_per_pass)} a pass, "
        f"{format_bytes(predicted.bytes_read)} in all",
    }


def models_line(predicted: Forecast) -> str | None:
    """Say how many models there are, if several, and whether they are trained together."""
    if predicted.models == 1:
        return None
    line = f"{predicted.models}: one per class and value of lam"
    if predicted.groups == 1:
        return line
    return f"{line}, in {predicted.groups} groups one after the other, as memory is short"


def smoothness_line(predicted: Forecast) -> str:
    """Write down both smoothness constants, or why there is none."""
    if predicted.largest_smoothness is None:
        return f"none: {why_not_smooth(predicted)}"
    return f"{predicted.largest_smoothness:.4g} (mean {predicted.mean_smoothness:.4g})"


def why_not_smooth(predicted: Forecast) -> str:
    """Say why L over mu is no number."""
    loss = loss_class(predicted.loss)
    if predicted.strong_convexity == 0.0:
        return "the penalty has no squares"
    if not loss.is_smooth:
        return "the loss has a kink"
    return (
        "the slope of the loss has no bound"
        if loss.is_steep
        else "lam is too small for rows so long"
    )


def passes_line(predicted: Forecast) -> str:
    """Return the passes: as allowed, as usual, by theory."""
    certifying = f" and {predicted.certifying_passes:.0f} to certify"
    line = f"{predicted.passes:.0f}{certifying if predicted.certifying_passes else ''}"
    if predicted.usual_passes is not None:
        line += f"; usually about {predicted.usual_passes:.0f} to {predicted.tol:g}"
    if predicted.theory_passes is not None:
        line += f" (theory: at most {predicted.theory_passes:,.0f} on average)"
    return line
