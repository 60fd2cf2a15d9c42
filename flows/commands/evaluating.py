"""`fewpass evaluate`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fewpass.flows.options import (
    FIXED,
    OUTPUT,
    WHERE,
    Output,
    Where,
    called,
    given,
    takes,
)
from fewpass.flows.refusals import UsageError
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import Words
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.settings.prediction_plan import EvaluationPlan, FigureOptions
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.sizes import counted
from fewpass.storage.redaction import shown_address

if TYPE_CHECKING:
    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.explaining.importance import Importance
    from fewpass.pipeline.runs.model import Model
    from fewpass.pipeline.scoring.evaluation import Evaluation


@takes(EvaluationPlan, but=FIXED)
class EvaluationOptions:
    """Options of the figures, and of reading files."""


EVALUATION = EvaluationOptions()


class Evaluated(NamedTuple):
    """Results to show; None where not asked for."""

    evaluation: Evaluation
    columns: Importance | None = None
    page: str | None = None  # about the probabilities


def evaluate(
    run: tuple[str, ...],
    dataset: str,
    /,
    *,
    reliability: bool = False,
    importance: bool = False,
    html: str | None = None,
    overwrite: bool = False,
    asked: EvaluationOptions = EVALUATION,
    where: Where = WHERE,
    output: Output = OUTPUT,
) -> int:
    """Show what `fewpass.evaluate` finds.

    Several runs are compared on the same rows: differences from the first, with 95% intervals.

    Parameters
    ----------
    reliability
        Show whether its probabilities come true. Adds Brier score, log loss, calibration error, and
        the reliability diagram in RUN/report/reliability.html.
    importance
        Show how important each column is. Adds its share of the scores' variance, and how much the
        loss grows where its values are exchanged among rows.
    html
        File for a page that compares several runs.
    overwrite
        Replace that file if it exists already.
    """
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.settings import checked
    from fewpass.pipeline.models.refresh.named_run import run_at
    from fewpass.pipeline.outputs import OutputFile
    from fewpass.pipeline.runs.model import load_model
    from fewpass.pipeline.scoring.probabilities import probabilities_of
    from fewpass.pipeline.tables.stream.sources import is_source

    terminal, words, (first, *others) = Terminal(output), given(asked), run
    plan, place = checked(EvaluationPlan, words), checked(Execution, given(where))
    if not is_source(dataset):
        _refuse_reading(words, plan.by, dataset)
    if others:
        from fewpass.flows.commands.comparing_runs import compare_shown

        _require_of_several(words, reliability=reliability, importance=importance)
        page = None if html is None else OutputFile(html, overwrite, (dataset,))
        compare_shown(terminal, run, dataset, plan, place, page)
        return 0
    if html is not None or overwrite:
        raise UsageError(
            "--html and --overwrite are of a page about several runs. Name two or more; "
            "fewpass report RUN --html makes a page of one."
        )
    on = _on_files if is_source(dataset) else _on_data_set
    model = load_model(run_at(first))
    if reliability:
        probabilities_of(model)  # refuses a model without any before it is evaluated
    _say_snapshot(terminal, model)
    evaluated = on(terminal, model, dataset, place, plan, importance=importance)
    if reliability:
        evaluated = _drawn(model, dataset, evaluated)
    _show(terminal, f"{first} on {shown_address(dataset)}", evaluated)
    return 0


def _require_of_several(words: Words, **asked: bool) -> None:
    """Refuse what is asked of one run alone, where several are named."""
    alone = [called((name,)) for name in FigureOptions.model_fields if name in words]
    alone += [called((name,)) for name, is_asked in asked.items() if is_asked]
    if alone:
        raise UsageError(f"{alone[0]} is of one run. Leave it out, or evaluate each run alone.")


def _drawn(model: Model, dataset: str, evaluated: Evaluated) -> Evaluated:
    """Draw whether probabilities come true."""
    from fewpass.pipeline.reporting.held_out import write_reliability

    diagram, name = evaluated.evaluation.reliability, Path(shown_address(dataset)).name
    assert diagram is not None, "it has probabilities"
    return evaluated._replace(page=write_reliability(model, diagram, name))


def _show(terminal: Terminal, title: str, evaluated: Evaluated) -> None:
    from fewpass.flows.commands.evaluation_tables import all_facts, all_tables
    from fewpass.pipeline.matching import left_out_sentence

    if left_out := evaluated.evaluation.left_out:
        terminal.say(left_out_sentence(left_out), style="yellow")
    for note in evaluated.evaluation.notes:
        terminal.say(note, style="yellow")
    terminal.result(all_facts(*evaluated), all_tables(title, *evaluated))


def _refuse_reading(words: dict[str, Any], by: Sequence[str], dataset: str) -> None:
    """Refuse what is asked of files alone, where rows are those of a data set."""
    refuse_reading(words.keys() - Matching.model_fields.keys(), dataset)
    if by:  # what is imported only then takes Arrow
        from fewpass.pipeline.scoring.evaluate_rows import require_file

        require_file(by, dataset)


def _on_data_set(
    terminal: Terminal, model: Model, dataset: str, place: Execution, plan: EvaluationPlan, *,
    importance: bool,
) -> Evaluated:  # fmt: skip
    from fewpass.flows.display.bars import rows_display
    from fewpass.pipeline.planning.engines import engine_for_pass
    from fewpass.pipeline.runs.model import within
    from fewpass.pipeline.scoring.evaluation import evaluate
    from fewpass.storage.dataset import Dataset

    columns, data = None, Dataset.open(dataset)
    model, rules = within(model, plan.memory), plan.options
    with engine_for_pass(place, data) as executor:
        with rows_display(terminal, "Evaluating", data.n_rows) as count:
            result = evaluate(model, data, executor, count, rules, plan)
        if importance:
            from fewpass.pipeline.explaining.importance import importance as importance_of

            columns = importance_of(model, data, executor, rules=rules)
    return Evaluated(result, columns)


def _on_files(
    terminal: Terminal, model: Model, source: str, place: Execution, plan: EvaluationPlan, *,
    importance: bool,
) -> Evaluated:  # fmt: skip
    from fewpass.flows.display.bars import work_display
    from fewpass.pipeline.explaining.importance import (
        sum_over_files,
        summary_of_terms,
        terms_for,
    )
    from fewpass.pipeline.passes.executor import open_cluster
    from fewpass.pipeline.scoring.evaluate_rows import evaluate_rows

    terms = terms_for(model) if importance else None
    with work_display(terminal, "Evaluating") as show:
        result = evaluate_rows(
            model,
            [source],
            plan,
            others=[sum_over_files(model, terms)] if terms else [],
            threads=place.threads,
            cluster=partial(open_cluster, place),
            on_progress=lambda rows, share: show(share, counted(rows, "row")),
        )
    if skipped := result.evaluation.skipped:
        terminal.say(f"Left out {counted(skipped, 'row')} (--on-bad-row skip).", style="yellow")
    columns = summary_of_terms(terms, result.others[0]) if terms else None
    return Evaluated(result.evaluation, columns)


def _say_snapshot(terminal: Terminal, model: Model) -> None:
    """Say which snapshot of a run, unfinished maybe, is evaluated."""
    terminal.say(f"Snapshot {model.snapshot} of {model.run.url}")


def evaluate_shown(terminal: Terminal, run: str, dataset: str) -> Evaluation:
    """Evaluate a run's model on a data set, with a display."""
    from fewpass.pipeline.models.refresh.named_run import run_at
    from fewpass.pipeline.runs.model import load_model

    model = load_model(run_at(run))
    _say_snapshot(terminal, model)
    plan, place = EvaluationPlan(), Execution()
    return _on_data_set(terminal, model, dataset, place, plan, importance=False).evaluation
