"""The path over lam: held-out loss, and how many weights are not 0, against lam."""

from __future__ import annotations

from fewpass.pipeline.drawing.charts import Curve, Whisker, chart
from fewpass.pipeline.drawing.pieces import card, section
from fewpass.pipeline.runs.grid import Candidate, Choice


def path_of_lams(choice: Choice | None) -> str:
    """Draw both where several lam were trained; the strokes are standard errors."""
    if choice is None or len(choice.candidates) < 2:
        return ""
    chosen = [one for one in choice.candidates if one.lam == choice.lam]
    curves = [
        Curve("each lam", [(one.lam, one.loss) for one in choice.candidates], 1),
        Curve("the model that is used", [(one.lam, one.loss) for one in chosen], 2, "marks"),
    ]
    strokes = [
        Whisker(one.lam, one.loss - one.standard_error, one.loss + one.standard_error)
        for one in choice.candidates
        if one.standard_error is not None
    ]
    drawn = chart(curves, "lam", "mean loss of held-out rows", x="log", whiskers=strokes)
    note = "Strokes: the standard error of how far a loss is above the least." if strokes else ""
    return section("Path over lam", card("Held-out loss", drawn, note), _counts(choice, chosen))


def _counts(choice: Choice, chosen: list[Candidate]) -> str:
    points = [(one.lam, float(one.nonzeros)) for one in choice.candidates if one.nonzeros]
    if not points:
        return ""
    used = [(one.lam, float(one.nonzeros)) for one in chosen if one.nonzeros]
    curves = [Curve("each lam", points, 1), Curve("the model that is used", used, 2, "marks")]
    drawn = chart(curves, "lam", "weights that are not 0", x="log", y="log")
    return card("Weights that are not 0", drawn)
