"""`fewpass evaluate RUN RUN... --html`: several models on the same rows, on one page."""

from __future__ import annotations

from markupsafe import Markup

from fewpass.pipeline.drawing.charts import Curve, Whisker, chart
from fewpass.pipeline.drawing.pieces import card, document, header, last_part, section, table
from fewpass.pipeline.scoring.paired_figures import Difference, ModelComparison
from fewpass.pipeline.settings.metric_registry import METRICS, capitalised


def comparison_page(comparison: ModelComparison, data: str) -> str:
    """Return the page as text."""
    names = names_of(comparison)
    metrics = [one.metric for one in comparison.models[0].differences]
    drawn = [_metric(comparison, names, k) for k in range(len(metrics))]
    named = comparison.positive
    of = "" if named is None else f" The label {named} counts as positive."
    note = (
        f"On {comparison.rows:,} rows, the same for all.{of} A difference below 0 is better than "
        f"{names[0]}; where its interval holds 0, the rows do not tell which is better."
    )
    return document(
        "fewpass: models compared",
        [
            header(f"{len(names)} models on {last_part(data)}"),
            section("Figures", card("", _figures(comparison, names), note, wide=True)),
            section("Differences from the first, with 95 % intervals", *drawn),
        ],
    )


def names_of(comparison: ModelComparison) -> list[str]:
    """Return the runs by the ends of their addresses, whole where these are the same."""
    runs = [one.run for one in comparison.models]
    ends = [last_part(run) for run in runs]
    return ends if len(set(ends)) == len(ends) else runs


def _figures(comparison: ModelComparison, names: list[str]) -> Markup:
    metrics = [one.metric for one in comparison.models[0].differences]
    has_auc = comparison.models[0].evaluation.auc is not None
    head = ("model", *(METRICS[metric].words for metric in metrics), *["AUC"] * has_auc)
    rows = []
    for name, model in zip(names, comparison.models, strict=True):
        auc = [f"{model.evaluation.auc:.4f}"] if has_auc else []
        rows.append((name, *(f"{one.value:.5g}" for one in model.differences), *auc))
    return table(head, rows)


def _metric(comparison: ModelComparison, names: list[str], k: int) -> Markup:
    """Draw how far every model is from the first, and write it down."""
    each = [model.differences[k] for model in comparison.models]
    points = [(float(m), one.difference) for m, one in enumerate(each, 1)]
    whiskers = [
        Whisker(float(m), one.difference - one.within, one.difference + one.within)
        for m, one in enumerate(each, 1)
    ]
    ends = (0.5, len(each) + 0.5)
    lines = [
        Curve(f"as {names[0]}", [(x, 0.0) for x in ends], 2, "dashed"),
        Curve("difference, with its 95 % interval", points, 1, "marks"),
    ]
    drawn = chart(lines, "model", "difference", x="whole", whiskers=whiskers, x_range=ends)
    rows = [
        (f"{m}: {name}", f"{one.difference:+.4g} +- {one.within:.2g}", verdict(one))
        for m, (name, one) in enumerate(zip(names, each, strict=True), 1)
    ]
    title = capitalised(each[0].metric)
    return card(title, drawn + table(("model", "difference", ""), rows))


def verdict(one: Difference) -> str:
    """Say what a difference tells."""
    if one.difference == 0.0 and one.within == 0.0:
        return "the same"
    if abs(one.difference) <= one.within:
        return "not told apart"
    return "better" if one.difference < 0.0 else "worse"
