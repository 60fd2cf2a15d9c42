"""Figures of models and of rows in words, the same in terminal, pages and Prefect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fewpass.pipeline.paired_mean import NORMAL_975
from fewpass.pipeline.runs.timeline_points import written_gap
from fewpass.pipeline.settings.metric_registry import METRICS
from fewpass.pipeline.sizes import as_fixed, decimals_of, or_dash

if TYPE_CHECKING:  # Arrow's half a second, which the table of lam need not wait for
    from fewpass.pipeline.explaining.importance import Importance
    from fewpass.pipeline.scoring.evaluate_classes import ClassFigures
    from fewpass.pipeline.scoring.evaluated_slices import Sliced
    from fewpass.pipeline.scoring.evaluation import Evaluation

Rows = list[dict[str, str]]


def lam_rows(candidates: Sequence[dict[str, Any]], metric: str, chosen: float) -> Rows:
    """Lay out what became of every lam, the fields of `grid.Candidate`; the chosen one is marked.

    Columns of which nothing is known are left out.
    """
    losses, lams = ([one[name] for one in candidates] for name in ("loss", "lam"))
    least, decimals = min(losses), decimals_of(losses)
    mark = "chosen" + ", the smallest" * (len(lams) > 1 and chosen == min(lams))
    rows = [
        {
            "lam": f"{one['lam']:.6g}",
            "loss": as_fixed(one["loss"], decimals),
            "above\nleast": _with_error(one["loss"] - least, one["standard_error"]),
            "not 0": or_dash(one["nonzeros"], ",d"),
            **({metric: metric_of(one["cost"], metric)} if metric != "loss" else {}),
            "error": or_dash(one["error"], ".2%"),
            "objective": or_dash(one["objective"], ".6g"),
            "above\noptimum": or_dash(one["gap"], ".2e"),
            "": mark if one["lam"] == chosen else "",
        }
        for one in candidates
    ]
    used = [name for name in rows[0] if any(row[name] not in ("-", "") for row in rows)]
    return [{name: row[name] for name in used} for row in rows]


def _with_error(above: float, error: float | None) -> str:
    return "-" if error is None else f"{above:.2g} +- {error:.1g}"


def metric_of(cost: float | None, metric: str) -> str:
    """Write a metric by its cost, which is negated where higher is better."""
    return "-" if cost is None else f"{-cost if METRICS[metric].higher else cost:.6g}"


def importance_rows(columns: Importance, most: int, before: Importance | None = None) -> Rows:
    """Lay out how important columns are, the largest share of the scores' variance first.

    Parameters
    ----------
    before
        The same of the model that was published before.
    """
    rows = [_importance_row(one) for one in columns.terms[:most]]
    if before is not None:
        was = {one.name: _importance_row(one) for one in before.terms}
        for row in rows:
            of = was.get(row["column"], dict.fromkeys(row, "-"))
            row |= {f"{name} before": of[name] for name in (SHARE, WITHOUT)}
    return rows


SHARE, WITHOUT = "share of the variance", "loss without it"


def _importance_row(one: Any) -> dict[str, str]:
    return {
        "column": one.name,
        SHARE: f"{one.share:.2%}",
        "mean contribution": f"{one.size:.4g}",
        WITHOUT: f"{one.loss_without:+.4g} +- {NORMAL_975 * one.standard_error:.2g}",
    }


def class_rows(classes: Sequence[ClassFigures], most: int) -> Rows:
    """Lay out what becomes of each class, those that fare worst first."""
    worst = sorted(classes, key=lambda one: 1.0 if one.recall is None else one.recall)
    return [
        {
            "label": one.label,
            "mistaken for": one.mistaken_for or "-",
            "rows": f"{one.rows:,.0f}",
            "recall": or_dash(one.recall, ".4f"),
            "precision": or_dash(one.precision, ".4f"),
        }
        for one in worst[:most]
    ]


def worst_classes(classes: Sequence[ClassFigures], most: int) -> str:
    """Say which classes `class_rows` has."""
    several = len(classes)
    return "Classes" if several <= most else f"The {most} of {several} classes that fare worst"


def slice_rows(slices: Sliced) -> Rows:
    """Lay out the figures of slices of rows, with 95 % intervals."""
    rows = []
    for one in slices:
        figures, metrics = one.evaluation, one.evaluation.metrics
        row = {"slice": one.name, "rows": f"{figures.rows:,}"}
        row["loss"] = f"{figures.loss:.5g} +- {one.loss_within:.2g}"
        if figures.mse is None:
            bounded = one.error_low is not None
            between = f" ({one.error_low:.2%} to {one.error_high:.2%})" if bounded else ""
            row["error"] = or_dash(figures.error, ".2%") + between
            row["base rate"] = or_dash(metrics.base_error, ".2%")
            row["AUC"] = or_dash(figures.auc, ".4f")
        else:
            row["mean absolute error"] = or_dash(metrics.mae, ".5g")
            row["R squared"] = or_dash(figures.r2, ".4f")
        rows.append(row)
    return rows


def fold_rows(folds: Sequence[Any], all_means: Sequence[Any]) -> Rows:
    """Lay out what became of every fold, and the means with their standard errors.

    These are the fields of `training.cross_validation.CrossValidated`.
    """
    means = [one for one in all_means if METRICS[one.metric].brief]
    rows = [
        {
            "fold": str(fold.fold),
            "rows": f"{fold.rows:,}",
            "objective": f"{fold.objective:.6g}",
            "above\noptimum": written_gap(fold.gap, fold.relative_gap, ".1e") or "-",
            **{one.metric: or_dash(fold.evaluation.figure(one.metric), ".5g") for one in means},
        }
        for fold in folds
    ]
    none = dict.fromkeys(rows[0], "")
    mean = none | {"fold": "mean"} | {one.metric: f"{one.mean:.5g}" for one in means}
    error = {one.metric: f"+- {one.standard_error:.2g}" for one in means}
    return [*rows, mean, none | {"fold": "standard error"} | error]


def shown_figures(figures: Evaluation) -> dict[str, str | None]:
    """Write the figures of an evaluation; those without a meaning are None."""
    each = {one.words: _figure(figures, name, one.form) for name, one in METRICS.items()}
    return {"rows": f"{figures.rows:,}"} | each


def _figure(figures: Evaluation, name: str, form: str) -> str | None:
    one = figures.figure(name)
    return None if one is None else format(one, form) + note_of(figures, name, form)


def note_of(figures: Evaluation, name: str, form: str) -> str:
    """Return what is said behind a metric: a base rate, how exact it is, of which rows."""
    base, metrics = METRICS[name].base, figures.metrics
    if base is not None and (rate := getattr(metrics, base)) is not None:
        return f" (base rate {rate:{form}})"
    if name == "auc" and figures.auc_within is not None:
        return f" (exact to {figures.auc_within:.1g})"
    if name == "lift" and metrics.lift_top is not None:
        return f" (in the top {100 * metrics.lift_top:.3g}% of the rows)"
    return ""
