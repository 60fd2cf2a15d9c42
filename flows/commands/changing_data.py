"""`fewpass append` and `forget`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fewpass.flows.options import FIXED, OUTPUT, WHERE, Output, Where, given, takes
from fewpass.flows.refusals import UsageError
from fewpass.pipeline.settings.change_plans import AppendPlan, ForgetPlan
from fewpass.pipeline.sizes import format_seconds

if TYPE_CHECKING:
    from fewpass.pipeline.tables.changing.appending import AppendResult
    from fewpass.pipeline.tables.changing.forgetting import ForgetResult


@takes(AppendPlan, but=(*FIXED, "threads"))
class AppendOptions:
    """Options of reading and appending files."""


@takes(ForgetPlan, but=("threads",))
class ForgetOptions:
    """Options that choose rows to delete."""


APPEND, FORGET = AppendOptions(), ForgetOptions()


def append(
    dataset: str,
    sources: tuple[str, ...],
    /,
    *,
    asked: AppendOptions = APPEND,
    execution: Where = WHERE,
    output: Output = OUTPUT,
) -> int:
    """Show what `fewpass.append` does."""
    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.flows.settings import checked
    from fewpass.pipeline.passes.executor import open_cluster
    from fewpass.pipeline.settings.execution import Execution
    from fewpass.pipeline.tables.changing.appending import append as appended

    terminal = Terminal(output)
    place = checked(Execution, given(execution))
    words = {"dataset": dataset, "sources": sources, "threads": place.threads}
    plan = checked(AppendPlan, given(asked) | words)
    with work_display(terminal, "Appending") as show, open_cluster(place) as executor:
        result = appended(plan, progress=show, executor=executor)
    for row in result.skipped_rows[:10]:
        terminal.say(f"Skipped {row}", style="yellow")
    for note in result.notes:
        terminal.say(note, style="yellow")
    terminal.result(result.model_dump(mode="json"), facts_table("Data set", _appended(result)))
    return 0


def forget(
    dataset: str,
    /,
    *,
    asked: ForgetOptions = FORGET,
    runs: str | None = None,
    retrain: bool = False,
    warm: bool = False,
    execution: Where = WHERE,
    output: Output = OUTPUT,
) -> int:
    """Show what `fewpass.forget` does."""
    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.flows.settings import checked
    from fewpass.pipeline.models.forgotten_rows import forgotten_everywhere
    from fewpass.pipeline.settings.execution import Execution

    terminal = Terminal(output)
    if warm and not retrain:
        raise UsageError("--warm says how models are trained anew. Give --retrain, too.")
    place = checked(Execution, given(execution))
    plan = checked(ForgetPlan, given(asked) | {"dataset": dataset, "threads": place.threads})
    with work_display(terminal, "Forgetting") as show:
        result = forgotten_everywhere(
            plan, runs=runs, retrain=retrain, warm=warm, execution=place, progress=show
        )
    for note in result.notes:
        terminal.say(note, style="yellow")
    if result.models:
        published = f" Published: {', '.join(result.published)}." if result.published else ""
        terminal.say(
            "These models have learnt from such rows: "
            f"{'' if retrain else 'retrain them (--retrain), and '}delete them where they must go: "
            f"{', '.join(result.models)}.{published}",
            style="yellow",
        )
    if result.chosen:
        terminal.say(
            "These models have not learnt from such rows, but were chosen or measured by test rows "
            f"among them: {', '.join(result.chosen)}. Delete those that must go, too.",
            style="yellow",
        )
    title = "Would be forgotten" if plan.dry_run else "Data set"
    terminal.result(result.model_dump(mode="json"), facts_table(title, _forgotten(result)))
    return 0


def _test_rows(result: AppendResult | ForgetResult, changed: str) -> str | None:
    if not result.test_dataset:
        return None
    return f"{result.test_rows:,} in {result.test_dataset}, {changed}"


def _appended(result: AppendResult) -> dict[str, Any]:
    return {
        "at": result.dataset,
        "generation": result.generation,
        "rows": result.rows,
        "appended": "nothing: all rows of these files were taken before"
        if result.already
        else result.appended,
        "taken before": ", ".join(result.taken_before) or None,
        "test rows": _test_rows(result, f"{result.test_appended:,} of them new"),
        "skipped rows": result.skipped or None,
        "columns left out": ", ".join(result.left_out) or None,
        "took": _took(result),
    }


def _forgotten(result: ForgetResult) -> dict[str, Any]:
    examples = (", ".join(f"{k}={v}" for k, v in row.items()) for row in result.examples)
    return {
        "at": result.dataset,
        "generation": result.generation,
        "rows": result.rows,
        "would go" if result.dry_run else "forgotten": result.forgotten,
        "test rows": _test_rows(
            result,
            f"{result.test_forgotten:,} {'would go' if result.dry_run else 'forgotten'}",
        ),
        "such as": "; ".join(examples) or None,
        "values not found": result.unmatched or None,
        "models": ", ".join(result.models) or None,
        "chosen by them": ", ".join(result.chosen) or None,
        "trained anew": ", ".join(result.retrained) or None,
        "took": _took(result),
    }


def _took(result: AppendResult | ForgetResult) -> str:
    from fewpass.pipeline.sizes import format_bytes

    memory = format_bytes(result.peak_memory_bytes)
    return f"{format_seconds(result.seconds)}, at most {memory} of memory"
