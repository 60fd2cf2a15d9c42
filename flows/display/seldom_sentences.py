"""Sentences on a training that are said once or seldom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fewpass.flows.flags import in_flags, to_reproduce
from fewpass.pipeline.runs.events import Event, GroupTrained, Start
from fewpass.pipeline.runs.timeline import step_in
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import counted, format_bytes

ENGINES = {"threads": "threads of this process", "dask": "Dask"}


def engine_line(facts: Start) -> str:
    """Say what a training runs on, why, and where that can be watched."""
    why = f" ({facts.why})" if facts.why else ""
    where = f", dashboard {facts.dashboard}" if facts.dashboard else ""
    return f"Running on {ENGINES[facts.engine]}{why}{where}{_without_page(facts.dashboard)}"


def _without_page(dashboard: str | None) -> str:
    """Say how a scheduler that was started elsewhere comes to a page about its trainings."""
    if dashboard is None:
        return ""
    from fewpass.pipeline.passes.on_dask import PAGE  # noqa: PLC0415 - with Dask it is loaded

    if dashboard.endswith(PAGE):
        return ""
    return f"; started with `--preload fewpass.pipeline.dashboard.routes` it has a page {PAGE}, too"


def seldom_sentences(event: Event) -> Iterator[tuple[str, bool]]:
    """Yield the sentences of an event that happens seldom, and whether each is a warning."""
    facts = event.facts
    if event.kind == "resume":
        yield from _resumed(event, facts)
    elif event.kind == "start":
        yield from ((sentence, False) for sentence in _begun(facts))
    elif event.kind in SENTENCES:
        sentence, is_warning = SENTENCES[event.kind]
        yield sentence(facts), is_warning


def _resumed(event: Event, facts: Start) -> Iterator[tuple[str, bool]]:
    for problem in facts.damaged:
        yield f"Passed over a damaged snapshot. {problem}", True
    rows = f", {counted(event.cursor.rows_seen, 'row')} seen" if event.cursor.rows_seen else ""
    where = f"snapshot {facts.snapshot}{rows}"
    if facts.finished:
        yield f"The training is finished ({where}): nothing is left to do.", False
    else:
        yield f"Continuing from {where}.", False


def _begun(facts: Start) -> Iterator[str]:
    """Yield what was decided before a training began."""
    if facts.memory > TrainingPlan.model_fields["memory"].default:
        yield (
            f"May use up to {format_bytes(facts.memory)} of memory. {to_reproduce(facts.memory)}"
        )
    if facts.groups > 1:
        yield (
            f"{facts.models} models in {facts.groups} groups, one after the other: together they "
            "do not fit into the memory (--memory)."
        )
    if facts.lam:
        yield f"Chosen: {in_flags(facts.lam)}."
    if facts.chosen:
        yield f"Chosen: {facts.chosen}."


def group_line(facts: GroupTrained) -> str:
    """Name the models that are trained."""
    proven = "" if facts.gap is None else f", at most {facts.gap:.2g} above the optimum"
    last = facts.first + facts.classes
    return f"Models {facts.first + 1} to {last} of {facts.of} are trained{proven}."


#: The sentence of a seldom event, and whether it is a warning.
SENTENCES: dict[str, tuple[Callable[[Any], str], bool]] = {
    "group": (group_line, False),
    "switch": (lambda facts: f"Falling back: {facts.why}", True),
    "learners": (lambda facts: f"Best learner: {facts.sentence()}.", False),
    "warning": (lambda facts: str(facts.sentence), True),
    "skipped": (
        lambda facts: (
            f"{counted(facts.rows, 'bad row was', 'bad rows were')} left out. "
            f"First: {facts.reasons[0]}."
        ),
        False,
    ),
    "restart": (
        lambda facts: (
            f"The loss exploded; starting again with the step {step_in(facts.metrics):g}."
        ),
        True,
    ),
}
