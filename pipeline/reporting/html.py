"""What came of a training, as a notebook shows it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Self

from fewpass.pipeline.reporting.safe_text import as_html
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder


class ShownResult(TrainingResult):
    """A training's result, which a notebook shows as tables and its loss curve."""

    @classmethod
    def of(cls, result: TrainingResult) -> Self:
        """Take the result's fields."""
        return cls(**vars(result))

    def _repr_html_(self) -> str:
        return training_html(self)


def training_html(result: TrainingResult) -> str:
    """Return a table of what counts, what became of every lam, and the loss curve.

    The curve is drawn of the run's log; none of a run that is gone, or without matplotlib.
    """
    parts = [_facts(_of_training(result))]
    if result.candidates:
        parts.append(_rows(result.candidates))
    if curve := _loss_curve(result.run):
        parts.append(f'<img alt="loss curve" src="data:image/png;base64,{curve}">')
    return "\n".join(parts)


def _of_training(result: TrainingResult) -> dict[str, Any]:
    proven = None
    if result.certificate is not None and result.objective is not None:
        proven = f"{result.objective:.6g}, at most {result.certificate:.3g} above the optimum"
    return {
        "run": result.run,
        "method": f"{result.solver}, loss {result.loss}, lam {result.lam:.6g}",
        "models": result.classes,
        "passes": f"{result.passes:.4g}",
        "objective": proven,
        "tolerance": result.convergence.sentence(result.passes),
        "held-out loss lowest after": result.passes_of_model and f"{result.passes_of_model:.4g}",
        "took": f"{result.seconds:.1f} s, at most {result.peak_memory_bytes / 1e6:.0f} MB",
    }


def _facts(facts: Mapping[str, Any]) -> str:
    rows = (
        f"<tr><th>{as_html(name)}</th><td>{as_html(str(value))}</td></tr>"
        for name, value in facts.items()
        if value is not None
    )
    return f"<table>{''.join(rows)}</table>"


def _rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay out rows of the same columns; numbers to six digits."""
    head = "".join(f"<th>{as_html(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{_number(value)}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}"


def _loss_curve(url: str) -> str | None:
    from fewpass.pipeline.reporting.drawing import can_draw  # noqa: PLC0415
    from fewpass.pipeline.reporting.history import read_history  # noqa: PLC0415

    run = RunFolder(url)
    if not (can_draw() and run.exists()):
        return None
    from fewpass.pipeline.reporting.pictures import loss_curve  # noqa: PLC0415 - matplotlib

    history = read_history(run.events())
    if not (history.points or history.certificates):
        return None
    picture = loss_curve(history, run.folder.name, run.record().n_rows)
    return base64.b64encode(picture).decode()
