"""Card of a model, on one page of Markdown: data, plan, proof, figures, versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.explaining.importance import Importance
from fewpass.pipeline.matching import listed
from fewpass.pipeline.reporting.figure_rows import (
    Rows,
    class_rows,
    importance_rows,
    shown_figures,
)
from fewpass.pipeline.reporting.model_shapes import form_in_words
from fewpass.pipeline.reporting.report import read_report
from fewpass.pipeline.reporting.run_facts import data_facts, report_facts
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.encoding.schema import described_columns, recipe_in

MOST_COLUMNS = 20  # that are listed by importance
CARD = "report/model-card.md"


def model_card(
    run: RunFolder,
    evaluations: Mapping[str, Evaluation] | None = None,
    importance: Importance | None = None,
) -> str:
    """Write the card of a run's newest model into the run's folder, and return it.

    Parameters
    ----------
    evaluations
        Figures by the data set that they are of; none by default.
    importance
        Of the columns, on held-out rows; none by default.
    """
    report, _, model, _ = read_report(run)
    plan = model.record.plan.model_dump(mode="json")
    parts = [
        f"# Model {as_markdown(run.folder.name)}",
        _table(report_facts(report)),
        "## Data set",
        _table(data_facts(model.record)),
        *_columns(model.record),
        *_form(model.record),
        "## Evaluation",
        *_evaluations(evaluations or {}),
        *_importance(importance),
        "## Plan",
        f"```json\n{json.dumps(_rounded(plan), indent=2)}\n```",
        "## Versions",
        _table(model.record.versions),
    ]
    text = "\n\n".join(parts) + "\n"
    run.folder.write(CARD, text.encode())
    return text


def _rounded(value: Any) -> Any:
    """Return settings with numbers of six digits: run.json has all of them."""
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _columns(record: RunRecord) -> list[str]:
    """Lay out the columns of a table that was encoded, and what becomes of each."""
    columns = dict(described_columns(record.columns))
    return ["## Columns", _table(columns)] if columns else []


def _form(record: RunRecord) -> list[str]:
    """Say how the curves and pairs of an additive model were chosen."""
    recipe = recipe_in(record.columns)
    if recipe is None or recipe.additive is None:
        return []
    own, chosen = recipe.additive, recipe.additive.chosen
    said = ["## Form", form_in_words(own)]
    if chosen is not None:
        losses = {f"held-out loss, {one.form}": f"{one.loss:.6g}" for one in chosen.candidates}
        taken = {p.name: f"z {p.selection.z:.3g}" for p in own.pairs if p.selection}
        said.append(_table({"form": chosen.form, **losses, **taken}))
    return said


def _evaluations(evaluations: Mapping[str, Evaluation]) -> list[str]:
    if not evaluations:
        return ["None was made yet."]
    return [f"On {as_markdown(dataset)}:\n\n" + _figures(e) for dataset, e in evaluations.items()]


def _figures(evaluation: Evaluation) -> str:
    """Return what there is of an evaluation, and what becomes of each class."""
    left_out = listed(evaluation.left_out) if evaluation.left_out else None
    odd = {"columns left out": left_out, "to look at": " ".join(evaluation.notes) or None}
    parts = [_table(shown_figures(evaluation) | odd)]
    if evaluation.classes:
        parts.append(_rows(class_rows(evaluation.classes, len(evaluation.classes))))
    return "\n\n".join(parts)


def _importance(importance: Importance | None) -> list[str]:
    """Lay out the most important columns."""
    if importance is None:
        return []
    rows = importance_rows(importance, MOST_COLUMNS)
    return [f"## Columns by importance\n\nOn {counted(importance.rows, 'row')}.", _rows(rows)]


def _rows(rows: Rows) -> str:
    head, *body = (map(as_markdown, line) for line in ([*rows[0]], *(r.values() for r in rows)))
    lines = [[*head], ["---"] * len(rows[0]), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _table(facts: Mapping[str, Any]) -> str:
    lines = [
        f"| {as_markdown(name)} | {as_markdown(str(value))} |"
        for name, value in facts.items()
        if value is not None
    ]
    return "\n".join(["| | |", "|---|---|", *lines])
