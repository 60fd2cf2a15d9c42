"""Whether a run's probabilities come true, in figures and in a picture."""

from __future__ import annotations

from typing import NamedTuple

from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.reporting.report import can_draw
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.reliability import Reliability, reliability
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.storage.dataset import Dataset

RELIABILITY = "report/reliability.png"


class DrawnReliability(NamedTuple):
    """Figures, and where the diagram lies; None where nothing draws it."""

    figures: Reliability
    image: str | None


def draw_reliability(
    model: Model, dataset: Dataset, executor: Executor, rules: Matching = BY_NAME
) -> DrawnReliability:
    """Read a data set once, and draw the diagram into the run's folder.

    Raises BadInput when the model has no probabilities, or the data set does not fit it.
    """
    figures = reliability(model, dataset, executor, rules)
    return DrawnReliability(figures, draw(model, figures, dataset.folder.name))


def draw(model: Model, figures: Reliability, scored_on: str) -> str | None:
    """Draw the diagram into the run's folder; return where it lies, None without matplotlib."""
    if not can_draw():
        return None
    from fewpass.pipeline.reporting.pictures import reliability_diagram  # noqa: PLC0415 - matplotlib

    folder, several = model.run.folder, model.weights.coef.ndim == 2
    title = f"{folder.name} on {scored_on}"
    folder.write(RELIABILITY, reliability_diagram(figures, title, several=several))
    return str(folder.address(RELIABILITY))
