"""`fewpass evaluate` and `fewpass predict`."""

from __future__ import annotations

from typing import Any

from flows.cluster import cluster
from flows.console import Terminal, facts_table, format_seconds
from flows.options import Output, Reading, Where, given
from flows.settings import execution, source_options
from pipeline.publishing import run_at
from pipeline.scoring.evaluate import Evaluation, evaluate
from pipeline.scoring.predict import predict
from pipeline.sizes import format_bytes, parse_bytes
from pipeline.training.model import Model, load_model
from storage.dataset import Dataset


def run_evaluate(run: str, dataset: str, memory: str | None, where: Where, output: Output) -> int:
    """Evaluate a run's model on a data set, and report."""
    terminal = Terminal(output)
    evaluation = evaluate_shown(terminal, run, dataset, memory, where)
    terminal.result(
        evaluation_facts(evaluation), facts_table(f"{run} on {dataset}", _shown(evaluation))
    )
    return 0


def evaluate_shown(
    terminal: Terminal, run: str, dataset: str, memory: str | None, where: Where
) -> Evaluation:
    """Evaluate, and say which snapshot of an unfinished run that is."""
    model = load_model(run_at(run))
    terminal.say(f"Snapshot {model.snapshot} of {run}")
    data = Dataset.open(dataset)
    with cluster(execution(where)) as executor:
        return evaluate(_within(model, memory), data, executor)


def _within(model: Model, memory: str | None) -> Model:
    """Give a model's plan another memory budget."""
    if memory is None:
        return model
    plan = model.record.plan.model_copy(update={"memory": parse_bytes(memory)})
    return model._replace(record=model.record.model_copy(update={"plan": plan}))


def evaluation_facts(evaluation: Evaluation) -> dict[str, Any]:
    """Return what --json prints: error and auc for labels, mse and r2 for numbers."""
    figures = ("error", "auc") if evaluation.mse is None else ("mse", "r2")
    names = ("rows", "objective", "loss", *figures)
    return {name: getattr(evaluation, name) for name in names}


def _shown(evaluation: Evaluation) -> dict[str, Any]:
    facts = evaluation_facts(evaluation)
    if evaluation.auc is not None and evaluation.auc_within is not None:
        facts["auc"] = f"{evaluation.auc:.6f} (exact to {evaluation.auc_within:.1g})"
    return facts


def run_predict(
    run: str,
    source: str,
    out: str,
    probability: bool,
    memory: str,
    threads: int | None,
    reading: Reading,
    output: Output,
) -> int:
    """Predict every row of a source into a file, and report."""
    terminal = Terminal(output)
    result = predict(
        load_model(run_at(run)),
        [source],
        out,
        source_options(given(reading)),
        probability=probability,
        memory=parse_bytes(memory),
        threads=threads,
    )
    shown = {
        "in": result.output,
        "rows": result.rows,
        "columns": ", ".join(result.columns),
        "took": f"{format_seconds(result.seconds)}, at most "
        f"{format_bytes(result.peak_memory_bytes)} of memory",
    }
    terminal.result(result._asdict(), facts_table("Predictions", shown))
    return 0
